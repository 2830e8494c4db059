//! OpenStack: the provider `openstack`.
//!
//! It takes the place of `openstack-cloud-controller-manager`: the same `cloud.conf`, annotations, labels, provider ids,
//! events and metrics. What is different, and why, is in `docs/providers/openstack.md`.

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
mod stage;
mod transports;

pub use provider::{OpenStack, factory};

/// The provider's name, and the scheme of its provider ids.
pub const NAME: &str = "openstack";

/// The source of its events.
pub const EVENT_SOURCE: &str = "cloud-provider-openstack";
