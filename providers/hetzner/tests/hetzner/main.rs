//! Tests of the provider over the fake: one file for each part.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it does not find what it expects"
)]

mod annotations;
mod balancers;
mod caches;
mod diagnosis;
mod harness;
mod ids;
mod machines;
mod network;
mod nodes;
mod reference;
mod robot;
mod routes;
mod start;
mod variables;
