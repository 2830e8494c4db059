//! Which Nodes can testify that the credential sees this cluster (D-2, 3.).

use std::collections::HashSet;
use std::sync::Arc;

use cloud_provider::{CloudProvider, ConditionStatus, Node};

/// So many are asked: a single one may have gone a moment ago itself.
pub(super) const WITNESSES: usize = 3;

/// Chooses witnesses: Nodes of this provider with a provider id that are not suspected, healthy ones first. `turn`
/// varies the choice from pass to pass, so that one bad choice does not last.
pub(super) fn choose(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    suspects: &[Arc<Node>],
    turn: usize,
) -> Vec<Arc<Node>> {
    let suspects: HashSet<&str> = suspects.iter().map(|node| &*node.uid).collect();
    let can_testify = |node: &&Arc<Node>| {
        node.provider_id().is_some() && !node.terminating && provider.owns(node) && !suspects.contains(&*node.uid)
    };
    let (mut healthy, mut others): (Vec<_>, Vec<_>) =
        nodes.iter().filter(can_testify).cloned().partition(|n| n.ready == ConditionStatus::True);
    if !healthy.is_empty() {
        let turn = turn % healthy.len();
        healthy.rotate_left(turn);
    }
    healthy.append(&mut others);
    healthy.truncate(WITNESSES);
    healthy
}
