//! Expected states of the Kubernetes API and the cloud, and their judgement as pure functions.

mod nodes;
mod routes;
mod services;

use std::time::Duration;

use cloud_provider::{Node, counted};

use super::changes::Inventory;
use super::observed::{Baseline, Observed};
use super::tally::Tally;
use nodes::{is_initialised, is_ready, is_shut_down};

/// Number of Nodes, Services, routes or events that are shown as examples.
const EXAMPLES: usize = 3;

/// An expected result of a step. In every step, no other Node may be deleted or replaced, and no load balancer may be
/// replaced or lose its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expectation {
    /// Exactly `nodes` Nodes exist, all with the uninitialized taint.
    Registered { nodes: usize },
    /// Exactly `nodes` Nodes exist, all initialized, after at least `passes` further passes over the cloud. `show` is
    /// the Node to show as an example.
    Initialised {
        nodes: usize,
        passes: u32,
        show: Option<String>,
    },
    /// The Node is not ready and has the shutdown taint.
    ShutDown { node: String },
    /// The Node is ready and has no shutdown taint.
    Running { node: String },
    /// The Node was deleted, and an event reported the deletion.
    Deleted { node: String },
    /// The Nodes are not ready and are kept; an event reports `why`, and a later pass has read the cloud again. The
    /// Node `refused` stays uninitialized, with an event.
    Kept {
        nodes: Vec<String>,
        why: &'static str,
        refused: Option<String>,
    },
    /// Exactly `nodes` Nodes exist, all ready, initialized and without the shutdown taint.
    Settled { nodes: usize },
    /// The cloud has exactly one route for the Pod CIDR of each of the `nodes` initialized Nodes, and the Nodes'
    /// conditions report the routes.
    Routed { nodes: usize },
    /// Each of these Services, by name and port, has a load balancer: its address in the status, the finalizer, one
    /// listener, and every initialized Node as a target. No other Service has one, and the cloud has no other.
    Balanced { ports: Vec<(String, u16)> },
    /// The Service does not exist.
    Gone { service: String },
    /// The controllers were killed while they worked on this Service, which has the finalizer. `deleting`: the Service
    /// is being deleted. `in_cloud`: its load balancer exists.
    Interrupted {
        service: String,
        deleting: bool,
        in_cloud: bool,
    },
    /// The controllers request at most this number of changes from the cloud.
    AtMost { changes: u64 },
    /// The controllers request no change from the cloud for this time after all actions; with `silent`, they do not
    /// write to the Kubernetes API either.
    Still { dwell: Duration, silent: bool },
}

/// The progress of an expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpectationVerdict {
    /// The expectation is not fulfilled yet.
    Waiting {
        /// Number of objects that fulfil the expectation.
        done: usize,
        /// Number of objects that must fulfil it.
        of: usize,
        /// Text about the current state.
        seen: String,
    },
    /// The expectation is fulfilled, as these lines show.
    Happened(Vec<String>),
    /// The expectation can no longer be fulfilled.
    Broken(String),
}

/// Judges all expectations: broken if any of them is, else waiting if any of them is. Returns the text of the
/// expectation, and in any case the changes in the cloud.
pub(super) fn judge(
    expectations: &[Expectation],
    before: &Baseline,
    now: &Observed,
) -> (String, ExpectationVerdict) {
    let all = || {
        expectations
            .iter()
            .map(Expectation::text)
            .collect::<Vec<_>>()
            .join("; ")
    };
    if let Some(broken) = broken_expectation(expectations, before, now) {
        return (all(), ExpectationVerdict::Broken(broken));
    }
    let mut waiting = None;
    let mut shown = Vec::new();
    for expectation in expectations {
        match expectation.judge(before, now) {
            ExpectationVerdict::Happened(lines) => shown.extend(lines),
            ExpectationVerdict::Broken(seen) => {
                return (expectation.text(), ExpectationVerdict::Broken(seen));
            }
            verdict @ ExpectationVerdict::Waiting { .. } => {
                _ = waiting.get_or_insert((expectation.text(), verdict));
            }
        }
    }
    waiting.unwrap_or_else(|| {
        shown.extend(Inventory::of(now).changes_since(&before.inventory));
        (all(), ExpectationVerdict::Happened(shown))
    })
}

/// Returns the objects that were lost although no step may lose them.
fn broken_expectation(
    expectations: &[Expectation],
    before: &Baseline,
    now: &Observed,
) -> Option<String> {
    let doomed = expectations
        .iter()
        .find_map(|expectation| match expectation {
            Expectation::Deleted { node } => Some(node.as_str()),
            _ => None,
        });
    let lost = before.lost(now, doomed);
    if !lost.is_empty() {
        let names = lost[..lost.len().min(EXAMPLES)].join(", ");
        return Some(format!(
            "{} deleted or replaced: {names}",
            counted(lost.len(), "Node")
        ));
    }
    let moved = before.moved(now);
    (!moved.is_empty()).then(|| format!("load balancer replaced: {}", moved.join(", ")))
}

impl Expectation {
    /// Returns the expectation as text, for messages.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Registered { nodes } => format!("{nodes} Nodes with the uninitialized taint"),
            Self::Initialised { nodes, .. } => {
                format!(
                    "{nodes} Nodes with provider id, internal address, zone, region and type, without the \
                     uninitialized taint"
                )
            }
            Self::ShutDown { node } => format!("Node {node} not ready, with the shutdown taint"),
            Self::Running { node } => format!("Node {node} ready, without the shutdown taint"),
            Self::Deleted { node } => format!("no Node {node}, and an event DeletingNode"),
            Self::Kept {
                nodes,
                why,
                refused,
            } => {
                let refused = refused
                    .as_ref()
                    .map(|node| format!("; InitializationFailed on {node}"));
                let what = if why.is_empty() {
                    String::new()
                } else {
                    format!(" that says {why:?}")
                };
                format!(
                    "{} not ready and kept, with an event NodeDeletionHeld{what}{}",
                    counted(nodes.len(), "Node"),
                    refused.unwrap_or_default()
                )
            }
            Self::Settled { nodes } => format!("{nodes} Nodes, all ready and untainted"),
            Self::Routed { nodes } => {
                format!(
                    "{nodes} routes, one to each Node's Pod range, no other, and NetworkUnavailable=False/RouteCreated"
                )
            }
            Self::Balanced { ports } => services::expected(ports),
            Self::Gone { service } => format!("no Service {service}"),
            Self::Interrupted {
                service,
                deleting,
                in_cloud,
            } => format!(
                "Service {service} {} with its finalizer, and {} load balancer of it in the cloud",
                if *deleting {
                    "waiting for its end"
                } else {
                    "without an address,"
                },
                if *in_cloud { "the" } else { "no" }
            ),
            Self::AtMost { changes } => {
                let changes = usize::try_from(*changes).unwrap_or(usize::MAX);
                format!("at most {} asked of the cloud", counted(changes, "change"))
            }
            Self::Still { dwell, silent } => format!(
                "no change asked of the cloud{} for {} s",
                if *silent { " or of Kubernetes" } else { "" },
                dwell.as_secs_f64()
            ),
        }
    }

    /// Returns the progress of the expectation.
    fn judge(&self, before: &Baseline, now: &Observed) -> ExpectationVerdict {
        match self {
            Self::Registered { nodes } => nodes::all(now, *nodes, Node::is_uninitialized),
            Self::Initialised {
                nodes,
                passes,
                show,
            } => match nodes::all(now, *nodes, is_initialised) {
                ExpectationVerdict::Happened(_) => match now.passes - before.passes {
                    asked if asked < *passes => nodes::waiting_for_passes(asked, *passes),
                    _ => ExpectationVerdict::Happened(nodes::examples(now, show.as_deref())),
                },
                verdict => verdict,
            },
            Self::Settled { nodes } => nodes::all(now, *nodes, |node| {
                is_initialised(node) && is_ready(node) && !is_shut_down(node)
            }),
            Self::ShutDown { node } => {
                nodes::one(now, node, |node| !is_ready(node) && is_shut_down(node))
            }
            Self::Running { node } => {
                nodes::one(now, node, |node| is_ready(node) && !is_shut_down(node))
            }
            Self::Deleted { node } => nodes::deleted(before, now, node),
            Self::Kept {
                nodes,
                why,
                refused,
            } => nodes::kept(before, now, nodes, why, refused.as_deref()),
            Self::Routed { nodes } => routes::routed(now, *nodes),
            Self::Balanced { ports } => services::balanced(now, ports),
            Self::Gone { service } => services::gone(now, service),
            Self::Interrupted {
                service,
                deleting,
                in_cloud,
            } => services::interrupted(now, service, *deleting, *in_cloud),
            Self::AtMost { changes } => at_most(&now.changes.since(&before.changes), *changes),
            Self::Still { dwell, silent } => still(before, now, *dwell, *silent),
        }
    }
}

fn at_most(asked: &Tally, most: u64) -> ExpectationVerdict {
    let text = format!("changes asked of the cloud: {asked}");
    if asked.total() > most {
        ExpectationVerdict::Broken(text)
    } else {
        ExpectationVerdict::Happened(vec![text])
    }
}

fn still(before: &Baseline, now: &Observed, dwell: Duration, silent: bool) -> ExpectationVerdict {
    let changes = now.changes.since(&before.changes);
    let writes = now.writes.since(&before.writes);
    let text = format!("changes asked of the cloud: {changes}; writes to Kubernetes: {writes}");
    if changes.total() > 0 || silent && writes.total() > 0 {
        return ExpectationVerdict::Broken(text);
    }
    let passed = now.at.saturating_sub(before.acted);
    if passed < dwell {
        let millis =
            |duration: Duration| usize::try_from(duration.as_millis()).unwrap_or(usize::MAX);
        let seen = format!("{text}; in {:.1} s", passed.as_secs_f64());
        return ExpectationVerdict::Waiting {
            done: millis(passed),
            of: millis(dwell),
            seen,
        };
    }
    ExpectationVerdict::Happened(vec![format!("{text}; in {:.1} s", passed.as_secs_f64())])
}

#[cfg(test)]
mod tests;
