//! `cloud-controller-manager doctor`: finds problems of an installation and tells how to fix them (P-6).
//!
//! `doctor` is read-only. It uses the flags and the identity of the manager. Its Kubernetes client refuses requests
//! that are not reads before they are sent, except access reviews, which the API defines as POST; providers are only
//! read from.
//!
//! Each check returns one or more [`Finding`](cloud_provider::Finding)s. A check that depends on another failed check
//! is not reported again. Judgements are pure functions, apart from the reads.

mod api;
mod clock;
mod cloud;
mod command;
mod dns;
mod examination;
mod files;
mod lease;
mod nodes;
mod orphans;
mod permissions;
mod report;
mod rivals;
mod services;

pub(crate) use command::main;
pub use dns::{Names, SystemNames};
pub use examination::{Subject, examine};
pub use lease::ElectedBy;
pub(crate) use lease::age;
pub use report::{JSON_VERSION, Report, json, text};

/// Name of the subcommand.
pub const SUBCOMMAND: &str = "doctor";
