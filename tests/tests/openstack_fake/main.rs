//! OpenStack with the whole program, on the fake of its control plane: cost, moves, and migration from its own cloud
//! controller manager (D-11). The common proofs of all providers are in `conformance`, those on a real control plane in
//! `openstack`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod cost;
mod predecessor;
mod stories;
mod take_over;
