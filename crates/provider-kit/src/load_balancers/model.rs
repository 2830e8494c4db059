//! A load balancer as a graph of resources, desired and observed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cloud_provider::{Cluster, LoadBalancerIngress, LoadBalancerStatus};
use jiff::Timestamp;

use super::plan::Operation;
use super::{Attributes, SortedMap, TargetSets, Targets};

/// Setting of a listener: the pool that the listener sends traffic to.
pub const POOL: &str = "pool";

/// A resource of a load balancer. The order of this type is the order in which resources are created; they are deleted
/// in reverse order.
///
/// | cloud has | becomes |
/// |---|---|
/// | listeners and targets of the whole load balancer | one [`Pool`](ResourceKey::Pool) |
/// | a pool, target group or back-end for each listener | as many pools, named for their port |
/// | a firewall, a certificate, a reserved address, a health check as an object of its own | [`CreatedBefore`](ResourceKey::CreatedBefore) |
/// | a floating IP or DNS name on top | [`CreatedAfter`](ResourceKey::CreatedAfter) |
///
/// A property that cannot be changed on a pool (its protocol, for example) belongs in the pool's name: then the new
/// pool is created, the listener moves and the old pool is deleted, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKey {
    /// An auxiliary resource that is created before the load balancer.
    CreatedBefore(Auxiliary),
    /// The load balancer itself.
    Balancer,
    /// A group of targets, with their health check.
    Pool(String),
    /// A port that accepts traffic, for the pool in its setting [`POOL`].
    Listener(Port),
    /// An auxiliary resource that leads traffic to the load balancer once it works.
    CreatedAfter(Auxiliary),
}

impl ResourceKey {
    /// Returns an auxiliary resource that is created before the load balancer; lower ranks are created first.
    #[must_use]
    pub fn created_before(rank: u8, kind: &'static str, name: impl Into<String>) -> Self {
        Self::CreatedBefore(Auxiliary {
            rank,
            kind: kind.into(),
            name: name.into(),
        })
    }

    /// Returns an auxiliary resource that is created after the load balancer.
    #[must_use]
    pub fn created_after(kind: &'static str, name: impl Into<String>) -> Self {
        Self::CreatedAfter(Auxiliary {
            rank: 0,
            kind: kind.into(),
            name: name.into(),
        })
    }

    /// Returns `true` if the resource is an auxiliary resource of this kind.
    #[must_use]
    pub fn is_of_kind(&self, wanted: &str) -> bool {
        matches!(self, Self::CreatedBefore(Auxiliary { kind, .. }) | Self::CreatedAfter(Auxiliary { kind, .. }) if kind == wanted)
    }
}

/// An auxiliary resource of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Auxiliary {
    /// The rank in the order of creation; lower ranks are created first.
    pub rank: u8,
    /// The kind, for messages: `security group`.
    pub kind: Cow<'static, str>,
    /// The name among the resources of the kind.
    pub name: String,
}

/// A port and its transport protocol: 53/TCP and 53/UDP are different ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Port number, 1 to 65535.
    pub number: u16,
    /// Transport protocol: `TCP`, `UDP` or `SCTP`.
    pub protocol: Cow<'static, str>,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.protocol)
    }
}

/// Displays the resource for messages; the caller adds the load balancer's name.
impl fmt::Display for ResourceKey {
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

/// The resources of one load balancer: the desired or the observed state.
///
/// ```
/// use provider_kit::load_balancers::{plan, Attributes, Targets, ResourceGraph};
///
/// let targets: Targets = ["m-1", "m-2"].into_iter().collect();
/// let wanted = ResourceGraph::default()
///     .balancer(Attributes::default().set("tier", "basic"))
///     .pool("main", Attributes::default(), Some(targets))
///     .listener(443, "TCP", "main", Attributes::default().set("target_port", 30443));
/// let operations = plan(&wanted, &ResourceGraph::default());
/// assert_eq!(operations.len(), 4, "load balancer, pool, its targets, listener");
/// assert!(plan(&wanted, &ResourceGraph::default().after(&operations)).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceGraph {
    /// The resources and their settings.
    pub resources: SortedMap<ResourceKey, Attributes>,
    /// The targets of each pool. A desired pool without an entry makes no statement: its targets stay.
    pub targets: SortedMap<String, Targets>,
    /// The maximum number of targets of a pool, from the desired or from the observed state. The greater of the two
    /// counts.
    pub limits: SortedMap<String, usize>,
    /// Desired auxiliary resources whose settings follow from the Nodes: they are updated along with targets.
    pub follow_nodes: BTreeSet<ResourceKey>,
}

impl ResourceGraph {
    /// Adds an auxiliary resource whose settings follow from the Nodes, such as a firewall that names them. If it exists,
    /// it is also updated in a sync that otherwise changes only targets.
    #[must_use]
    pub fn resource_of_nodes(mut self, resource: ResourceKey, attributes: Attributes) -> Self {
        self.follow_nodes.insert(resource.clone());
        self.resource(resource, attributes)
    }

    /// Adds the load balancer itself.
    #[must_use]
    pub fn balancer(self, attributes: Attributes) -> Self {
        self.resource(ResourceKey::Balancer, attributes)
    }

    /// Adds a pool. `None` for `targets` means that they are unknown, or stay as they are.
    #[must_use]
    pub fn pool(mut self, name: &str, attributes: Attributes, targets: Option<Targets>) -> Self {
        self.targets
            .extend(targets.map(|targets| (name.to_owned(), targets)));
        self.resource(ResourceKey::Pool(name.to_owned()), attributes)
    }

    /// Sets the maximum number of targets that the cloud accepts in a pool. Present targets take precedence; targets
    /// without room [are reported](super::Notice::TargetsLeftOut).
    ///
    /// ```
    /// use provider_kit::load_balancers::{plan, Attributes, Operation, Targets, ResourceGraph};
    ///
    /// let graph = |targets: &[&str]| ResourceGraph::default().pool("main", Attributes::default(), Some(targets.iter().collect()));
    /// let operations = plan(&graph(&["a", "b", "c", "d"]).limit("main", 2), &graph(&["c"]));
    /// let added: Targets = ["a"].into_iter().collect();
    /// assert_eq!(operations, [Operation::AddTargets { pool: "main".into(), targets: added }]);
    /// ```
    #[must_use]
    pub fn limit(mut self, pool: &str, targets: usize) -> Self {
        self.limits.insert(pool.to_owned(), targets);
        self
    }

    /// Adds a listener for a pool.
    #[must_use]
    pub fn listener(
        self,
        number: u16,
        protocol: impl Into<Cow<'static, str>>,
        pool: &str,
        attributes: Attributes,
    ) -> Self {
        let port = Port {
            number,
            protocol: protocol.into(),
        };
        self.resource(ResourceKey::Listener(port), attributes.set(POOL, pool))
    }

    /// Adds a part of any kind.
    #[must_use]
    pub fn resource(mut self, resource: ResourceKey, attributes: Attributes) -> Self {
        self.resources.insert(resource, attributes);
        self
    }

    /// Wants settings of a resource as they are `seen`, if the resource is in both states.
    pub fn keep(&mut self, seen: &Self, resource: &ResourceKey, settings: &[&'static str]) {
        let (Some(wanted), Some(observed_settings)) =
            (self.resources.get(resource), seen.resources.get(resource))
        else {
            return;
        };
        let kept = settings.iter().fold(wanted.clone(), |all, setting| {
            all.set(*setting, observed_settings.get(setting))
        });
        self.resources.insert(resource.clone(), kept);
    }

    /// Returns the load balancer's own settings; `None` if there is no load balancer, even if auxiliary resources
    /// exist.
    #[must_use]
    pub fn balancer_attributes(&self) -> Option<&Attributes> {
        self.resources.get(&ResourceKey::Balancer)
    }

    /// Returns a pool's settings.
    #[must_use]
    pub fn pool_attributes(&self, pool: &str) -> Option<&Attributes> {
        self.resources.get(&ResourceKey::Pool(pool.to_owned()))
    }

    /// Returns the listeners, in order.
    pub fn listeners(&self) -> impl Iterator<Item = (&Port, &Attributes)> {
        self.resources
            .iter()
            .filter_map(|(resource, attributes)| match resource {
                ResourceKey::Listener(port) => Some((port, attributes)),
                _ => None,
            })
    }

    /// Returns `true` if the resource is a pool that no listener leads to.
    pub(super) fn is_unused_pool(&self, resource: &ResourceKey) -> bool {
        let ResourceKey::Pool(pool) = resource else {
            return false;
        };
        !self
            .listeners()
            .any(|(_, settings)| settings.text(POOL) == Some(pool))
    }

    /// Returns `true` if traffic can reach targets.
    pub(super) fn serves(&self) -> bool {
        self.listeners().next().is_some()
            && self.targets.iter().any(|(_, targets)| !targets.is_empty())
    }

    /// Returns `true` if `wanted` chooses a setting of the creation that these resources do not show, although they exist:
    /// what the cloud chose by itself is missing in a state that this program wrote.
    pub(super) fn lacks_fixed_of(&self, wanted: &Self) -> bool {
        let lacks = |(resource, wanted): (&ResourceKey, &Attributes)| {
            self.resources
                .get(resource)
                .is_some_and(|actual| actual.lacks_fixed_of(wanted))
        };
        wanted.resources.iter().any(lacks)
    }

    /// Returns the targets of a pool; empty if the pool is unknown.
    #[must_use]
    pub fn targets_of(&self, pool: &str) -> Targets {
        self.targets.get(pool).cloned().unwrap_or_default()
    }

    /// Predicts the state after `operations`. A cloud that takes the whole state in one request is sent this value.
    #[must_use]
    pub fn after(&self, operations: &[Operation]) -> Self {
        let mut graph = self.clone();
        for operation in operations {
            graph.apply(operation);
        }
        graph
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Tag | Operation::Untag => {}
            Operation::Create {
                resource,
                attributes,
            }
            | Operation::Update {
                resource,
                attributes,
                ..
            } => {
                self.resources.insert(resource.clone(), attributes.clone());
            }
            Operation::AddTargets { pool, targets } => {
                let targets = self.targets_of(pool).with(targets);
                self.targets.insert(pool.clone(), targets);
            }
            Operation::RemoveTargets { pool, targets } => {
                let targets = self.targets_of(pool).without(targets);
                self.targets.insert(pool.clone(), targets);
            }
            Operation::Delete { resource } => {
                self.resources.remove(resource);
                if let ResourceKey::Pool(name) = resource {
                    self.targets.remove(name);
                }
            }
        }
    }

    /// Returns these resources with the targets that `wanted` has for them: the desired state of a sync that may change
    /// only targets. Settings that a pool without targets does not show are taken over as well, because they may belong
    /// to the targets; and so are the settings of resources that follow from the Nodes.
    #[must_use]
    pub fn with_targets_of(&self, wanted: &Self) -> Self {
        let mut graph = self.clone();
        for (pool, targets) in &wanted.targets {
            let resource = ResourceKey::Pool(pool.clone());
            let Some(actual) = self.resources.get(&resource) else {
                continue;
            };
            let fills = self.targets_of(pool).is_empty() && !targets.is_empty();
            if let Some(wanted) = wanted.resources.get(&resource).filter(|_| fills) {
                graph
                    .resources
                    .insert(resource, wanted.overlaid_with(actual));
            }
            graph.targets.insert(pool.clone(), targets.clone());
        }
        for resource in &wanted.follow_nodes {
            if let (Some(settings), true) = (
                wanted.resources.get(resource),
                self.resources.contains_key(resource),
            ) {
                graph.resources.insert(resource.clone(), settings.clone());
            }
        }
        graph.limits.clone_from(&wanted.limits);
        graph
    }
}

/// The owner of a load balancer, written when the load balancer is created, in labels, tags or a description (INV-2,
/// D-11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerTags {
    /// The cluster's ID, or its name where the ID may not be read.
    pub cluster: Option<String>,
    /// UID of the Service.
    pub service: Option<String>,
}

impl OwnerTags {
    /// The key of the cluster's owner tag, in clouds with key-value labels.
    pub const CLUSTER: &str = "ccm-rs/cluster";
    /// The key of the Service's owner tag.
    pub const SERVICE: &str = "ccm-rs/service";

    /// Returns the value of a cluster's owner tag.
    #[must_use]
    pub fn cluster(cluster: &Cluster) -> &str {
        cluster.id.as_deref().unwrap_or(&cluster.name)
    }

    /// Removes the owner tags from an object's labels and returns them; the other labels stay.
    #[must_use]
    pub fn take_from(labels: &mut BTreeMap<String, String>) -> Self {
        Self {
            cluster: labels.remove(Self::CLUSTER),
            service: labels.remove(Self::SERVICE),
        }
    }

    /// Adds the owner tags to an object's other labels.
    #[must_use]
    pub fn among(self, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let owner_tags = [(Self::CLUSTER, self.cluster), (Self::SERVICE, self.service)];
        labels.extend(
            owner_tags
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?))),
        );
        labels
    }
}

/// The state of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The load balancer works, and accepts changes.
    #[default]
    Ready,
    /// The cloud is changing the load balancer in the background.
    Busy,
    /// The load balancer is permanently broken; with the cloud's message.
    Failed(String),
}

/// A load balancer as the cloud shows it.
#[derive(Clone, Debug, Default)]
pub struct ObservedLoadBalancer {
    /// ID of the load balancer; if only other resources exist, the ID of one of them.
    pub id: String,
    /// Name of the load balancer.
    pub name: String,
    /// Name and ID in the cloud, if `name` and `id` are those of one Service's share of the load balancer. Messages
    /// show these.
    pub cloud_name_and_id: Option<(String, String)>,
    /// Owner tags on the load balancer.
    pub owner_tags: OwnerTags,
    /// Other labels, for clouds that replace all labels at once: they stay.
    pub labels: BTreeMap<String, String>,
    /// The Service that the legacy owner tag (a label, tag or name) names, in the provider's terms.
    pub legacy_owner: Option<String>,
    /// Kind of load balancer, in a cloud that has several, such as `classic` and `network`.
    pub kind: &'static str,
    /// State of the load balancer.
    pub state: State,
    /// Addresses at which the load balancer is reached.
    pub ingress: Vec<LoadBalancerIngress>,
    /// Resources of the load balancer; `None` if lists do not show them: then the load balancer is read by its ID when
    /// they are needed.
    pub graph: Option<ResourceGraph>,
    /// Resources that belong to another owner, with the name of that owner. They stay, and with them the load balancer
    /// itself (INV-7).
    pub foreign: BTreeMap<ResourceKey, String>,
    /// Owner tags of all Services that share the load balancer; `None` if one of them has no owner tags. Used for a
    /// shared load balancer that has [failed](State::Failed): its resources cannot be removed, so it is deleted as a
    /// whole when the last of these Services is deleted.
    pub sharers: Option<Vec<OwnerTags>>,
    /// Time of creation, if the cloud shows it. For display only.
    pub created: Option<Timestamp>,
    /// If set, the load balancer was adopted, not created for its Service, and is [released](super::Operation::Untag)
    /// instead of deleted. The provider keeps this on the load balancer itself, written together with the owner tags.
    pub adopted: bool,
}

impl ObservedLoadBalancer {
    /// Returns the load balancer's status for a Service.
    #[must_use]
    pub fn status(&self) -> LoadBalancerStatus {
        LoadBalancerStatus {
            ingress: (!self.ingress.is_empty()).then(|| self.ingress.clone()),
        }
    }

    /// Returns an ingress with an IP address.
    #[must_use]
    pub fn ip(address: &str) -> LoadBalancerIngress {
        LoadBalancerIngress {
            ip: Some(address.to_owned()),
            ..LoadBalancerIngress::default()
        }
    }

    /// Returns an ingress with a host name.
    #[must_use]
    pub fn host(name: &str) -> LoadBalancerIngress {
        LoadBalancerIngress {
            hostname: Some(name.to_owned()),
            ..LoadBalancerIngress::default()
        }
    }

    /// Returns the load balancer with its target sets replaced by equal sets that are already in memory.
    #[must_use]
    pub fn sharing(mut self, sets: &TargetSets) -> Self {
        for targets in self
            .graph
            .iter_mut()
            .flat_map(|graph| graph.targets.values_mut())
        {
            *targets = sets.shared(std::mem::take(targets));
        }
        self
    }

    /// Returns the targets of all pools.
    #[must_use]
    pub fn targets(&self) -> Targets {
        let pools = self
            .graph
            .iter()
            .flat_map(|graph| graph.targets.iter())
            .map(|(_, targets)| targets);
        pools.fold(Targets::default(), |all, targets| all.with(targets))
    }

    pub(super) fn known_graph(&self) -> Cow<'_, ResourceGraph> {
        self.graph
            .as_ref()
            .map_or_else(|| Cow::Owned(ResourceGraph::default()), Cow::Borrowed)
    }

    /// Returns the text that names the load balancer in messages, as the cloud shows it: `load balancer "web" (4711)`.
    #[must_use]
    pub fn place(&self) -> String {
        let id = self
            .cloud_name_and_id
            .as_ref()
            .map_or(&self.id, |(_, id)| id);
        format!("load balancer {:?} ({id})", self.shown_name())
    }

    /// Returns the name that the cloud shows.
    pub(super) fn shown_name(&self) -> &str {
        self.cloud_name_and_id
            .as_ref()
            .map_or(&self.name, |(name, _)| name)
    }
}

/// A load balancer as last observed, shared.
pub(super) type Shared = Arc<ObservedLoadBalancer>;
