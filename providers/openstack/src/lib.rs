//! OpenStack: the provider `openstack`.
//!
//! Drop-in replacement for `openstack-cloud-controller-manager`: the same `cloud.conf`, annotations, labels, provider IDs,
//! events and metrics. `docs/providers/openstack.md` explains the differences.

pub mod annotations;
mod balancers;
mod catalogue;
mod clouds_yaml;
pub mod config;
mod diagnosis;
pub mod features;
pub mod id;
pub mod keys;
mod keystone;
pub mod metrics;
mod ports;
mod provider;
mod routes;
mod servers;
pub mod services;
#[cfg(test)]
mod tests;
mod transports;

pub use provider::{OpenStack, factory};

/// The provider's name, and the scheme of its provider ids.
pub const NAME: &str = "openstack";

/// The source of the provider's events: the component name of the Go cloud-controller-manager.
pub const EVENT_SOURCE: &str = "cloud-provider-openstack";
