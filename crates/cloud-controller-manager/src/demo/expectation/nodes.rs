//! Judgement of the expectations about Nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::names::{LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE, TAINT_SHUTDOWN};
use cloud_provider::{AddressType, ConditionStatus, Node};

use super::super::observed::{Baseline, Observed, ObservedEvent};
use super::{EXAMPLES, ExpectationVerdict};

/// Number of further passes over the cloud after an explanation, before Nodes count as kept.
const FURTHER_PASSES: u32 = 2;

pub(super) fn is_ready(node: &Node) -> bool {
    node.ready == ConditionStatus::True
}

pub(super) fn is_shut_down(node: &Node) -> bool {
    node.taints
        .iter()
        .any(|taint| &*taint.key == TAINT_SHUTDOWN)
}

pub(super) fn is_initialised(node: &Node) -> bool {
    !node.is_uninitialized()
        && node.provider_id().is_some()
        && node
            .addresses
            .iter()
            .any(|address| address.kind == AddressType::InternalIP)
        && [LABEL_ZONE, LABEL_REGION, LABEL_INSTANCE_TYPE]
            .iter()
            .all(|label| node.labels.get(label).is_some())
}

/// Describes some Nodes, or a certain one, on one line each.
pub(super) fn examples(now: &Observed, only: Option<&str>) -> Vec<String> {
    let wanted = now
        .nodes
        .iter()
        .filter(|node| only.is_none_or(|only| &*node.name == only));
    let mut shown: Vec<String> = wanted.take(EXAMPLES).map(|node| describe(node)).collect();
    if only.is_none() && now.nodes.len() > EXAMPLES {
        shown.push(format!("… and {} more", now.nodes.len() - EXAMPLES));
    }
    shown
}

fn describe(node: &Node) -> String {
    let label = |name| node.labels.get(name).unwrap_or("-");
    let address = node
        .addresses
        .iter()
        .find(|address| address.kind == AddressType::InternalIP);
    let address = address.map_or("-", |address| &*address.address);
    let id = node.provider_id().unwrap_or("-");
    format!(
        "{}: {id}, {address}, {}, {}",
        node.name,
        label(LABEL_ZONE),
        label(LABEL_INSTANCE_TYPE)
    )
}

fn state(node: &Node) -> String {
    let taints: Vec<_> = node.taints.iter().map(|taint| &*taint.key).collect();
    let taints = if taints.is_empty() {
        "no taint".to_owned()
    } else {
        format!("taints {}", taints.join(", "))
    };
    format!("Node {} with Ready={:?}, {taints}", node.name, node.ready)
}

pub(super) fn waiting_for_passes(done: u32, of: u32) -> ExpectationVerdict {
    let seen = format!("the cloud was asked in {done} of {of} passes");
    ExpectationVerdict::Waiting {
        done: done as usize,
        of: of as usize,
        seen,
    }
}

pub(super) fn all(
    now: &Observed,
    nodes: usize,
    good: impl Fn(&Node) -> bool,
) -> ExpectationVerdict {
    let done = now.nodes.iter().filter(|node| good(node)).count();
    if done == nodes && now.nodes.len() == nodes {
        return ExpectationVerdict::Happened(Vec::new());
    }
    let other = now
        .nodes
        .iter()
        .find(|node| !good(node))
        .map(|node| format!("; {}", state(node)));
    let seen = format!(
        "{done} of {} Nodes are so{}",
        now.nodes.len(),
        other.unwrap_or_default()
    );
    ExpectationVerdict::Waiting {
        done,
        of: nodes,
        seen,
    }
}

pub(super) fn one(now: &Observed, name: &str, good: impl Fn(&Node) -> bool) -> ExpectationVerdict {
    match now.nodes.iter().find(|node| &*node.name == name) {
        None => ExpectationVerdict::Broken(format!("no Node {name}")),
        Some(node) if good(node) => ExpectationVerdict::Happened(vec![state(node)]),
        Some(node) => ExpectationVerdict::Waiting {
            done: 0,
            of: 1,
            seen: state(node),
        },
    }
}

fn event_text(event: &ObservedEvent) -> String {
    format!("{}: {}: {}", event.about, event.reason, event.message)
}

pub(super) fn deleted(before: &Baseline, now: &Observed, name: &str) -> ExpectationVerdict {
    if let Some(node) = now.nodes.iter().find(|node| &*node.name == name) {
        return ExpectationVerdict::Waiting {
            done: 0,
            of: 1,
            seen: state(node),
        };
    }
    match now.events[before.events..]
        .iter()
        .find(|event| event.reason == "DeletingNode" && event.about == name)
    {
        Some(event) => ExpectationVerdict::Happened(vec![event_text(event)]),
        None => ExpectationVerdict::Waiting {
            done: 0,
            of: 1,
            seen: format!("no Node {name}, but no event either"),
        },
    }
}

pub(super) fn kept(
    before: &Baseline,
    now: &Observed,
    names: &[String],
    why: &str,
    refused: Option<&str>,
) -> ExpectationVerdict {
    let waiting = |done, seen| ExpectationVerdict::Waiting { done, of: 3, seen };
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    if let Some(node) = now
        .nodes
        .iter()
        .find(|node| names.contains(&*node.name) && is_ready(node))
    {
        return waiting(0, state(node));
    }
    let new_events = &now.events[before.events..];
    let held = |event: &&Arc<ObservedEvent>| {
        event.reason == "NodeDeletionHeld"
            && names.contains(event.about.as_str())
            && event.message.contains(why)
    };
    let Some(first) = new_events.iter().find(held) else {
        return waiting(1, "no such event, and no Node deleted".to_owned());
    };
    let mut details = vec![event_text(first)];
    if names.len() > 1 {
        let held_nodes: BTreeSet<&str> = new_events
            .iter()
            .filter(held)
            .map(|event| event.about.as_str())
            .collect();
        details.push(format!(
            "{} of {} Nodes have such an event so far",
            held_nodes.len(),
            names.len()
        ));
    }
    if let Some(name) = refused {
        let stuck = now
            .nodes
            .iter()
            .any(|node| &*node.name == name && node.is_uninitialized());
        match new_events
            .iter()
            .find(|event| event.reason == "InitializationFailed" && event.about == name)
        {
            Some(event) if stuck => details.push(event_text(event)),
            _ => {
                return waiting(
                    1,
                    format!("no event InitializationFailed on an uninitialised Node {name}"),
                );
            }
        }
    }
    match now.passes - first.passes {
        passes if passes < FURTHER_PASSES => waiting(
            2,
            format!("the event, and {passes} of {FURTHER_PASSES} further passes"),
        ),
        _ => ExpectationVerdict::Happened(details),
    }
}
