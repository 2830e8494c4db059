//! AWS: the provider `aws`.
//!
//! Drop-in replacement for `aws-cloud-controller-manager`: the same file, flags, annotations, provider IDs and labels.
//! `docs/providers/aws.md` says what is different, and why.

pub mod annotations;
mod api;
pub mod config;
mod diagnosis;
mod fargate;
mod instances;
mod labels;
mod load_balancers;
mod metrics;
mod nodes;
pub mod permissions;
mod provider;
mod routes;
mod tagging;
#[cfg(test)]
mod tests;

pub use provider::{Ec2, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "aws";

/// The source of its events.
pub const EVENT_SOURCE: &str = "aws-cloud-controller-manager";
