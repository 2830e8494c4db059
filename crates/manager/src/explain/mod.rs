//! `cloud-controller-manager explain`: why a Node or Service is as it is, on one screen.
//!
//! The object, its events and the lease are read from Kubernetes, the provider is asked what the cloud has, and the code of
//! [`plan`](crate::plan) tells what would change next. A pure function turns these facts into [`Cause`]s: each state in which
//! the controllers let an object wait, hold it or leave it alone is a [`State`] with its meaning and with what to do.
//!
//! Nothing is changed: the Kubernetes client refuses whatever is not a read before it is sent, and of the provider
//! nothing but reads is called.

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

/// The name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "explain";
