//! Hetzner Cloud with the whole program: the rate limit, names, waiting for actions, and migration from its own cloud
//! controller manager (D-11). The common proofs of all providers are in `conformance`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod budget;
mod names;
mod predecessor;
mod take_over;
