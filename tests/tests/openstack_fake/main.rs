//! OpenStack with the whole program, on the fake of its control plane: what it costs, moves, and taking over from its own cloud
//! controller manager (D-11). What every provider passes is in `conformance`, what runs on a real control plane in `openstack`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod cost;
mod predecessor;
mod stories;
mod take_over;
