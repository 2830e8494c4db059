//! `cloud-controller-manager check`: finds mistakes in Services in files, for CI pipelines.
//!
//! `check` creates the provider without a credential and reviews each Service like the admission webhook. No request is
//! sent.

mod command;
mod documents;
mod input;
mod places;
mod report;
mod stored;

pub(crate) use command::main;

/// Name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "check";
