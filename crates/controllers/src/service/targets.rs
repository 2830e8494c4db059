//! The Nodes that are targets of load balancers (SVC-60 … SVC-66, SVC-74).

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use cloud_provider::names::{LABEL_EXCLUDE_BALANCER, TAINT_TO_BE_DELETED};
use cloud_provider::{ConditionStatus, Error, Node, Result};
use parking_lot::Mutex;
use runtime::cache::{Cache, Resync};

/// Maximum number of names in a message (SVC-74).
const SHOWN: usize = 20;

/// Returns `true` unless the Node's label excludes it from load balancers (SVC-61).
#[must_use]
pub fn is_included(node: &Node) -> bool {
    matches!(
        node.labels.get(LABEL_EXCLUDE_BALANCER),
        None | Some("0" | "f" | "F" | "false" | "False" | "FALSE")
    )
}

/// Returns `true` if cluster-autoscaler is about to delete the Node.
#[must_use]
pub fn is_tainted_for_deletion(node: &Node) -> bool {
    node.taints
        .iter()
        .any(|taint| &*taint.key == TAINT_TO_BE_DELETED)
}

/// Returns `true` if the Node is a target (SVC-60), which does not depend on the Service.
#[must_use]
pub fn is_eligible(node: &Node) -> bool {
    !node.terminating && is_included(node) && !is_tainted_for_deletion(node)
}

/// Returns `true` if the Node's condition reports that its network is unavailable (P-26).
#[must_use]
pub fn lacks_network(node: &Node) -> bool {
    node.network_unavailable
        .as_ref()
        .is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Returns `true` if the change of a Node requires a node sync (SVC-65).
#[must_use]
pub fn needs_node_sync(old: &Node, new: &Node) -> bool {
    is_included(old) != is_included(new) || old.provider_id != new.provider_id
}

/// Formats names of Nodes for a message: sorted, without duplicates, at most 20, and the number of others (SVC-74).
///
/// ```
/// assert_eq!(controllers::service::targets::host_names(&["b", "a", "b"]), "[a b]");
/// ```
#[must_use]
pub fn host_names<S: AsRef<str>>(names: &[S]) -> String {
    let mut shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    shown.sort_unstable();
    shown.dedup();
    let mut text = shown.join(" ");
    if names.len() > SHOWN {
        text += &format!(" <{} more>", names.len() - SHOWN);
    }
    format!("[{text}]")
}

/// The names and provider IDs of a set of Nodes, which make two sets of targets differ (SVC-66).
///
/// The ledger stores these instead of the Nodes, which change with every heartbeat: a Service that has not been synced
/// for a day would keep a whole set of old Nodes in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Arc<[(Box<str>, Box<str>)]>);

impl Members {
    /// Returns the members of a set of Nodes, independent of their order. Ineligible Nodes are included.
    #[must_use]
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut members: Vec<_> = nodes
            .into_iter()
            .map(|node| (node.name.clone(), node.provider_id.clone()))
            .collect();
        members.sort_unstable();
        Self(members.into())
    }

    /// Returns the names of the Nodes, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Returns `true` if both sets are equal (SVC-66). Comparing clones of one set costs nothing.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }

    fn are(&self, nodes: &[Arc<Node>]) -> bool {
        self.0.len() == nodes.len()
            && self
                .0
                .iter()
                .zip(nodes)
                .all(|((name, id), node)| *name == node.name && *id == node.provider_id)
    }
}

/// The targets of all load balancers at one time. Clones share them.
#[derive(Clone, Debug)]
pub struct TargetSet {
    /// Eligible Nodes, sorted by name.
    pub nodes: Arc<[Arc<Node>]>,
    /// Names and provider IDs of the Nodes.
    pub members: Members,
    labels: Sum,
    addresses: Sum,
}

/// A hash of the targets' labels or addresses, computed on first use.
type Sum = Arc<OnceLock<u64>>;

/// The fields of Nodes that the targets of a Service depend on, in addition to the set of Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Follows<'a> {
    pub(super) labels: bool,
    pub(super) addresses: bool,
    /// Keys of annotations that matter if labels do.
    pub(super) annotations: &'a [String],
}

/// The targets that a load balancer was given, in the form in which the ledger stores them.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pub(super) members: Members,
    /// Hash of the Nodes' labels and annotations, if the targets of the Service depend on labels.
    labels: Option<u64>,
    /// Hash of the Nodes' addresses, if the targets of the Service depend on addresses.
    addresses: Option<u64>,
}

impl Given {
    /// Returns targets with unknown labels and addresses.
    pub(super) fn of(members: &Members) -> Self {
        Self {
            members: members.clone(),
            labels: None,
            addresses: None,
        }
    }

    /// Returns `true` if these targets equal the targets `now`.
    pub(super) fn is(&self, now: &Self) -> bool {
        self.members.same(&now.members)
            && (now.labels.is_none() || self.labels == now.labels)
            && (now.addresses.is_none() || self.addresses == now.addresses)
    }
}

impl TargetSet {
    /// Returns the eligible Nodes among these (SVC-60).
    #[must_use]
    pub fn eligible(nodes: &[Arc<Node>]) -> Self {
        let mut nodes: Vec<_> = nodes
            .iter()
            .filter(|node| is_eligible(node))
            .cloned()
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let members = Members::of(nodes.iter().map(|node| &**node));
        Self {
            members,
            nodes: nodes.into(),
            labels: Sum::default(),
            addresses: Sum::default(),
        }
    }

    /// Returns the targets in the form for the ledger. `follows` are the fields that the Service's targets depend on.
    pub(super) fn given(&self, follows: Follows<'_>) -> Given {
        Given {
            members: self.members.clone(),
            labels: follows.labels.then(|| self.labels(follows.annotations)),
            addresses: follows.addresses.then(|| self.addresses()),
        }
    }

    fn addresses(&self) -> u64 {
        *self.addresses.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            self.nodes
                .iter()
                .for_each(|node| (&node.name, &node.addresses).hash(&mut hasher));
            hasher.finish()
        })
    }

    fn labels(&self, annotations: &[String]) -> u64 {
        *self.labels.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            for node in &*self.nodes {
                (&node.name, &node.labels).hash(&mut hasher);
                annotations
                    .iter()
                    .for_each(|key| node.annotations.get(key).hash(&mut hasher));
            }
            hasher.finish()
        })
    }
}

/// The current targets, computed once for each change of the Node cache, however many Services need them.
pub(super) struct Targets {
    cache: Cache<Node>,
    /// If set, new Nodes must have a network to become targets (D-214).
    wait_for_network: bool,
    latest: Arc<Mutex<Latest>>,
}

/// The targets that were computed last. The Nodes are dropped with the next change, so that no old Nodes are kept in
/// memory; the members stay.
#[derive(Default)]
struct Latest {
    set: Option<TargetSet>,
    members: Option<Members>,
    /// UIDs of the targets, if new Nodes must have a network.
    let_in: Option<HashSet<Box<str>>>,
}

/// Returns `true` if a Node becomes or stays a target: it has a network, or was a target before. At first all Nodes
/// count as targets, because the current targets are unknown.
fn has_joined(node: &Node, let_in: Option<&HashSet<Box<str>>>) -> bool {
    !lacks_network(node) || let_in.is_none_or(|let_in| let_in.contains(&node.uid))
}

impl Targets {
    pub(super) fn new(cache: Cache<Node>, wait_for_network: bool) -> Self {
        let latest = Arc::new(Mutex::new(Latest::default()));
        let outdated = Arc::clone(&latest);
        cache.subscribe(Resync::never(), move |event| {
            if !event.is_resync() {
                outdated.lock().set = None;
            }
        });
        Self {
            cache,
            wait_for_network,
            latest,
        }
    }

    /// Returns the current targets (SVC-64).
    ///
    /// # Errors
    /// As long as the Nodes are not listed, so that no load balancer loses its targets because of an empty cache
    /// (P-25).
    pub(super) fn current(&self) -> Result<TargetSet> {
        if !self.cache.is_synced() {
            return Err(Error::other(
                "the Nodes of the cluster have not been listed yet",
            ));
        }
        // The lock is held while Nodes are listed, so that a change meanwhile discards the result.
        let mut latest = self.latest.lock();
        if let Some(set) = &latest.set {
            return Ok(set.clone());
        }
        let mut nodes = self.cache.list();
        nodes.retain(|node| is_eligible(node));
        let mut let_in = latest.let_in.take();
        if self.wait_for_network {
            nodes.retain(|node| has_joined(node, let_in.as_ref()));
            let_in = Some(nodes.iter().map(|node| node.uid.clone()).collect());
        }
        let nodes: Arc<[_]> = nodes.into();
        let members = match latest.members.take() {
            Some(before) if before.are(&nodes) => before,
            _ => Members::of(nodes.iter().map(|node| &**node)),
        };
        let labels = Sum::default();
        let addresses = Sum::default();
        let set = TargetSet {
            nodes,
            members: members.clone(),
            labels,
            addresses,
        };
        *latest = Latest {
            set: Some(set.clone()),
            members: Some(members),
            let_in,
        };
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::{AddressType, NodeAddress};

    fn node(name: &str, provider_id: &str) -> Node {
        Node {
            name: name.into(),
            provider_id: provider_id.into(),
            ..Node::default()
        }
    }

    #[test]
    fn a_host_name_is_shown_once_and_the_first_twenty_are_sorted() {
        assert_eq!(host_names(&["b", "a", "b"]), "[a b]");
        let names: Vec<String> = (1..=22)
            .rev()
            .map(|number| format!("n{:02}", number.min(21)))
            .collect();
        let shown = host_names(&names);
        assert!(
            shown.starts_with("[n03 n04 ") && shown.ends_with(" n20 n21 <2 more>]"),
            "{shown}"
        );
    }

    #[test]
    fn a_set_is_made_once_for_each_change_and_its_members_are_shared() {
        let cache = Cache::with([node("a", "p://a"), node("b", "p://b")]);
        let targets = Targets::new(cache.clone(), false);
        let first = targets.current().unwrap();
        let again = targets.current().unwrap();
        assert!(Arc::ptr_eq(&first.nodes, &again.nodes));

        cache.insert(Node {
            ready: cloud_provider::ConditionStatus::False,
            ..node("a", "p://a")
        });
        let flapped = targets.current().unwrap();
        assert!(
            !Arc::ptr_eq(&first.nodes, &flapped.nodes),
            "a provider sees Nodes as they are"
        );
        assert!(
            Arc::ptr_eq(&first.members.0, &flapped.members.0),
            "the set is the same, and kept once"
        );

        cache.insert(node("b", "p://other"));
        assert!(!first.members.same(&targets.current().unwrap().members));
        cache.remove("b");
        assert_eq!(
            targets
                .current()
                .unwrap()
                .members
                .names()
                .collect::<Vec<_>>(),
            ["a"]
        );
    }

    #[test]
    fn labels_count_only_for_those_who_follow_them() {
        let with = |value: &str| Node {
            labels: [("pool", value)].into_iter().collect(),
            ..node("a", "p://a")
        };
        let set = |value: &str| TargetSet::eligible(&[with(value).into()]);
        let before = set("x");
        let after = set("y");
        let follows = |labels| Follows {
            labels,
            ..Follows::default()
        };
        for (then, now, is) in [
            (true, true, false),
            (false, true, false),
            (true, false, true),
            (false, false, true),
        ] {
            assert_eq!(
                before.given(follows(then)).is(&after.given(follows(now))),
                is,
                "{then} {now}"
            );
        }
        let given = before.given(follows(true));
        assert!(given.is(&set("x").given(follows(true))) && !Given::of(&before.members).is(&given));
    }

    #[test]
    fn declared_annotations_count_as_labels_do() {
        let with = |value: &str| Node {
            annotations: [("ingress", value)].into_iter().collect(),
            ..node("a", "p://a")
        };
        let given = |value: &str, annotations| {
            TargetSet::eligible(&[with(value).into()]).given(Follows {
                labels: true,
                addresses: false,
                annotations,
            })
        };
        let keys = ["ingress".to_owned()];
        assert!(!given("true", &keys).is(&given("false", &keys)));
        assert!(given("true", &keys).is(&given("true", &keys)));
        assert!(
            given("true", &[]).is(&given("false", &[])),
            "nobody asks for it"
        );
    }

    #[test]
    fn addresses_count_only_for_those_who_follow_them() {
        let with = |addresses: &[&str]| {
            let internal = |text: &&str| NodeAddress::new(AddressType::InternalIP, text);
            TargetSet::eligible(&[Node {
                addresses: addresses.iter().map(internal).collect(),
                ..node("a", "p://a")
            }
            .into()])
        };
        let none = with(&[]);
        let one = with(&["10.0.0.4"]);
        let follows = |addresses| Follows {
            addresses,
            ..Follows::default()
        };
        assert!(!none.given(follows(true)).is(&one.given(follows(true))));
        assert!(none.given(follows(false)).is(&one.given(follows(false))));
        assert!(
            one.given(follows(true))
                .is(&with(&["10.0.0.4"]).given(follows(true)))
        );
    }

    /// A new Node needs a network to become a target, and a Node that is a target stays one (P-26, D-214).
    #[test]
    fn node_that_joins_needs_a_network_and_a_target_stays_one() {
        let network = |status| {
            Some(cloud_provider::NetworkCondition {
                status,
                ..Default::default()
            })
        };
        let with = |name: &str, uid: &str, status| Node {
            uid: uid.into(),
            network_unavailable: network(status),
            ..node(name, &format!("p://{name}"))
        };
        use ConditionStatus::{False, True, Unknown};
        for (waits, expected) in [
            (true, ["a", "a", "a b", "a b", "a b d", "b d"]),
            (false, ["a", "a b", "a b", "a b", "a b c d", "a b c d"]),
        ] {
            let cache = Cache::with([with("a", "1", True)]);
            let targets = Targets::new(cache.clone(), waits);
            let mut seen = Vec::new();
            let mut look = || {
                seen.push(
                    targets
                        .current()
                        .unwrap()
                        .members
                        .names()
                        .collect::<Vec<_>>()
                        .join(" "),
                );
            };
            look();
            cache.insert(with("b", "2", True));
            look();
            cache.insert(with("b", "2", False));
            look();
            cache.insert(with("b", "2", True));
            look();
            cache.insert(with("c", "3", True));
            cache.insert(with("d", "4", Unknown));
            look();
            // Another Node of the same name.
            cache.insert(with("a", "5", True));
            look();
            assert_eq!(seen, expected, "{waits}");
        }
    }

    #[test]
    fn nodes_that_were_never_listed_are_not_no_nodes() {
        let targets = Targets::new(Cache::new(), false);
        assert!(targets.current().is_err());
    }
}
