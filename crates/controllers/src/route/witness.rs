//! Control read for an empty list of routes: the list is trusted only if the same credential still finds one of the
//! Nodes' machines.
//!
//! A credential of another project or account lists no routes, and returns no error. If that were believed, every Node
//! of the cluster would be marked as without a network, and no Pod could be scheduled.

use std::sync::Arc;

use cloud_provider::{
    CloudProvider, ConditionStatus, Error, InstanceState, LookupRequest, Node, Result, Route,
};

use super::condition::RouteCondition;
use crate::look_up::look_up;

/// Maximum number of machines that are read.
const MAX_LOOKUPS: usize = 3;

/// Checks that a list of routes may be believed. Only the adaptive mode does this.
///
/// # Errors If no Node has a route any more although some had routes, and none of their machines is found either.
pub async fn list_is_believed(
    provider: &dyn CloudProvider,
    routes: &[Route],
    nodes: &[Arc<Node>],
) -> Result<()> {
    let had_theirs = nodes
        .iter()
        .filter(|node| is_witness(provider, node) && had_its_routes(node))
        .count();
    let is_empty = !routes
        .iter()
        .any(|route| nodes.iter().any(|node| *node.name == *route.target_node));
    if had_theirs == 0 || !is_empty || provider.instances().is_none() {
        return Ok(());
    }
    let asked = witnesses(provider, nodes);
    let answers = look_up(
        provider,
        &asked,
        LookupRequest::EXISTENCE.fresh(),
        "instances are not supported",
    )
    .await;
    if answers
        .iter()
        .any(|answer| matches!(answer, Ok(InstanceState::Present { .. })))
    {
        return Ok(());
    }
    let names: Vec<&str> = asked.iter().map(|node| &*node.name).collect();
    Err(Error::unauthorized(format!(
        "the cloud lists no routes for {} nodes that had routes before, and does not find the machines of {} either, \
         so no route is changed; check that the credential is for this cluster's project or account",
        had_theirs,
        names.join(", "),
    )))
}

/// Returns `true` if all routes of the Node existed.
fn had_its_routes(node: &Node) -> bool {
    !node.pod_cidrs.is_empty() && RouteCondition::Created.is_shown_by(node)
}

/// Returns `true` if the Node's machine can be read.
fn is_witness(provider: &dyn CloudProvider, node: &Node) -> bool {
    node.provider_id().is_some() && provider.owns_node(node)
}

/// Returns the Nodes whose machines are read, ready Nodes first. Includes a ready Node that never had routes, if there
/// is one, because the machines of all others may have been deleted together with their routes.
fn witnesses(provider: &dyn CloudProvider, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let is_ready = |node: &Node| node.ready == ConditionStatus::True;
    let mut all: Vec<_> = nodes
        .iter()
        .filter(|node| is_witness(provider, node))
        .cloned()
        .collect();
    all.sort_by_key(|node| (!is_ready(node), !had_its_routes(node), node.name.clone()));
    if let Some(newcomer) = all
        .iter()
        .position(|node| is_ready(node) && !had_its_routes(node))
    {
        let newcomer = all.remove(newcomer);
        all.insert(0, newcomer);
    }
    all.truncate(MAX_LOOKUPS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::{Instances, NetworkCondition, async_trait};

    /// A cloud that shows the machines with these IDs.
    struct Acme(Vec<&'static str>);

    #[async_trait]
    impl Instances for Acme {
        async fn lookup(
            &self,
            nodes: &[Arc<Node>],
            _want: LookupRequest,
        ) -> Vec<Result<InstanceState>> {
            let is_there = |node: &Arc<Node>| self.0.iter().any(|id| **id == *node.provider_id);
            let answer = |node: &Arc<Node>| match is_there(node) {
                true => Ok(InstanceState::Present {
                    shutdown: None,
                    metadata: None,
                }),
                false => Ok(InstanceState::Gone(cloud_provider::Gone::no_such_id("x"))),
            };
            nodes.iter().map(answer).collect()
        }
    }

    impl CloudProvider for Acme {
        fn name(&self) -> &'static str {
            "acme"
        }
        fn instances(&self) -> Option<&dyn Instances> {
            Some(self)
        }
    }

    /// Returns a Node; an `old` one has had its routes.
    fn node(name: &str, id: &str, ready: bool, old: bool) -> Arc<Node> {
        let shown = NetworkCondition {
            status: RouteCondition::Created.status(),
            reason: RouteCondition::Created.reason().into(),
        };
        Arc::new(Node {
            name: name.into(),
            provider_id: id.into(),
            pod_cidrs: ["10.244.1.0/24".into()].into(),
            ready: if ready {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            },
            network_unavailable: old.then_some(shown),
            ..Node::default()
        })
    }

    fn names(nodes: &[Arc<Node>]) -> Vec<String> {
        witnesses(&Acme(Vec::new()), nodes)
            .iter()
            .map(|node| node.name.to_string())
            .collect()
    }

    #[test]
    fn ready_nodes_of_this_cloud_testify_and_one_that_is_new() {
        let old = |name: &str, ready| node(name, "acme://1", ready, true);
        let nodes = [
            old("a", false),
            old("d", true),
            old("c", true),
            old("b", true),
            node("other", "other://1", true, false),
            node("nameless", "", true, false),
        ];
        assert_eq!(names(&nodes), ["b", "c", "d"]);
        let new = |ready| node("new", "acme://2", ready, false);
        assert_eq!(
            names(&[&nodes[..], &[new(true)]].concat()),
            ["new", "b", "c"]
        );
        assert_eq!(
            names(&[&nodes[..2], &[new(false)]].concat()),
            ["d", "a", "new"],
            "it is not ready"
        );
    }

    #[tokio::test]
    async fn an_empty_list_is_believed_if_any_of_them_is_seen() {
        let old = |n: usize| node(&format!("old-{n}"), "acme://gone", false, true);
        let mut nodes: Vec<_> = (0..5).map(old).collect();
        let believed = async |nodes: &[Arc<Node>], cloud| {
            list_is_believed(&Acme(cloud), &[], nodes).await.is_ok()
        };
        assert!(!believed(&nodes, vec![]).await);
        nodes.push(node("new", "acme://new", true, false));
        assert!(!believed(&nodes, vec![]).await);
        assert!(
            believed(&nodes, vec!["acme://new"]).await,
            "all old machines were replaced"
        );
        let foreign = [node("foreign", "other://1", true, true)];
        assert!(
            believed(&foreign, vec![]).await,
            "it has its routes in another cloud: nothing of ours was lost"
        );
    }
}
