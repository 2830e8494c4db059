//! `cloud-controller-manager explain`: tells on one screen why a Node or Service is in its state.
//!
//! `explain` reads the object, its events and the lease from Kubernetes and the state of the cloud from the provider,
//! and uses the code of [`plan`](crate::commands::plan) for the changes to come. A pure function turns these facts into
//! [`Cause`]s. Each state in which the controllers let an object wait, hold it or leave it alone is a [`State`] with
//! its meaning and advice.
//!
//! `explain` is read-only: its Kubernetes client refuses requests that are not reads before they are sent, and the
//! provider is only read from.

mod cause;
mod cluster;
mod command;
mod facts;
mod node;
mod output;
mod read;
mod report;
mod rows;
mod service;
mod state;
mod subject;
#[cfg(test)]
mod tests;

pub use cause::Cause;
pub(crate) use command::main;
pub use facts::{EventFact, Leader};
pub use output::{JSON_VERSION, json, text};
pub use read::{Reader, explain};
pub use report::{Explanation, LastError};
pub use rows::Row;
pub use state::{State, Weight};
pub use subject::Subject;

/// Name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "explain";
