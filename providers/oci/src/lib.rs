//! Oracle Cloud Infrastructure: the provider `oci`.
//!
//! Drop-in replacement for `oci-cloud-controller-manager`: the same cloud configuration, variables, annotations,
//! provider IDs and labels. `docs/providers/oci.md` lists the differences and their reasons.
//!
//! ```no_run
//! use cloud_provider::{ConfigFile, Setup};
//!
//! let text = "useInstancePrincipals: true\nloadBalancer: {subnet1: ocid1.subnet.oc1.phx.a}".to_owned();
//! let provider = provider_oci::factory(&Setup::of(ConfigFile { path: "cloud-provider.yaml".into(), text }))?;
//! assert_eq!(provider.name(), "oci");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

pub mod annotations;
mod api;
pub mod config;
mod credentials;
mod diagnosis;
mod instance;
mod instances;
mod ipam;
mod load_balancers;
mod metrics;
mod monitoring;
mod nodes;
mod openshift;
mod provider;
mod region;
mod signature;
mod subnets;
mod vnics;

pub use provider::{Oci, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "oci";

/// The source of the provider's events: the component name of the Go cloud controller manager.
pub const EVENT_SOURCE: &str = "service-controller";
