//! Hetzner Cloud, with dedicated servers from Robot: the provider `hcloud`.
//!
//! Drop-in replacement for `hcloud-cloud-controller-manager`: the same environment variables, annotations, labels,
//! provider IDs, events and metrics. `docs/providers/hetzner.md` lists the differences and their reasons.
//!
//! | module | purpose |
//! |---|---|
//! | [`config`], [`variables`] | the environment variables |
//! | [`annotations`] | the annotations of a Service |
//! | [`id`] | `hcloud://<id>`, `hrobot://<number>` |
//! | [`transports`], `api`, `actions`, `robot` | the HTTP APIs |
//! | `servers` | machines behind Nodes |
//! | `balancers` | load balancers |
//! | `network`, `routes` | the private network and its routes |
//! | `diagnosis` | the checks of `doctor` |
//! | [`metrics`] | the series of the Go program |
//!
//! ```
//! use cloud_provider::{Environment, Setup};
//!
//! let endpoint = ("HCLOUD_ENDPOINT", "http://127.0.0.1:8080/v1".to_owned());
//! let environment = Environment::of([("HCLOUD_TOKEN", "x".repeat(64)), endpoint]);
//! let provider = provider_hetzner::factory(&Setup { environment, ..Setup::default() })?;
//! assert_eq!(provider.name(), "hcloud");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

mod actions;
pub mod annotations;
mod api;
mod balancers;
pub mod config;
mod diagnosis;
pub mod id;
pub mod metrics;
mod network;
mod provider;
mod robot;
mod routes;
mod servers;
pub mod transports;
pub mod variables;

pub use provider::{Hetzner, factory};

/// The provider's name, and the scheme of the provider ids of cloud servers.
pub const NAME: &str = "hcloud";

/// The source of the provider's events: the component name of the Go cloud controller manager.
pub const EVENT_SOURCE: &str = "hcloud-cloud-controller-manager";
