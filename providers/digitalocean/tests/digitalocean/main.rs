//! The provider over the fake of its API.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod adoption;
mod annotations;
mod configuration;
mod contract;
mod firewall;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod reference;
mod replacement;
