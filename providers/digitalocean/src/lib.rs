//! DigitalOcean: the provider `digitalocean`.
//!
//! Drop-in replacement for `digitalocean-cloud-controller-manager`: the same environment variables, annotations,
//! provider IDs, tags and metrics. `docs/providers/digitalocean.md` lists the differences and their reasons.
//!
//! ```
//! use cloud_provider::{Environment, Setup};
//!
//! let endpoint = ("DO_OVERRIDE_URL", "http://127.0.0.1:8080".to_owned());
//! let environment = Environment::of([("DO_ACCESS_TOKEN", "dop_v1_example".to_owned()), endpoint]);
//! let provider = provider_digitalocean::factory(&Setup { environment, ..Setup::default() })?;
//! assert_eq!(provider.name(), "digitalocean");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

pub mod annotations;
mod api;
pub mod config;
mod debug;
mod diagnosis;
mod droplets;
mod firewall;
mod load_balancers;
mod metrics;
mod provider;
mod rate;
mod tags;
pub mod variables;

pub use api::cloud;
pub use provider::{DigitalOcean, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "digitalocean";

/// The source of the provider's events: the component name of the Go cloud controller manager.
pub const EVENT_SOURCE: &str = "digitalocean-cloud-controller-manager";
