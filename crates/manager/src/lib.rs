//! The process of a cloud controller manager: flags, start-up, endpoints, leader election, shutdown, and the
//! subcommands.
//!
//! A vendor's whole `main` lists its providers and calls [`run`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use cloud_provider::{CloudProvider, Registry};
//!
//! # struct Acme; impl CloudProvider for Acme { fn name(&self) -> &str { "acme" } }
//! fn main() -> ExitCode {
//!     let mut providers = Registry::new();
//!     providers.register("acme", |_setup| Ok(std::sync::Arc::new(Acme)));
//!     manager::run(&providers)
//! }
//! ```

// Compiles the code in the page for vendors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;

mod api_health;
mod caches;
mod callers;
mod candidacy;
mod check;
mod clients;
mod cloud_config;
pub mod configz;
mod controllers_task;
mod core_dumps;
mod credential_watch;
pub mod diagnosis;
pub mod doctor;
mod endpoints;
mod exit;
pub mod explain;
pub mod flags;
mod held_nodes;
pub mod logging;
mod manager;
pub mod orphans;
pub mod permissions;
pub mod plan;
mod prepared;
mod process;
mod provider_events;
mod provider_start;
mod readiness;
mod selection;
pub mod service_accounts;
mod service_review;
mod start;
mod starter;
mod webhooks;
mod work;

pub use controllers_task::{Clients, Handles, Settings, start_controllers};
pub use exit::{Failure, LostLease};
pub use logging::init as init_logging;
pub use manager::{Manager, WebhookFactory};
pub use prepared::Prepared;
pub use process::{block_on, install_crypto, print, run};
pub use selection::Selection;
pub use serving::webhook;
pub use start::launch;
