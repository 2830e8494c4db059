//! A load balancer as a tree of parts, wanted and actual.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cloud_provider::{Cluster, LoadBalancerIngress, LoadBalancerStatus};
use jiff::Timestamp;

use super::plan::Operation;
use super::{Attributes, SortedMap, TargetSets, Targets};

/// Setting of a listener: the pool that it sends traffic to.
pub const POOL: &str = "pool";

/// A part of a load balancer. The order of this type is the order in which parts are made; they are removed the other way
/// round.
///
/// | cloud has | becomes |
/// |---|---|
/// | listeners and targets of the whole load balancer | one [`Pool`](Part::Pool) |
/// | a pool, target group or back-end for each listener | as many pools, named for their port |
/// | a firewall, a certificate, a reserved address, a health check as an object of its own | [`CreatedBefore`](Part::CreatedBefore) |
/// | a floating IP or DNS name on top | [`CreatedAfter`](Part::CreatedAfter) |
///
/// What cannot be changed on a pool (its protocol, say) belongs into its name: then the new pool is made, the listener moves
/// and the old pool goes, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Something that must be there before it.
    CreatedBefore(Auxiliary),
    /// The load balancer itself.
    Balancer,
    /// Targets that belong together, and how they are checked.
    Pool(String),
    /// A port that takes traffic, for the pool in its setting [`POOL`].
    Listener(Port),
    /// Something that leads traffic to it once it works.
    CreatedAfter(Auxiliary),
}

impl Part {
    /// Something of this kind that must be there before it; lower ranks are made first.
    #[must_use]
    pub fn created_before(rank: u8, kind: &'static str, name: impl Into<String>) -> Self {
        Self::CreatedBefore(Auxiliary { rank, kind: kind.into(), name: name.into() })
    }

    /// Something of this kind on top of it.
    #[must_use]
    pub fn created_after(kind: &'static str, name: impl Into<String>) -> Self {
        Self::CreatedAfter(Auxiliary { rank: 0, kind: kind.into(), name: name.into() })
    }

    /// Whether it is something of this kind beside the load balancer.
    #[must_use]
    pub fn is_of_kind(&self, wanted: &str) -> bool {
        matches!(self, Self::CreatedBefore(Auxiliary { kind, .. }) | Self::CreatedAfter(Auxiliary { kind, .. }) if kind == wanted)
    }
}

/// A part beside the load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Auxiliary {
    /// Lower ranks are made first.
    pub rank: u8,
    /// What it is, for messages: `security group`.
    pub kind: Cow<'static, str>,
    /// Which one.
    pub name: String,
}

/// Port and transport protocol: 53/TCP and 53/UDP are two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// 1 to 65535.
    pub number: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Cow<'static, str>,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.protocol)
    }
}

/// For messages; the load balancer's name is added by those who know it.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreatedBefore(auxiliary) | Self::CreatedAfter(auxiliary) => {
                write!(f, "{} {:?}", auxiliary.kind, auxiliary.name)
            }
            Self::Balancer => f.write_str("load balancer"),
            Self::Pool(name) => write!(f, "pool {name:?}"),
            Self::Listener(port) => write!(f, "listener {port}"),
        }
    }
}

/// All parts of one load balancer: what a Service wants, or what a cloud has.
///
/// ```
/// use provider_kit::load_balancers::{plan, Attributes, Targets, Tree};
///
/// let targets: Targets = ["m-1", "m-2"].into_iter().collect();
/// let wanted = Tree::default()
///     .balancer(Attributes::default().set("tier", "basic"))
///     .pool("main", Attributes::default(), Some(targets))
///     .listener(443, "TCP", "main", Attributes::default().set("target_port", 30443));
/// let operations = plan(&wanted, &Tree::default());
/// assert_eq!(operations.len(), 4, "load balancer, pool, its targets, listener");
/// assert!(plan(&wanted, &Tree::default().after(&operations)).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The parts and their settings.
    pub parts: SortedMap<Part, Attributes>,
    /// The targets of each pool. A wanted pool without an entry makes no statement: its targets stay.
    pub targets: SortedMap<String, Targets>,
    /// How many targets a pool may have at most: as what is wanted says, or as the cloud shows. The greater counts.
    pub limits: SortedMap<String, usize>,
}

impl Tree {
    /// Adds the load balancer itself.
    #[must_use]
    pub fn balancer(self, attributes: Attributes) -> Self {
        self.part(Part::Balancer, attributes)
    }

    /// Adds a pool; `None`: its targets are unknown, or shall stay as they are.
    #[must_use]
    pub fn pool(mut self, name: &str, attributes: Attributes, targets: Option<Targets>) -> Self {
        self.targets.extend(targets.map(|targets| (name.to_owned(), targets)));
        self.part(Part::Pool(name.to_owned()), attributes)
    }

    /// Says how many targets the cloud takes in a pool. Those of a wanted pool that are there already go first; which ones find
    /// no room [is reported](super::Notice::TargetsLeftOut).
    ///
    /// ```
    /// use provider_kit::load_balancers::{plan, Attributes, Operation, Targets, Tree};
    ///
    /// let tree = |targets: &[&str]| Tree::default().pool("main", Attributes::default(), Some(targets.iter().collect()));
    /// let operations = plan(&tree(&["a", "b", "c", "d"]).limit("main", 2), &tree(&["c"]));
    /// let added: Targets = ["a"].into_iter().collect();
    /// assert_eq!(operations, [Operation::AddTargets { pool: "main".into(), targets: added }]);
    /// ```
    #[must_use]
    pub fn limit(mut self, pool: &str, targets: usize) -> Self {
        self.limits.insert(pool.to_owned(), targets);
        self
    }

    /// Adds a listener.
    #[must_use]
    pub fn listener(
        self,
        number: u16,
        protocol: impl Into<Cow<'static, str>>,
        pool: &str,
        attributes: Attributes,
    ) -> Self {
        let port = Port { number, protocol: protocol.into() };
        self.part(Part::Listener(port), attributes.set(POOL, pool))
    }

    /// Adds any part.
    #[must_use]
    pub fn part(mut self, part: Part, attributes: Attributes) -> Self {
        self.parts.insert(part, attributes);
        self
    }

    /// The load balancer's own settings; `None` if there is none, though something made for it may be.
    #[must_use]
    pub fn balancer_attributes(&self) -> Option<&Attributes> {
        self.parts.get(&Part::Balancer)
    }

    /// A pool's settings.
    #[must_use]
    pub fn pool_attributes(&self, pool: &str) -> Option<&Attributes> {
        self.parts.get(&Part::Pool(pool.to_owned()))
    }

    /// The listeners, in order.
    pub fn listeners(&self) -> impl Iterator<Item = (&Port, &Attributes)> {
        self.parts.iter().filter_map(|(part, attributes)| match part {
            Part::Listener(port) => Some((port, attributes)),
            _ => None,
        })
    }

    /// Whether this part is a pool that no listener leads to.
    pub(super) fn is_unused_pool(&self, part: &Part) -> bool {
        let Part::Pool(pool) = part else { return false };
        !self.listeners().any(|(_, settings)| settings.text(POOL) == Some(pool))
    }

    /// The targets of a pool; none if it is not known.
    #[must_use]
    pub fn targets_of(&self, pool: &str) -> Targets {
        self.targets.get(pool).cloned().unwrap_or_default()
    }

    /// What it will be when `operations` are done. A cloud that takes the whole state in one request is sent this.
    #[must_use]
    pub fn after(&self, operations: &[Operation]) -> Self {
        let mut tree = self.clone();
        for operation in operations {
            tree.apply(operation);
        }
        tree
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Tag | Operation::Untag => {}
            Operation::Create { part, attributes } | Operation::Update { part, attributes, .. } => {
                self.parts.insert(part.clone(), attributes.clone());
            }
            Operation::AddTargets { pool, targets } => {
                let targets = self.targets_of(pool).with(targets);
                self.targets.insert(pool.clone(), targets);
            }
            Operation::RemoveTargets { pool, targets } => {
                let targets = self.targets_of(pool).without(targets);
                self.targets.insert(pool.clone(), targets);
            }
            Operation::Delete { part } => {
                self.parts.remove(part);
                if let Part::Pool(name) = part {
                    self.targets.remove(name);
                }
            }
        }
    }

    /// These parts with the targets that `wanted` has for them: what remains of a wish when only targets may change. What a
    /// pool without targets does not show comes with them, for it may be the targets'.
    #[must_use]
    pub fn with_targets_of(&self, wanted: &Self) -> Self {
        let mut tree = self.clone();
        for (pool, targets) in &wanted.targets {
            let part = Part::Pool(pool.clone());
            let Some(actual) = self.parts.get(&part) else { continue };
            let fills = self.targets_of(pool).is_empty() && !targets.is_empty();
            if let Some(wanted) = wanted.parts.get(&part).filter(|_| fills) {
                tree.parts.insert(part, wanted.overlaid_with(actual));
            }
            tree.targets.insert(pool.clone(), targets.clone());
        }
        tree.limits.clone_from(&wanted.limits);
        tree
    }
}

/// Whose a load balancer is: written on it when it is made, in labels, tags or a description (INV-2, D-11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerTags {
    /// The cluster's id, or its name where the id may not be read.
    pub cluster: Option<String>,
    /// The Service's UID.
    pub service: Option<String>,
}

impl OwnerTags {
    /// The key of the cluster's mark, where a cloud has labels by key.
    pub const CLUSTER: &str = "ccm-rs/cluster";
    /// The key of the Service's mark.
    pub const SERVICE: &str = "ccm-rs/service";

    /// What a cluster is marked with.
    #[must_use]
    pub fn cluster(cluster: &Cluster) -> &str {
        cluster.id.as_deref().unwrap_or(&cluster.name)
    }

    /// Takes them out of an object's labels; the others stay.
    #[must_use]
    pub fn take_from(labels: &mut BTreeMap<String, String>) -> Self {
        Self { cluster: labels.remove(Self::CLUSTER), service: labels.remove(Self::SERVICE) }
    }

    /// Puts them among an object's other labels.
    #[must_use]
    pub fn among(self, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let owner_tags = [(Self::CLUSTER, self.cluster), (Self::SERVICE, self.service)];
        labels.extend(owner_tags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        labels
    }
}

/// What a load balancer is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It works, and takes changes.
    #[default]
    Ready,
    /// The cloud is at work on it in the background.
    Busy,
    /// It is broken, and stays so; in the cloud's words.
    Failed(String),
}

/// A load balancer as a cloud shows it.
#[derive(Clone, Debug, Default)]
pub struct Actual {
    /// Its id; if only other parts of it are there, the id of one of them.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Name and ID in the cloud, if `name` and `id` are those of one Service's share in it. Messages show these.
    pub shown_as: Option<(String, String)>,
    /// Whose it is.
    pub owner_tags: OwnerTags,
    /// Other labels, for clouds that replace all labels at once: they stay.
    pub labels: BTreeMap<String, String>,
    /// The Service that the legacy owner tag on it names (a label, tag or name), in the provider's terms.
    pub legacy_owner: Option<String>,
    /// Its kind, in a cloud that has several, such as `classic` and `network`.
    pub kind: &'static str,
    /// What it is doing.
    pub state: State,
    /// Where it is reached.
    pub ingress: Vec<LoadBalancerIngress>,
    /// Its parts; `None` if a list of load balancers does not tell them: then it is read by its id when they are needed.
    pub tree: Option<Tree>,
    /// Parts of it that belong to somebody else, and to whom. They stay, and with them the load balancer itself (INV-7).
    pub foreign: BTreeMap<Part, String>,
    /// The owner tags of those who have parts of it, if all of them are known by such. Needed of one that has
    /// [failed](State::Failed) for good, which nobody can leave: it goes when the last of them goes.
    pub sharers: Option<Vec<OwnerTags>>,
    /// Time of creation, if the cloud tells. Shown to people, and compared with nothing.
    pub created: Option<Timestamp>,
    /// If set, it was not made for the Service that has it, but taken over, and is [let go](super::Operation::Untag) instead
    /// of deleted. The provider keeps this on the load balancer itself, written together with the owner tags.
    pub adopted: bool,
}

impl Actual {
    /// Its status for a Service.
    #[must_use]
    pub fn status(&self) -> LoadBalancerStatus {
        LoadBalancerStatus { ingress: (!self.ingress.is_empty()).then(|| self.ingress.clone()) }
    }

    /// An ingress for an IP address.
    #[must_use]
    pub fn ip(address: &str) -> LoadBalancerIngress {
        LoadBalancerIngress { ip: Some(address.to_owned()), ..LoadBalancerIngress::default() }
    }

    /// An ingress for a name.
    #[must_use]
    pub fn host(name: &str) -> LoadBalancerIngress {
        LoadBalancerIngress { hostname: Some(name.to_owned()), ..LoadBalancerIngress::default() }
    }

    /// The same, with its sets of targets in the memory of those that are kept already.
    #[must_use]
    pub fn sharing(mut self, sets: &TargetSets) -> Self {
        for targets in self.tree.iter_mut().flat_map(|tree| tree.targets.values_mut()) {
            *targets = sets.shared(std::mem::take(targets));
        }
        self
    }

    pub(super) fn known_tree(&self) -> Cow<'_, Tree> {
        self.tree.as_ref().map_or_else(|| Cow::Owned(Tree::default()), Cow::Borrowed)
    }

    /// Returns the text that names it in messages: `load balancer "web" (4711)`, as the cloud shows it.
    #[must_use]
    pub fn place(&self) -> String {
        let id = self.shown_as.as_ref().map_or(&self.id, |(_, id)| id);
        format!("load balancer {:?} ({id})", self.shown_name())
    }

    /// Returns the name that the cloud shows.
    pub(super) fn shown_name(&self) -> &str {
        self.shown_as.as_ref().map_or(&self.name, |(name, _)| name)
    }
}

/// What is known of a load balancer, shared.
pub(super) type Shared = Arc<Actual>;
