//! Scenarios that are particular to AWS, on the fake: the start, Fargate, labels, tags and load balancers.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod classic;
mod harness;
mod network;
mod nodes;
mod start;
mod tagging;
