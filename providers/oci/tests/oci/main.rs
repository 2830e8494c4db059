//! Tests of what is particular to Oracle Cloud, on the fake of its APIs. The conformance suite runs in `ccm-tests`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod contract;
mod harness;
mod load_balancers;
mod nodes;
