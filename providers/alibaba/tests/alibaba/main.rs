//! Tests of what is particular to Alibaba Cloud, on a fake of its APIs. The conformance suite is in `tests`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod configuration;
mod contract;
mod credentials;
mod harness;
mod load_balancers;
mod nodes;
