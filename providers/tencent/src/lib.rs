//! Tencent Cloud: the provider `tencentcloud`.
//!
//! Drop-in replacement for `tencentcloud-cloud-controller-manager`: the same file, variables, annotations, provider IDs
//! and route tables, over API 3.0. `docs/providers/tencent.md` lists the differences and their reasons.
//!
//! ```no_run
//! use cloud_provider::{ConfigFile, Setup};
//!
//! let text = r#"{"region": "ap-guangzhou", "vpc_id": "vpc-1", "secret_id": "id", "secret_key": "example"}"#;
//! let file = ConfigFile { path: "cloud-config".into(), text: text.into() };
//! let provider = provider_tencent::factory(&Setup::of(file))?;
//! assert_eq!(provider.name(), "tencentcloud");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

mod action;
pub mod annotations;
mod api;
pub mod config;
mod credentials;
mod endpoints;
mod instances;
mod load_balancers;
mod provider;
mod refusals;
mod routes;
mod signing;

pub use provider::{Tencent, factory};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "tencentcloud";

/// The scheme of provider IDs that kubelets of TKE write.
pub const TKE_SCHEME: &str = "qcloud";

/// The source of the provider's events.
pub const EVENT_SOURCE: &str = "tencentcloud-cloud-controller-manager";
