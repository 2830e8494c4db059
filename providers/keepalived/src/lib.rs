//! keepalived on bare metal: the provider `keepalived`.
//!
//! Drop-in replacement for `keepalived-cloud-provider`: the same variables, annotation and ConfigMap. The provider gives
//! each Service virtual IP addresses and writes them into a ConfigMap, which the DaemonSet `kube-keepalived-vip` turns
//! into the configuration of keepalived. `docs/providers/keepalived.md` lists the differences and their reasons.
//!
//! ```
//! use cloud_provider::{Environment, Setup};
//!
//! let environment = Environment::of([
//!     ("KEEPALIVED_NAMESPACE", "kube-system"),
//!     ("KEEPALIVED_CONFIG_MAP", "vip-configmap"),
//!     ("KEEPALIVED_SERVICE_CIDR", "192.0.2.64/26"),
//! ]);
//! let provider = provider_keepalived::factory(&Setup { environment, ..Setup::default() })?;
//! assert_eq!(provider.name(), "keepalived");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

mod address_book;
mod assignment;
pub mod config;
mod config_map;
mod load_balancers;
mod metrics;
mod pools;
mod provider;
mod services;
mod unused;

pub use provider::{Keepalived, factory};

/// The name of the provider in `--cloud-provider`.
pub const NAME: &str = "keepalived";

/// The source of the provider's events: the name of the Go program.
pub const EVENT_SOURCE: &str = "keepalived-cloud-provider";
