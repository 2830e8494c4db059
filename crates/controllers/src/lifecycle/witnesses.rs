//! Choice of witnesses: Nodes whose instances prove that the credential can see this cluster (D-2, 3.).

use std::collections::HashSet;
use std::sync::Arc;

use cloud_provider::{CloudProvider, ConditionStatus, Node};

/// Number of witnesses. The instance of a single witness might have been deleted as well.
pub(super) const WITNESSES: usize = 3;

/// Number of witnesses that are not ready but were found a moment ago, because these would be the next to be lost in a
/// landslide.
const SEEN: usize = 2;

/// Chooses witnesses: Nodes of this provider with a provider ID that are not suspected. Some are among `seen`, which
/// the first read found, the others are healthy. `turn` varies the choice from pass to pass, so that a bad choice does
/// not last.
pub(super) fn choose(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    seen: &[Arc<Node>],
    suspects: &[Arc<Node>],
    turn: usize,
) -> Vec<Arc<Node>> {
    let suspects: HashSet<&str> = suspects.iter().map(|node| &*node.uid).collect();
    let can_testify =
        |node: &&Arc<Node>| is_witness(provider, node) && !suspects.contains(&*node.uid);
    let is_healthy = |node: &&Arc<Node>| node.ready == ConditionStatus::True && can_testify(node);
    let mut chosen = in_turn(seen.iter().filter(can_testify), turn, SEEN);
    chosen.extend(in_turn(
        nodes.iter().filter(is_healthy),
        turn,
        WITNESSES - chosen.len(),
    ));
    chosen
}

/// Returns `true` if a Node that is not suspected itself shows that the credential sees this cluster.
pub(super) fn is_witness(provider: &dyn CloudProvider, node: &Node) -> bool {
    node.provider_id().is_some() && !node.terminating && provider.owns_node(node)
}

/// Returns up to `count` Nodes, beginning with another one on each turn.
fn in_turn<'a>(
    nodes: impl Iterator<Item = &'a Arc<Node>>,
    turn: usize,
    count: usize,
) -> Vec<Arc<Node>> {
    let nodes: Vec<_> = nodes.collect();
    nodes
        .iter()
        .cycle()
        .skip(if nodes.is_empty() {
            0
        } else {
            turn % nodes.len()
        })
        .take(count.min(nodes.len()))
        .map(|node| Arc::clone(node))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cloud;
    impl CloudProvider for Cloud {
        fn name(&self) -> &'static str {
            "p"
        }
    }

    fn node(name: &str, ready: bool) -> Arc<Node> {
        let ready = if ready {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        Arc::new(Node {
            name: name.into(),
            uid: name.into(),
            provider_id: format!("p://{name}").into(),
            ready,
            ..Node::default()
        })
    }

    #[test]
    fn witnesses_were_found_in_this_pass_or_are_healthy() {
        let seen = ["a", "b", "c"].map(|name| node(name, false));
        let suspects = [node("x", false)];
        let nodes: Vec<_> = seen
            .iter()
            .chain(&suspects)
            .cloned()
            .chain(["d", "e"].map(|name| node(name, true)))
            .collect();
        let names = |turn| {
            choose(&Cloud, &nodes, &seen, &suspects, turn)
                .iter()
                .map(|n| n.name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["a", "b", "d"]);
        assert_eq!(names(2), ["c", "a", "d"], "another choice on each turn");
        assert_eq!(choose(&Cloud, &suspects, &[], &suspects, 0), []);
    }
}
