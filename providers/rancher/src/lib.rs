//! Rancher 1.6 (Cattle): the provider `rancher`.
//!
//! Drop-in replacement for `rancher-cloud-controller-manager`: the same environment variables, names of load balancers
//! and external services. `docs/providers/rancher.md` lists the differences and their reasons.
//!
//! ```no_run
//! use cloud_provider::{Environment, Setup};
//!
//! let environment = Environment::of([
//!     ("CATTLE_URL", "https://rancher.example.org/v2-beta/projects/1a5"),
//!     ("CATTLE_ACCESS_KEY", "key"),
//!     ("CATTLE_SECRET_KEY", "s3cret"),
//! ]);
//! let provider = provider_rancher::factory(&Setup { environment, ..Setup::default() })?;
//! assert_eq!(provider.name(), "rancher");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

mod api;
pub mod config;
mod hosts;
mod load_balancers;
mod provider;

pub use api::cloud;
pub use load_balancers::annotations;
pub use provider::{Rancher, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "rancher";

/// The source of the provider's events: the name of the Go program.
pub const EVENT_SOURCE: &str = "rancher-cloud-controller-manager";
