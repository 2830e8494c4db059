//! The protocol crate against an AWS in the same process.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cloud;
mod credentials;
mod endpoints;
mod errors;
mod moto;
mod queries;
