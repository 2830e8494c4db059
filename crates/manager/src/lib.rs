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

mod build_info;
mod commands;
mod controller_set;
mod core_dumps;
pub mod diagnosis;
mod election;
mod endpoints;
mod exit;
pub mod flags;
mod kubernetes;
mod launch;
pub mod logging;
mod manager;
mod output;
pub mod permissions;
mod process;
mod provider;
mod signals;
mod standby;
#[cfg(test)]
mod test_provider;
mod threads;

pub use commands::{doctor, explain, orphans, plan};
pub use controller_set::{Handles, Selection, Settings, start_controllers};
pub use exit::{Failure, LostLease};
pub use kubernetes::{Clients, ServiceAccountClients, ServiceAccountError};
pub use launch::launch;
pub use logging::init as init_logging;
pub use manager::{Manager, WebhookFactory};
pub use output::{print, print_error, unwritable};
pub use process::Process;
pub use serving::webhook;
pub use threads::{block_on, install_crypto};

/// Runs the cloud controller manager, or one of its subcommands, with the arguments of the process, and returns its
/// exit code.
#[must_use]
pub fn run(providers: &cloud_provider::Registry) -> std::process::ExitCode {
    Manager::new(providers).run()
}
