//! Linode (Akamai Cloud): the provider `linode`.
//!
//! Drop-in replacement for `linode-cloud-controller-manager`: the same variables, flags, annotations, provider IDs and
//! labels. `docs/providers/linode.md` lists the differences and their reasons.
//!
//! ```no_run
//! use cloud_provider::{Environment, Setup};
//!
//! let environment = Environment::of([("LINODE_API_TOKEN", "example"), ("LINODE_REGION", "us-east")]);
//! let provider = provider_linode::factory(&Setup { environment, ..Setup::default() })?;
//! assert_eq!(provider.name(), "linode");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

pub mod annotations;
mod api;
pub mod config;
mod ipam;
mod linodes;
mod metadata;
mod metrics;
mod nodebalancers;
mod provider;
mod routes;
mod vpcs;

pub use api::cloud;
pub use provider::{Linode, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "linode";

/// The source of the provider's events: the component name of the Go cloud controller manager.
pub const EVENT_SOURCE: &str = "linode-cloud-controller-manager";
