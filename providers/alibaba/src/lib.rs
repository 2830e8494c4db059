//! Alibaba Cloud: the provider `alibabacloud`, also known as `alicloud`.
//!
//! Drop-in replacement for `cloud-provider-alibaba-cloud`: the same file, variables, annotations, provider IDs, names
//! and tags. `docs/providers/alibaba.md` lists the differences and their reasons.

pub mod annotations;
mod api;
mod cen;
pub mod config;
mod credentials;
mod endpoints;
mod gates;
mod instances;
mod lingjun;
mod load_balancers;
mod metrics;
mod provider;
mod routes;
mod services;
mod signing;

pub use provider::{Alibaba, alicloud, factory};

/// The name of the provider in `--cloud-provider`.
pub const NAME: &str = "alibabacloud";

/// The historic name of the provider, and a scheme of its provider IDs.
pub const ALIAS: &str = "alicloud";

/// The source of the provider's events.
pub const EVENT_SOURCE: &str = "alibaba-cloud-controller-manager";
