//! What must be seen in the Kubernetes API, and whether it is (pure).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud_provider::names::{LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE, TAINT_SHUTDOWN};
use cloud_provider::{AddressType, ConditionStatus, Node};

/// Look-ups in the cloud that must follow an explanation before "nothing is deleted" counts.
const FURTHER_PASSES: u32 = 2;
/// Nodes or events that are shown as examples.
const EXAMPLES: usize = 3;

/// What a step must lead to. In every step, no other Node may disappear or be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expectation {
    /// So many Nodes exist, and all wait behind the start-up taint.
    Registered { nodes: usize },
    /// So many Nodes exist, and all are initialised; the cloud was asked in at least so many passes meanwhile. `show`: the
    /// one that is shown as an example.
    Initialised { nodes: usize, passes: u32, show: Option<String> },
    /// The Node is not ready and has the shutdown taint.
    ShutDown { node: String },
    /// The Node is ready and has no shutdown taint.
    Running { node: String },
    /// The Node is gone, and an event said so.
    Deleted { node: String },
    /// These Nodes are not ready and are kept; an event says `why`; the cloud was asked again after that. `refused`: this
    /// one stays uninitialised, and an event says so.
    Kept { nodes: Vec<String>, why: &'static str, refused: Option<String> },
    /// So many Nodes exist, all ready, initialised and without the shutdown taint.
    Settled { nodes: usize },
}

/// What was read from the Kubernetes API, and how often the cloud was asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// All Nodes.
    pub(super) nodes: Vec<Arc<Node>>,
    /// All events about Nodes so far.
    pub(super) said: Vec<Arc<Said>>,
    /// Passes in which the cloud was asked for machines so far.
    pub(super) passes: u32,
}

/// An event about a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// The Node's name.
    pub(super) node: String,
    /// The reason, one word.
    pub(super) reason: String,
    /// The message.
    pub(super) message: String,
    /// Passes at the time it was read.
    pub(super) passes: u32,
}

/// What was there when the step began.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    uids: BTreeMap<Box<str>, Box<str>>,
    said: usize,
    passes: u32,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not yet.
    Waiting {
        /// So many of …
        done: usize,
        /// … so many.
        of: usize,
        /// What there is instead.
        seen: String,
    },
    /// It happened; lines that show it.
    Happened(Vec<String>),
    /// It cannot happen any more.
    Broken(String),
}

impl Baseline {
    pub(super) fn new(observed: &Observed) -> Self {
        let uids = observed.nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect();
        Self { uids, said: observed.said.len(), passes: observed.passes }
    }

    /// Nodes that are not there any more, or are others of the same name.
    fn lost(&self, observed: &Observed, except: Option<&str>) -> Vec<&str> {
        let now: BTreeMap<&str, &str> = observed.nodes.iter().map(|node| (&*node.name, &*node.uid)).collect();
        let lost = self.uids.iter().filter(|(name, uid)| now.get(&***name) != Some(&&***uid));
        lost.map(|(name, _)| &**name).filter(|name| Some(*name) != except).collect()
    }
}

impl Expectation {
    /// What is expected, for messages.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Registered { nodes } => format!("{nodes} Nodes with the start-up taint"),
            Self::Initialised { nodes, .. } => {
                format!(
                    "{nodes} Nodes with provider id, internal address, zone, region and type, without the start-up taint"
                )
            }
            Self::ShutDown { node } => format!("Node {node} not ready, with the shutdown taint"),
            Self::Running { node } => format!("Node {node} ready, without the shutdown taint"),
            Self::Deleted { node } => format!("no Node {node}, and an event DeletingNode"),
            Self::Kept { nodes, why, refused } => {
                let refused = refused.as_ref().map(|node| format!("; InitializationFailed on {node}"));
                let what = if why.is_empty() { String::new() } else { format!(" that says {why:?}") };
                format!(
                    "{} Node(s) not ready and kept, with an event NodeDeletionHeld{what}{}",
                    nodes.len(),
                    refused.unwrap_or_default()
                )
            }
            Self::Settled { nodes } => format!("{nodes} Nodes, all ready and untainted"),
        }
    }

    /// Whether it is so.
    pub(super) fn judge(&self, before: &Baseline, now: &Observed) -> Verdict {
        let doomed = if let Self::Deleted { node } = self { Some(node.as_str()) } else { None };
        let lost = before.lost(now, doomed);
        if !lost.is_empty() {
            let names = lost[..lost.len().min(EXAMPLES)].join(", ");
            return Verdict::Broken(format!("{} Node(s) deleted or replaced: {names}", lost.len()));
        }
        match self {
            Self::Registered { nodes } => all(now, *nodes, Node::is_uninitialized),
            Self::Initialised { nodes, passes, show } => match all(now, *nodes, is_initialised) {
                Verdict::Happened(_) => match now.passes - before.passes {
                    asked if asked < *passes => waiting_for_passes(asked, *passes),
                    _ => Verdict::Happened(examples(now, show.as_deref())),
                },
                verdict => verdict,
            },
            Self::Settled { nodes } => {
                all(now, *nodes, |node| is_initialised(node) && is_ready(node) && !is_shut_down(node))
            }
            Self::ShutDown { node } => one(now, node, |node| !is_ready(node) && is_shut_down(node)),
            Self::Running { node } => one(now, node, |node| is_ready(node) && !is_shut_down(node)),
            Self::Deleted { node } => deleted(before, now, node),
            Self::Kept { nodes, why, refused } => kept(before, now, nodes, why, refused.as_deref()),
        }
    }
}

fn is_ready(node: &Node) -> bool {
    node.ready == ConditionStatus::True
}

fn is_shut_down(node: &Node) -> bool {
    node.taints.iter().any(|taint| &*taint.key == TAINT_SHUTDOWN)
}

fn is_initialised(node: &Node) -> bool {
    !node.is_uninitialized()
        && node.provider_id().is_some()
        && node.addresses.iter().any(|address| address.kind == AddressType::InternalIP)
        && [LABEL_ZONE, LABEL_REGION, LABEL_INSTANCE_TYPE].iter().all(|label| node.labels.get(label).is_some())
}

/// Some Nodes, or a certain one, in one line each.
fn examples(now: &Observed, only: Option<&str>) -> Vec<String> {
    let wanted = now.nodes.iter().filter(|node| only.is_none_or(|only| &*node.name == only));
    let mut shown: Vec<String> = wanted.take(EXAMPLES).map(|node| describe(node)).collect();
    if only.is_none() && now.nodes.len() > EXAMPLES {
        shown.push(format!("… and {} more", now.nodes.len() - EXAMPLES));
    }
    shown
}

fn describe(node: &Node) -> String {
    let label = |name| node.labels.get(name).unwrap_or("-");
    let address = node.addresses.iter().find(|address| address.kind == AddressType::InternalIP);
    let address = address.map_or("-", |address| &*address.address);
    let id = node.provider_id().unwrap_or("-");
    format!("{}: {id}, {address}, {}, {}", node.name, label(LABEL_ZONE), label(LABEL_INSTANCE_TYPE))
}

fn state(node: &Node) -> String {
    let taints: Vec<_> = node.taints.iter().map(|taint| &*taint.key).collect();
    let taints = if taints.is_empty() { "no taint".to_owned() } else { format!("taints {}", taints.join(", ")) };
    format!("Node {} with Ready={:?}, {taints}", node.name, node.ready)
}

fn waiting_for_passes(done: u32, of: u32) -> Verdict {
    let seen = format!("the cloud was asked in {done} of {of} passes");
    Verdict::Waiting { done: done as usize, of: of as usize, seen }
}

fn all(now: &Observed, nodes: usize, good: impl Fn(&Node) -> bool) -> Verdict {
    let done = now.nodes.iter().filter(|node| good(node)).count();
    if done == nodes && now.nodes.len() == nodes {
        return Verdict::Happened(Vec::new());
    }
    let other = now.nodes.iter().find(|node| !good(node)).map(|node| format!("; {}", state(node)));
    let seen = format!("{done} of {} Nodes are so{}", now.nodes.len(), other.unwrap_or_default());
    Verdict::Waiting { done, of: nodes, seen }
}

fn one(now: &Observed, name: &str, good: impl Fn(&Node) -> bool) -> Verdict {
    match now.nodes.iter().find(|node| &*node.name == name) {
        None => Verdict::Broken(format!("no Node {name}")),
        Some(node) if good(node) => Verdict::Happened(vec![state(node)]),
        Some(node) => Verdict::Waiting { done: 0, of: 1, seen: state(node) },
    }
}

fn event(said: &Said) -> String {
    format!("{}: {}: {}", said.node, said.reason, said.message)
}

fn deleted(before: &Baseline, now: &Observed, name: &str) -> Verdict {
    if let Some(node) = now.nodes.iter().find(|node| &*node.name == name) {
        return Verdict::Waiting { done: 0, of: 1, seen: state(node) };
    }
    match now.said[before.said..].iter().find(|said| said.reason == "DeletingNode" && said.node == name) {
        Some(said) => Verdict::Happened(vec![event(said)]),
        None => Verdict::Waiting { done: 0, of: 1, seen: format!("no Node {name}, but no event either") },
    }
}

fn kept(before: &Baseline, now: &Observed, names: &[String], why: &str, refused: Option<&str>) -> Verdict {
    let waiting = |done, seen| Verdict::Waiting { done, of: 3, seen };
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    if let Some(node) = now.nodes.iter().find(|node| names.contains(&*node.name) && is_ready(node)) {
        return waiting(0, state(node));
    }
    let news = &now.said[before.said..];
    let held = |said: &&Arc<Said>| {
        said.reason == "NodeDeletionHeld" && names.contains(said.node.as_str()) && said.message.contains(why)
    };
    let Some(first) = news.iter().find(held) else {
        return waiting(1, "no such event, and no Node deleted".to_owned());
    };
    let mut details = vec![event(first)];
    if names.len() > 1 {
        let told: BTreeSet<&str> = news.iter().filter(held).map(|said| said.node.as_str()).collect();
        details.push(format!("{} of {} Nodes have such an event so far", told.len(), names.len()));
    }
    if let Some(name) = refused {
        let stuck = now.nodes.iter().any(|node| &*node.name == name && node.is_uninitialized());
        match news.iter().find(|said| said.reason == "InitializationFailed" && said.node == name) {
            Some(said) if stuck => details.push(event(said)),
            _ => return waiting(1, format!("no event InitializationFailed on an uninitialised Node {name}")),
        }
    }
    match now.passes - first.passes {
        passes if passes < FURTHER_PASSES => {
            waiting(2, format!("the event, and {passes} of {FURTHER_PASSES} further passes"))
        }
        _ => Verdict::Happened(details),
    }
}

#[cfg(test)]
mod tests;
