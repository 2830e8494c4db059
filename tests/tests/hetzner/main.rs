//! Hetzner Cloud with the whole program: the limit of requests, names, waiting for actions, and taking over from its own cloud
//! controller manager (D-11). What every provider passes is in `conformance`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod budget;
mod names;
mod predecessor;
mod take_over;
