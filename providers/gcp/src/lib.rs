//! Google Cloud: the provider `gce`.
//!
//! Drop-in replacement for the cloud controller manager of `cloud-provider-gcp`: the same configuration file, flags,
//! annotations, provider IDs and labels. `docs/providers/gcp.md` says what is different, and why.
//!
//! ```no_run
//! use cloud_provider::{ConfigFile, Setup};
//!
//! let text = "[global]\nproject-id = demo\nlocal-zone = us-central1-a\n".to_owned();
//! let provider = provider_gcp::factory(&Setup::of(ConfigFile { path: "gce.conf".into(), text }))?;
//! assert_eq!(provider.name(), "gce");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

pub mod annotations;
mod api;
pub mod config;
mod credentials;
mod instances;
mod ipam;
mod kubernetes;
mod load_balancers;
mod metrics;
mod provider;
mod routes;

pub use provider::{Gce, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "gce";

/// The source of its events.
pub const EVENT_SOURCE: &str = "gce-cloud-controller-manager";
