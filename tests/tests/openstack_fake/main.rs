//! OpenStack with the whole program, on the fake of its control plane: the proofs that every provider passes, what it costs,
//! and taking over from its own cloud controller manager (D-11). What runs on a real control plane is in `openstack`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod cost;
mod endless;
mod predecessor;
mod proofs;
mod stories;
mod take_over;
