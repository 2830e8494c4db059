//! Nodes that the cloud cannot tell by their provider ID, and the remedy (P-8, P-15).

use std::fmt;

use cloud_provider::names::TAINT_UNINITIALIZED;
use cloud_provider::{CloudProvider, Instances, Node, TargetIdentity};

/// Remedy for Nodes without a provider ID.
pub const REMEDY_MISSING: &str = "start its kubelet with --cloud-provider=external, delete the Node and restart the \
                                  kubelet, which registers it again; or start the manager with --adopt-nodes";
/// Remedy if all Nodes have the provider ID of another cloud.
pub const REMEDY_ALL_FOREIGN: &str = "look for what set them: k3s runs a cloud controller of its own unless its servers \
                                      have --disable-cloud-controller (RKE2: disable-cloud-controller: true), another \
                                      cloud controller manager may run, or the kubelets have --provider-id; stop it, \
                                      then delete the Nodes and restart their kubelets, because a provider ID cannot be \
                                      changed; or correct --cloud-provider";

/// The meaning of the provider ID of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeIdentity {
    /// The Node is, or may be, a machine of this cloud.
    Ours,
    /// The Node has no provider ID yet, because its initialization is due.
    Pending,
    /// The Node has neither a provider ID nor the start-up taint: no controller initializes it.
    Missing,
    /// The provider ID is another cloud's.
    Foreign,
}

impl NodeIdentity {
    /// Returns the identity of a Node. A provider that needs no provider IDs misses none.
    #[must_use]
    pub fn of(provider: &dyn CloudProvider, node: &Node) -> Self {
        match node.provider_id() {
            Some(_) if provider.owns_node(node) => Self::Ours,
            Some(_) => Self::Foreign,
            None if node.is_uninitialized() => Self::Pending,
            None if provider
                .instances()
                .is_some_and(Instances::provider_id_is_optional) =>
            {
                Self::Ours
            }
            None => Self::Missing,
        }
    }
}

/// Returns the message about a Node without a provider ID.
#[must_use]
pub fn missing(node: &Node) -> String {
    format!(
        "node {} has neither a provider ID nor the taint {TAINT_UNINITIALIZED}, so it is not initialised and is no \
         target of load balancers: {REMEDY_MISSING}",
        node.name
    )
}

/// Returns `true` if there are Nodes, and all of them have the provider ID of another cloud. Nodes that are being deleted
/// do not count, and a provider without instances has no Nodes of its own.
pub fn all_are_foreign<'a>(
    provider: &dyn CloudProvider,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> bool {
    let mut nodes = nodes
        .into_iter()
        .filter(|node| !node.terminating)
        .peekable();
    provider.instances().is_some()
        && nodes.peek().is_some()
        && nodes.all(|node| NodeIdentity::of(provider, node) == NodeIdentity::Foreign)
}

/// Returns the reason why an eligible Node is no target of a load balancer; `None` if it is one, as far as its provider ID
/// tells.
#[must_use]
pub fn why_no_target(provider: &dyn CloudProvider, node: &Node) -> Option<NodeIdentity> {
    let identity = NodeIdentity::of(provider, node);
    let (needs_id, needs_ours) = match provider
        .load_balancers()
        .map(cloud_provider::LoadBalancers::target_identity)
    {
        Some(TargetIdentity::Addresses | TargetIdentity::None) => (false, false),
        Some(TargetIdentity::AddressesAndProviderId) => (true, false),
        Some(TargetIdentity::ProviderIdOrName) => (false, true),
        Some(TargetIdentity::ProviderId) | None => (true, true),
    };
    let is_problem = match identity {
        NodeIdentity::Ours => false,
        NodeIdentity::Pending | NodeIdentity::Missing => needs_id,
        NodeIdentity::Foreign => needs_ours,
    };
    is_problem.then_some(identity)
}

/// Eligible Nodes none of which is a target because of its provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoIdentity {
    pending: usize,
    missing: usize,
    foreign: usize,
    /// Provider ID of one of the foreign Nodes.
    example: String,
}

impl NoIdentity {
    /// Returns the summary of eligible Nodes; `None` if there are none, or if one of them can be a target.
    pub fn of<'a>(
        provider: &dyn CloudProvider,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Option<Self> {
        let mut found = Self {
            pending: 0,
            missing: 0,
            foreign: 0,
            example: String::new(),
        };
        for node in nodes {
            match why_no_target(provider, node)? {
                NodeIdentity::Pending | NodeIdentity::Ours => found.pending += 1,
                NodeIdentity::Missing => found.missing += 1,
                NodeIdentity::Foreign => {
                    found.foreign += 1;
                    found.example = node.provider_id.to_string();
                }
            }
        }
        (found.pending + found.missing + found.foreign > 0).then_some(found)
    }

    /// Returns `true` if a person must act, because no Node waits for its initialization.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.pending == 0
    }
}

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.pending + self.missing + self.foreign;
        let part = |count: usize, what: &str| {
            (count > 0).then(|| format!("{count} of {all} Nodes {what}"))
        };
        let missing = format!("have no provider ID; to correct one, {REMEDY_MISSING}");
        let foreign = match self.foreign == all {
            true => format!(
                "have the provider ID of another cloud, such as {:?}; {REMEDY_ALL_FOREIGN}",
                self.example
            ),
            false => format!(
                "have the provider ID of another cloud, such as {:?}",
                self.example
            ),
        };
        let parts = [
            part(self.pending, "wait for their initialisation"),
            part(self.foreign, &foreign),
            part(self.missing, &missing),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::{
        InstanceState, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, LookupRequest,
        Result, Taint, async_trait,
    };
    use std::sync::Arc;

    use super::*;

    struct Acme(TargetIdentity);

    #[async_trait]
    impl Instances for Acme {
        async fn lookup(&self, _: &[Arc<Node>], _: LookupRequest) -> Vec<Result<InstanceState>> {
            Vec::new()
        }
    }

    #[async_trait]
    impl LoadBalancers for Acme {
        async fn get(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
            Ok(None)
        }
        async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
            Ok(None)
        }
        async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
            Ok(())
        }
        async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
            Ok(())
        }
        fn target_identity(&self) -> TargetIdentity {
            self.0
        }
    }

    impl CloudProvider for Acme {
        fn name(&self) -> &'static str {
            "acme"
        }
        fn instances(&self) -> Option<&dyn Instances> {
            Some(self)
        }
        fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
            Some(self)
        }
    }

    fn node(provider_id: &str, is_new: bool) -> Node {
        let taint = Taint::new(TAINT_UNINITIALIZED, "NoSchedule");
        let taints = if is_new { [taint].into() } else { [].into() };
        Node {
            name: "worker-1".into(),
            provider_id: provider_id.into(),
            taints,
            ..Node::default()
        }
    }

    #[test]
    fn node_is_no_target_without_the_property_that_identifies_targets() {
        use NodeIdentity::{Foreign, Missing, Pending};
        let nodes = [
            node("acme://1", false),
            node("", true),
            node("", false),
            node("k3s://a", false),
        ];
        for (identity, expected) in [
            (
                TargetIdentity::ProviderId,
                [None, Some(Pending), Some(Missing), Some(Foreign)],
            ),
            (
                TargetIdentity::ProviderIdOrName,
                [None, None, None, Some(Foreign)],
            ),
            (
                TargetIdentity::AddressesAndProviderId,
                [None, Some(Pending), Some(Missing), None],
            ),
            (TargetIdentity::Addresses, [None; 4]),
            (TargetIdentity::None, [None; 4]),
        ] {
            let why = [0, 1, 2, 3].map(|index| why_no_target(&Acme(identity), &nodes[index]));
            assert_eq!(why, expected, "{identity:?}");
        }
    }

    #[test]
    fn nodes_without_any_target_are_summed_up_with_the_remedy() {
        let acme = Acme(TargetIdentity::ProviderId);
        let [ours, new, bare, other] = [
            node("acme://1", false),
            node("", true),
            node("", false),
            node("k3s://a", false),
        ];
        let summary = |nodes: &[&Node]| {
            NoIdentity::of(&acme, nodes.iter().copied())
                .map(|error| (error.lasts(), error.to_string()))
        };
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[&bare, &ours]), None, "one target is enough");
        let (lasts, text) = summary(&[&bare, &bare]).unwrap();
        assert!(
            lasts && text.starts_with("2 of 2 Nodes have no provider ID"),
            "{text}"
        );
        assert!(
            text.contains("--cloud-provider=external") && text.contains("--adopt-nodes"),
            "{text}"
        );
        let (lasts, text) = summary(&[&other, &other]).unwrap();
        assert!(
            lasts && text.contains("k3s://a") && text.contains("--disable-cloud-controller"),
            "{text}"
        );
        let (lasts, text) = summary(&[&bare, &new, &other]).unwrap();
        assert!(
            !lasts && text.contains("1 of 3 Nodes wait for their initialisation; 1 of 3"),
            "{text}"
        );
        assert!(
            !text.contains("k3s runs"),
            "one Node of another cloud is nothing unusual: {text}"
        );
    }

    #[test]
    fn all_nodes_are_foreign_only_if_there_are_nodes() {
        let acme = Acme(TargetIdentity::ProviderId);
        let (ours, other) = (node("acme://1", false), node("k3s://a", false));
        let leaving = Node {
            terminating: true,
            ..node("acme://2", false)
        };
        for (nodes, expected) in [
            (vec![], false),
            (vec![&other], true),
            (vec![&other, &leaving], true),
            (vec![&other, &ours], false),
            (vec![&leaving], false),
        ] {
            assert_eq!(
                all_are_foreign(&acme, nodes.iter().copied()),
                expected,
                "{nodes:?}"
            );
        }
    }
}
