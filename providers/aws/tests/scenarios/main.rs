//! What is particular to AWS, on the fake: the start, Nodes of Fargate, labels, tags, and settings of load balancers.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod classic;
mod harness;
mod network;
mod nodes;
mod start;
mod tagging;
