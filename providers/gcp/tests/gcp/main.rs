//! Tests of what is particular to Google Cloud, on the fake of its API.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod configuration;
mod contract;
mod credentials;
mod families;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod takeover;
