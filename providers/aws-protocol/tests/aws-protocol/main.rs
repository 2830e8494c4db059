//! The protocol crate against an AWS in the same process.

mod cloud;
mod credentials;
mod endpoints;
mod errors;
mod queries;
