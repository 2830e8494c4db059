//! Planned changes of Nodes: initialization, addresses, labels and lifecycle.

use std::sync::Arc;

use cloud_provider::names::{
    NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, TAINT_SHUTDOWN, TAINT_UNINITIALIZED,
};
use cloud_provider::{
    CloudProvider, Error, InstanceState, Instances, LookupRequest, NO_INSTANCES, Node, NodeAddress,
    PlanAction, Result,
};
use controllers::lifecycle::preview::{LifecyclePreview, preview};
use controllers::lifecycle::verdict::{Triage, is_ours_to_judge, triage};
use controllers::look_up::look_up;
use controllers::node::plan::Initialization;
use controllers::node::{addresses, labels, metadata};
use serde_json::Value;

use super::report::{Kind, ObjectPlan, Report};
use crate::controller_set::Settings;

/// The cloud's answer about each Node, and the next action of the lifecycle controller.
pub(crate) struct NodeAnswers {
    /// The answers, one for each Node and in their order.
    pub(crate) answers: Vec<Result<InstanceState>>,
    /// Next action of the lifecycle controller on each Node, in their order.
    pub(crate) previews: Vec<LifecyclePreview>,
}

/// Looks up all Nodes in the cloud with one call. Returns `None` if no selected controller looks up Nodes.
pub(super) async fn ask_cloud(
    settings: &Settings,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    report: &mut Report,
) -> Option<NodeAnswers> {
    report.looked_at.insert(Kind::Node, nodes.len());
    let node = settings.wants(NODE_CONTROLLER);
    let lifecycle = settings.wants(NODE_LIFECYCLE_CONTROLLER);
    if !node && !lifecycle {
        return None;
    }
    if provider.instances().is_none() {
        report.notes.push(format!(
            "cloud provider {:?} does not support instances: Nodes are not changed",
            provider.name()
        ));
        return None;
    }
    let want = if node {
        LookupRequest::METADATA
    } else {
        LookupRequest::EXISTENCE
    };
    let want = if lifecycle {
        LookupRequest {
            existence: true,
            ..want.and_shutdown().fresh()
        }
    } else {
        want
    };
    let is_ours =
        |node: &&Arc<Node>| !settings.options.node.leaves_foreign || provider.owns_node(node);
    let ours: Vec<Arc<Node>> = nodes.iter().filter(is_ours).cloned().collect();
    let mut answers = look_up(provider, &ours, want, NO_INSTANCES)
        .await
        .into_iter();
    let answers: Vec<_> = nodes
        .iter()
        .map(|node| if is_ours(&node) { answers.next() } else { None })
        .map(|answer| {
            answer.unwrap_or_else(|| {
                Err(Error::other(
                    "not looked up: the Node belongs to another provider",
                ))
            })
        })
        .collect();
    let previews = if lifecycle {
        preview(&settings.options.lifecycle, provider, nodes, &answers)
    } else {
        nodes.iter().map(|_| LifecyclePreview::Leave).collect()
    };
    Some(NodeAnswers { answers, previews })
}

/// Plans for all Nodes. Returns the Nodes after the plan, without those that would be deleted.
pub(super) fn plan(
    settings: &Settings,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    looked_up: Option<&NodeAnswers>,
    report: &mut Report,
) -> Vec<Arc<Node>> {
    let Some(NodeAnswers { answers, previews }) = looked_up else {
        return nodes.to_vec();
    };
    let node = settings.wants(NODE_CONTROLLER);
    let id_is_optional = provider
        .instances()
        .is_some_and(Instances::provider_id_is_optional);
    let mut after = Vec::with_capacity(nodes.len());
    for ((before, answer), preview) in nodes.iter().zip(answers).zip(previews) {
        let mut plan = ObjectPlan::default();
        if settings.options.node.leaves_foreign && !provider.owns_node(before) {
            plan.notes.push(format!(
                "left alone: it belongs to another provider, as its provider ID {:?} tells",
                before.provider_id
            ));
            report.add(Kind::Node, "", &before.name, plan);
            after.push(Arc::clone(before));
            continue;
        }
        let next = match preview {
            LifecyclePreview::Delete => {
                plan.kubernetes(PlanAction::Delete, "the Node", gone_text(settings));
                None
            }
            preview => {
                ahead(&mut plan, preview);
                let changed = node
                    .then(|| change(&mut plan, before, answer.clone(), id_is_optional))
                    .flatten();
                let is_asked = |node: &Node| {
                    let options = &settings.options.lifecycle;
                    triage(node) == Triage::LookUp && is_ours_to_judge(options, provider, node)
                };
                if let (false, Err(error)) = (node, answer)
                    && is_asked(before)
                {
                    plan.errors.push(error.to_string());
                }
                Some(changed.map_or_else(|| Arc::clone(before), Arc::new))
            }
        };
        after.extend(next);
        report.add(Kind::Node, "", &before.name, plan);
    }
    after
}

fn gone_text(settings: &Settings) -> &'static str {
    match settings.options.lifecycle.guard {
        Some(_) => "its machine no longer exists; deleted once a second read confirms this",
        None => "its machine no longer exists",
    }
}

/// Adds the steps of the lifecycle controller, except deletions.
fn ahead(plan: &mut ObjectPlan, preview: &LifecyclePreview) {
    match preview {
        LifecyclePreview::Leave | LifecyclePreview::Delete => {}
        LifecyclePreview::Taint => {
            plan.kubernetes(
                PlanAction::Create,
                format!("taint {TAINT_SHUTDOWN}"),
                "its machine is shut down",
            );
        }
        LifecyclePreview::Untaint => {
            plan.kubernetes(
                PlanAction::Delete,
                format!("taint {TAINT_SHUTDOWN}"),
                "it is ready",
            );
        }
        LifecyclePreview::Held(held) => {
            plan.notes.push(format!(
                "the Node is kept although its machine is not found: {held}"
            ));
        }
    }
}

/// Adds the steps of the node controller. Returns the changed Node, or `None` if the Node would not change.
fn change(
    plan: &mut ObjectPlan,
    node: &Node,
    answer: Result<InstanceState>,
    id_is_optional: bool,
) -> Option<Node> {
    let changed = if node.is_uninitialized() {
        initialize(plan, node, answer, id_is_optional)
    } else {
        align(plan, node);
        refresh(plan, node, answer)
    };
    changed.unwrap_or_else(|error| {
        plan.errors.push(error.to_string());
        None
    })
}

/// Plans the initialization of a Node (NODE-15 … NODE-26).
fn initialize(
    plan: &mut ObjectPlan,
    node: &Node,
    answer: Result<InstanceState>,
    id_is_optional: bool,
) -> Result<Option<Node>> {
    let context = |error: Error| error.context("it cannot be initialised");
    let Some(metadata) =
        metadata::judge(node, answer.map_err(context)?, id_is_optional).map_err(context)?
    else {
        plan.notes
            .push("the cloud has no metadata for it yet".to_owned());
        return Ok(None);
    };
    let initialization = Initialization::plan(node, metadata).map_err(context)?;
    let Some(patch) = initialization.patch(node).map_err(context)? else {
        return Ok(None);
    };
    let mut after = node.clone();
    if let Some(id) = patch["spec"]["providerID"].as_str() {
        plan.kubernetes(PlanAction::Create, "provider id", id);
        after.provider_id = id.into();
    }
    for (key, value) in patch["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
    {
        label(plan, node, key, value);
    }
    plan.kubernetes(
        PlanAction::Delete,
        format!("taint {TAINT_UNINITIALIZED}"),
        "",
    );
    after.taints = node
        .taints
        .iter()
        .filter(|taint| *taint.key != *TAINT_UNINITIALIZED)
        .cloned()
        .collect();
    if let Some(next) = addresses::refresh(&after, &initialization.metadata().node_addresses)? {
        address_step(plan, &node.addresses, &next);
        after.addresses = next.into();
    }
    Ok(Some(after))
}

fn label(plan: &mut ObjectPlan, node: &Node, key: &str, value: &Value) {
    let value = value.as_str().unwrap_or_default();
    match node.labels.get(key) {
        Some(old) => plan.kubernetes(
            PlanAction::Update,
            format!("label {key}"),
            format!("{old} → {value}"),
        ),
        None => plan.kubernetes(PlanAction::Create, format!("label {key}"), value),
    }
}

/// Plans the alignment of labels (NODE-51).
fn align(plan: &mut ObjectPlan, node: &Node) {
    for (key, value) in labels::alignment(&node.labels) {
        label(plan, node, &key, &Value::String(value));
    }
}

/// Plans the update of addresses (NODE-60 … NODE-64).
fn refresh(
    plan: &mut ObjectPlan,
    node: &Node,
    answer: Result<InstanceState>,
) -> Result<Option<Node>> {
    let InstanceState::Present {
        metadata: Some(metadata),
        ..
    } = answer?
    else {
        return Ok(None);
    };
    let Some(next) = addresses::refresh(node, &metadata.node_addresses)? else {
        return Ok(None);
    };
    address_step(plan, &node.addresses, &next);
    Ok(Some(Node {
        addresses: next.into(),
        ..node.clone()
    }))
}

fn address_step(plan: &mut ObjectPlan, old: &[NodeAddress], new: &[NodeAddress]) {
    let list = |addresses: &[NodeAddress]| {
        let texts: Vec<String> = addresses
            .iter()
            .map(|a| format!("{}={}", a.kind.as_str(), a.address))
            .collect();
        if texts.is_empty() {
            "none".to_owned()
        } else {
            texts.join(" ")
        }
    };
    plan.kubernetes(
        PlanAction::Update,
        "addresses",
        format!("{} → {}", list(old), list(new)),
    );
}
