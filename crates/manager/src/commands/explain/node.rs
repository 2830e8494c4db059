//! The causes of a Node's state.

use cloud_provider::names::{
    CONDITION_NETWORK_UNAVAILABLE, CONDITION_READY, LABEL_EXCLUDE_LIFECYCLE, TAINT_SHUTDOWN,
};
use cloud_provider::{ConditionStatus, Node};
use controllers::EventReason;
use controllers::lifecycle::preview::LifecyclePreview;
use controllers::route::condition::RouteCondition;
use controllers::service::targets::{is_included, is_tainted_for_deletion, lacks_network};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::cause::{Cause, Causes};
use super::facts::{Facts, Machine, NodeFacts};
use super::state::State;

/// Returns the causes of a Node's state.
pub(super) fn causes(facts: &Facts, node_facts: &NodeFacts) -> Vec<Cause> {
    let mut causes = Causes::default();
    let Some(node) = &node_facts.node else {
        reported(facts, &[EventReason::NodeVanished], &mut causes);
        return causes.finish(facts);
    };
    if !node_facts.is_ours {
        let state = if node_facts.all_foreign {
            State::AllNodesForeign
        } else {
            State::OtherProvider
        };
        causes.note(state, format!("its provider ID is {:?}", node.provider_id));
        return causes.finish(facts);
    }
    if !node_facts.offers && facts.cloud_error.is_none() {
        causes.note(State::CapabilityMissing, "");
    }
    if let (true, Machine::Gone(reason)) = (node_facts.is_unidentified, &node_facts.machine) {
        causes.note(State::NotManaged, reason.clone());
        return causes.finish(facts);
    }
    if node_facts.is_unidentified {
        reported(facts, &[EventReason::NoProviderId], &mut causes);
        causes.add(Cause::new(State::NoProviderId, "").since(node.created));
    }
    machine(node_facts, node, &mut causes);
    if node.is_uninitialized() {
        initialization(facts, node_facts, node, &mut causes);
    }
    reported(
        facts,
        &[EventReason::SharedProviderId, EventReason::LabelsLeftOut],
        &mut causes,
    );
    lifecycle(facts, node_facts, node, &mut causes);
    targets(node_facts, node, &mut causes);
    if node_facts.routes.is_some() || node_facts.route_error.is_some() {
        routes(facts, node_facts, node, &mut causes);
    }
    causes.finish(facts)
}

/// Adds the states that these events report, unless a later event ended them.
fn reported(facts: &Facts, reasons: &[EventReason], causes: &mut Causes) {
    for reason in reasons {
        if let Some((state, ends)) = State::of_event(*reason)
            && let Some(event) = facts.current(*reason, ends)
        {
            causes.add(Cause::reported(state, event));
        }
    }
}

fn machine(node_facts: &NodeFacts, node: &Node, causes: &mut Causes) {
    match &node_facts.machine {
        Machine::Gone(reason) => match (&node_facts.named, node.ready) {
            (Some(other), _) => {
                let detail = format!(
                    "{reason}; the machine named {:?} has provider ID {other}",
                    node.name
                );
                causes.note(State::ProviderIdMismatch, detail);
            }
            (None, ConditionStatus::True) if node.provider_id().is_some() => {
                causes.note(State::MachineMissing, reason.clone());
            }
            // The deletion is the cause, held or not.
            (None, _) if State::of_preview(&node_facts.preview).is_some() => {}
            (None, _) => causes.note(State::NoSuchMachine, reason.clone()),
        },
        Machine::Ambiguous(error) => causes.note(State::AmbiguousIdentity, error.clone()),
        Machine::Failed(error) => causes.note(State::CloudUnreachable, error.clone()),
        Machine::Present { .. } | Machine::NotAsked => {}
    }
}

fn initialization(facts: &Facts, node_facts: &NodeFacts, node: &Node, causes: &mut Causes) {
    if !facts.runs.node {
        causes.note(State::ControllerOff, "cloud-node-controller");
    }
    reported(facts, &[EventReason::InitializationFailed], causes);
    if let (Machine::Present { metadata: None, .. }, true) = (&node_facts.machine, facts.runs.node)
    {
        causes.add(Cause::new(State::MetadataMissing, "").since(node.created));
    }
    let is_planned = facts
        .plan
        .errors
        .first()
        .filter(|_| matches!(node_facts.machine, Machine::Present { .. }));
    match is_planned {
        // The event may not have been written yet, or have expired.
        Some(error) => causes.note(State::InitializationFailed, error.clone()),
        // No event explains the state.
        None if causes.is_empty() => {
            causes.add(Cause::new(State::Uninitialized, "").since(node.created));
        }
        None => {}
    }
}

fn lifecycle(facts: &Facts, node_facts: &NodeFacts, node: &Node, causes: &mut Causes) {
    if node.terminating {
        let finalizers = texts(&node_facts.object["metadata"]["finalizers"]).join(", ");
        let since = time(&node_facts.object["metadata"]["deletionTimestamp"]);
        causes.add(Cause::new(State::Terminating, finalizers).since(since));
        return;
    }
    let is_excluded = node
        .labels
        .get(LABEL_EXCLUDE_LIFECYCLE)
        .is_some_and(|value| value != "false");
    if is_excluded {
        causes.note(State::ExcludedFromLifecycle, "");
    }
    let is_ready = node.ready == ConditionStatus::True;
    let since = condition_time(&node_facts.object, CONDITION_READY).filter(|_| !is_ready);
    let ahead = State::of_preview(&node_facts.preview);
    if let Some(state) = ahead {
        let detail = match (&node_facts.preview, &node_facts.machine) {
            (LifecyclePreview::Held(held), _) => held.to_string(),
            (LifecyclePreview::Delete, Machine::Gone(reason)) => reason.clone(),
            _ => String::new(),
        };
        causes.add(Cause::new(state, detail));
    }
    let is_tainted = node
        .taints
        .iter()
        .any(|taint| &*taint.key == TAINT_SHUTDOWN);
    if is_tainted && !is_ready {
        causes.add(Cause::new(State::ShutDown, "").since(since));
    }
    if is_ready {
        return;
    }
    if !facts.runs.lifecycle {
        causes.note(State::ControllerOff, "cloud-node-lifecycle-controller");
    }
    // A Node whose machine exists and is not suspected otherwise is no longer held.
    let is_found = matches!(node_facts.machine, Machine::Present { .. });
    if !is_found {
        reported(
            facts,
            &[EventReason::DeletionHeld, EventReason::DeletingNodeFailed],
            causes,
        );
    }
    reported(
        facts,
        if causes.has(State::ShutDown) {
            &[EventReason::ShutdownTaintSet]
        } else {
            &[]
        },
        causes,
    );
    let is_running = matches!(
        node_facts.machine,
        Machine::Present {
            shutdown: Some(false) | None,
            ..
        }
    );
    if is_running && !causes.has(State::ShutDown) {
        causes.add(
            Cause::new(
                State::NotReady,
                condition_text(&node_facts.object, CONDITION_READY),
            )
            .since(since),
        );
    }
}

fn targets(node_facts: &NodeFacts, node: &Node, causes: &mut Causes) {
    if !is_included(node) {
        causes.note(State::ExcludedFromLoadBalancers, "");
    }
    if is_tainted_for_deletion(node) {
        causes.note(State::AutoscalerRemoves, "");
    }
    if node_facts.waits_for_network && lacks_network(node) {
        causes.add(
            Cause::new(State::NoNetworkForTargets, "").since(condition_time(
                &node_facts.object,
                CONDITION_NETWORK_UNAVAILABLE,
            )),
        );
    }
}

fn routes(facts: &Facts, node_facts: &NodeFacts, node: &Node, causes: &mut Causes) {
    if let Some(error) = &node_facts.route_error {
        causes.note(State::RoutesUnknown, error.clone());
    }
    if node.pod_cidrs.is_empty() {
        causes.note(State::NoPodCidr, "");
    } else if node.addresses.is_empty() || (node.is_uninitialized() && node.provider_id().is_none())
    {
        causes.note(State::RouteWaits, "");
    }
    let since = condition_time(&node_facts.object, CONDITION_NETWORK_UNAVAILABLE);
    let text = condition_text(&node_facts.object, CONDITION_NETWORK_UNAVAILABLE);
    match &node.network_unavailable {
        Some(network)
            if network.status == ConditionStatus::True
                && *network.reason == *RouteCondition::NotCreated.reason() =>
        {
            causes.add(Cause::new(State::RouteMissing, text).since(since));
        }
        Some(network) if network.status == ConditionStatus::True => {
            causes.add(Cause::new(State::NetworkUnavailable, text).since(since));
        }
        _ => {}
    }
    let is_missing = lacks_network(node)
        || facts
            .plan
            .steps
            .iter()
            .any(|step| step.step.what.starts_with("route"));
    if is_missing {
        reported(
            facts,
            &[
                EventReason::FailedToCreateRoute,
                EventReason::FailedToDeleteRoute,
            ],
            causes,
        );
    }
    let reasons = [
        EventReason::RouteFlapping,
        EventReason::PodCidrOutside,
        EventReason::PodCidrRefused,
    ];
    reported(facts, &reasons, causes);
}

/// Returns the other controllers that claim the Node or its routes.
pub(super) fn claims(node_facts: &NodeFacts, node: &Node) -> Vec<String> {
    let scheme = node.provider_id_scheme().filter(|_| !node_facts.is_ours);
    let routes = node_facts
        .routes
        .iter()
        .flatten()
        .filter(|route| route.contains(" leads to "));
    let finalizers = texts(&node_facts.object["metadata"]["finalizers"]);
    scheme
        .map(|scheme| format!("cloud provider {scheme:?}"))
        .into_iter()
        .chain(routes.map(|route| format!("route {route}")))
        .chain(
            finalizers
                .into_iter()
                .map(|finalizer| format!("finalizer {finalizer}")),
        )
        .collect()
}

/// Returns the condition of this type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn condition_time(object: &Value, kind: &str) -> Option<Timestamp> {
    time(&condition(object, kind)?["lastTransitionTime"])
}

/// Returns the reason and the message of a condition.
pub(super) fn condition_text(object: &Value, kind: &str) -> String {
    let Some(condition) = condition(object, kind) else {
        return String::new();
    };
    let parts = ["reason", "message"].map(|key| condition[key].as_str().unwrap_or_default());
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(": ")
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(super) fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
