//! `cloud-controller-manager doctor`: what is wrong with this installation, and what to do (P-6).
//!
//! It looks where the manager would, with the same flags and the same identity, and changes nothing: its Kubernetes client
//! refuses whatever is not a read before it is sent (but for questions about permissions, which the API wants as POST), and
//! a provider is asked nothing but reads.
//!
//! Each check answers with one or more [`Finding`](cloud_provider::Finding)s; what cannot be checked because something else
//! failed before is said once. Judgements are pure functions beside their reads.

mod api;
mod clock;
mod cloud;
mod command;
mod dns;
mod examination;
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
pub(crate) use lease::{age, seconds};
pub use report::{JSON_VERSION, Report, json, text};

/// The name of the subcommand.
pub const SUBCOMMAND: &str = "doctor";
