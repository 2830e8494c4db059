//! Hetzner Cloud with the whole program: the proofs that every provider passes, what it costs, the limit of requests, and
//! taking over from its own cloud controller manager (D-11).

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod budget;
mod endless;
mod names;
mod predecessor;
mod proofs;
mod take_over;
mod waiting;
