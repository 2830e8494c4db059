//! An empty list proves nothing: that no Node has its route any more is believed only if the cloud still shows one of their
//! machines to the same credential.
//!
//! A credential of another project or account lists no routes, and no error. Believed, every Node of the cluster would be
//! told that its network is unavailable, and Pods would be kept off all of them.

use std::sync::Arc;

use cloud_provider::{CloudProvider, ConditionStatus, Error, InstanceState, Node, Result, Route, Want};

use super::condition::Verdict;
use crate::look_up::look_up;

/// Machines that are asked for.
const QUESTIONS: usize = 3;

/// Whether the list may be believed.
///
/// # Errors
/// If it shows no route to any Node though some had theirs, and none of their machines is found either.
pub(super) async fn list_is_believed(
    provider: &dyn CloudProvider,
    routes: &[Route],
    nodes: &[Arc<Node>],
) -> Result<()> {
    let had_theirs = routed(nodes);
    let is_empty = !routes.iter().any(|route| nodes.iter().any(|node| *node.name == *route.target_node));
    if had_theirs.is_empty() || !is_empty || provider.instances().is_none() {
        return Ok(());
    }
    let asked = &had_theirs[..had_theirs.len().min(QUESTIONS)];
    let answers = look_up(provider, asked, Want::EXISTENCE.fresh(), "instances are not supported").await;
    if answers.iter().any(|answer| matches!(answer, Ok(InstanceState::Present { .. }))) {
        return Ok(());
    }
    let names: Vec<&str> = asked.iter().map(|node| &*node.name).collect();
    Err(Error::unauthorized(format!(
        "the cloud lists no route to any of {} nodes that had theirs, and does not show the machines of {} either: nothing is concluded from that. Check that the credential is for this cluster's project or account",
        had_theirs.len(),
        names.join(", "),
    )))
}

/// The Nodes whose routes were all there, ready ones first.
fn routed(nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let mut routed: Vec<_> = nodes
        .iter()
        .filter(|node| !node.pod_cidrs.is_empty() && Verdict::Created.is_said_by(node) && node.provider_id().is_some())
        .cloned()
        .collect();
    routed.sort_by_key(|node| (node.ready != ConditionStatus::True, node.name.clone()));
    routed
}
