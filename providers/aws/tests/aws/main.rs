//! The provider over the fake of AWS.

#![allow(clippy::unwrap_used, reason = "tests")]

mod harness;
mod permissions;
mod takeover;
