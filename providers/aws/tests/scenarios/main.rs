//! Scenarios that are particular to AWS: those in `both` run on the fake and on moto, the others on the fake alone, because
//! moto does not have what they need.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod both;
mod classic;
mod harness;
mod network;
mod nodes;
mod permissions;
mod start;
mod tagging;
mod takeover;
