//! Implementations of the metrics hooks of the other crates.

mod access;
mod api_client;
mod clouds;
mod controllers;
mod election;
mod provider_series;
mod queues;
mod reconciles;
mod reloads;

pub(crate) use access::{Access, Webhooks};
pub(crate) use api_client::ApiClient;
pub(crate) use clouds::{Cloud, OwnCloud};
pub(crate) use controllers::{Lifecycle, NodeDelays, Nodes, Routes, Services};
pub(crate) use election::Elections;
pub(crate) use provider_series::{Family, OwnSeries};
pub(crate) use queues::Queues;
pub(crate) use reconciles::{Reconcile, Reconciles};
pub(crate) use reloads::{Credential, Reloads};

/// Converts a count, which is small enough for a float.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn number(n: usize) -> f64 {
    n as f64
}

/// Returns the value of the label `result`.
fn result(succeeded: bool) -> &'static str {
    if succeeded { "success" } else { "error" }
}

/// Returns the value of the label `code` of a request: its HTTP status, or `<error>` without a response.
fn code(status: Option<u16>) -> String {
    status.map_or_else(|| "<error>".to_owned(), |status| status.to_string())
}
