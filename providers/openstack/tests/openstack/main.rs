//! The provider of OpenStack, against services in this process.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it does not find what it expects"
)]

mod annotations;
mod balancers;
mod config;
mod reference;
mod services;
mod wanted;
