//! `cloud-controller-manager check`: mistakes in Services that are in files, for pipelines.
//!
//! The provider is created without a credential, and reviews each Service as the admission webhook does. Nothing is sent
//! anywhere.

mod command;
mod documents;
mod input;
mod places;
mod report;
mod stored;

pub(crate) use command::main;

/// The name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "check";
