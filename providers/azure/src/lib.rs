//! Microsoft Azure: the provider `azure`.
//!
//! Drop-in replacement for `cloud-provider-azure`: the same configuration file, annotations, provider IDs, labels and
//! resource names. `docs/providers/azure.md` lists the differences and their reasons.
//!
//! ```no_run
//! use cloud_provider::{ConfigFile, Setup};
//!
//! let text = r#"{"tenantId": "t", "subscriptionId": "s", "aadClientId": "c", "aadClientSecret": "example",
//!     "resourceGroup": "nodes", "location": "westeurope", "securityGroupName": "nodes"}"#;
//! let provider = provider_azure::factory(&Setup::of(ConfigFile { path: "azure.json".into(), text: text.into() }))?;
//! assert_eq!(provider.name(), "azure");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

pub mod annotations;
mod arm;
mod auxiliary_tokens;
mod clouds;
pub mod config;
mod config_secret;
mod credentials;
mod documents;
pub mod ipam;
mod load_balancers;
mod machines;
mod metrics;
mod nodes;
mod out_of_service;
mod provider;
mod rate_limits;
mod routes;
mod tags;

pub use provider::{Azure, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "azure";

/// The source of the provider's events: the component name of the Go cloud controller manager.
pub const EVENT_SOURCE: &str = "azure-cloud-provider";
