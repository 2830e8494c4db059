//! The plan of a pass over the routes: a pure function of Nodes, listed routes and CIDRs (ROUTE-22 … ROUTE-27).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use cloud_provider::{CloudProvider, Node, Route};
use ipnet::IpNet;

use super::Destination;
use super::condition::RouteCondition;
use super::next_hop::leads_to;
use super::pod_cidrs::CidrRefusal;
use super::responsibility::is_responsible;
use crate::shared_ids::shared_ids;

/// The planned changes, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Routes to delete, by destination and name.
    pub deletes: Vec<Deletion>,
    /// Routes to create, by Node and in the order of its Pod CIDRs.
    pub creates: Vec<Creation>,
    /// State of each Node's Pod CIDRs before the changes, by Node name. A Node with neither Pod CIDRs nor routes has no
    /// record (ROUTE-40).
    pub records: BTreeMap<Box<str>, Record>,
    /// If set, all deletions end before the first creation (ROUTE-29). If not, a creation waits only for the deletions
    /// of its own destination.
    pub creates_wait: bool,
}

/// A planned deletion of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The route as it was listed (PROV-59).
    pub route: Route,
    /// Destination of the route.
    pub destination: Destination,
    /// Reason for the deletion.
    pub cause: DeletionCause,
}

/// The reason why a route is deleted (ROUTE-25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionCause {
    /// The route leads nowhere.
    Blackhole,
    /// The target of the route is not a known Node.
    NoTarget,
    /// The target Node no longer exists or has another Pod CIDR.
    NotAssigned,
    /// The target Node has other addresses; the route is created again (P-18).
    NextHopChanged,
}

impl DeletionCause {
    /// Returns the reason as text for logs and the output of `plan`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blackhole => "it leads nowhere",
            Self::NoTarget => "it leads to no known node",
            Self::NotAssigned => "its node does not exist or has another pod CIDR",
            Self::NextHopChanged => "its node has other addresses now",
        }
    }
}

/// A planned creation of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Creation {
    /// Node that the route leads to.
    pub node: Arc<Node>,
    /// Destination of the route.
    pub destination: Destination,
    /// Route to pass to the provider (PROV-58).
    pub route: Route,
}

/// The state of one Node's routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// UID of the Node, so that a new Node of the same name does not inherit the record.
    pub uid: Box<str>,
    /// Digest of the Node's fields that determine its routes. If the digest is unchanged but a route differs, another
    /// writer changed the route.
    pub inputs: u64,
    /// Decisions by Pod CIDR; empty if the Node lost its Pod CIDRs but a route still leads to it (ROUTE-41).
    pub decisions: BTreeMap<Destination, Decision>,
}

/// The state of the route for one Pod CIDR of a Node (ROUTE-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The route exists as it should.
    Keep,
    /// The route does not exist.
    Add,
    /// The route exists, with another next hop.
    Update,
    /// The route does not exist, and the Node must wait before it can get one.
    Wait,
    /// The route does not exist, and is not created, because it would take traffic from others.
    Refused,
}

/// The answer whether a Node may get a new route for one of its Pod CIDRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewRoute {
    /// The route is created.
    Allowed,
    /// The route is created later, because the Node [waits].
    Deferred,
    /// The Pod CIDR is [refused](super::pod_cidrs::RefusedCidrs).
    Refused,
}

impl Record {
    /// Returns `true` if the record is about the Node in its current state.
    pub(super) fn is_of(&self, node: &Node) -> bool {
        self.uid == node.uid && self.inputs == inputs_of(node)
    }

    /// Returns the state that the Node's condition must report (ROUTE-41); `None` if there is none yet.
    #[must_use]
    pub fn condition(&self) -> Option<RouteCondition> {
        let any = |of: &[Decision]| {
            self.decisions
                .values()
                .any(|decision| of.contains(decision))
        };
        match () {
            () if self.decisions.is_empty()
                || any(&[Decision::Add, Decision::Update, Decision::Refused]) =>
            {
                Some(RouteCondition::NotCreated)
            }
            () if any(&[Decision::Wait]) => None,
            () => Some(RouteCondition::Created),
        }
    }
}

/// Returns `true` if new routes of a Node are deferred: the Node belongs to another cloud (P-15), or it is
/// uninitialized and has no provider ID yet, or it has no address yet, so that the provider could only refuse. Its
/// existing routes are judged all the same. Only the adaptive mode defers routes.
#[must_use]
pub fn waits(provider: &dyn CloudProvider, node: &Node) -> bool {
    !provider.owns_node(node)
        || node.addresses.is_empty()
        || (node.is_uninitialized() && node.provider_id().is_none())
}

impl NewRoute {
    /// Returns the answer for a Pod CIDR of a Node that [waits], or whose Pod CIDR is refused.
    #[must_use]
    pub fn of(node_waits: bool, refusal: Option<&CidrRefusal>) -> Self {
        match refusal {
            _ if node_waits => Self::Deferred,
            Some(_) => Self::Refused,
            None => Self::Allowed,
        }
    }
}

/// Returns a digest of the Node's fields that determine its routes.
#[must_use]
pub fn inputs_of(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&node.uid, &node.provider_id, &node.pod_cidrs).hash(&mut hasher);
    for address in &node.addresses {
        (&address.kind, &address.address).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns a digest of a pass's inputs except the list of routes. If the digest is unchanged, a pass has nothing new to
/// do unless the routes changed.
pub(super) fn inputs(nodes: &[Arc<Node>], waits: impl Fn(&Node) -> bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    for node in nodes
        .iter()
        .filter(|node| !node.pod_cidrs.is_empty() && !waits(node))
    {
        (&node.name, inputs_of(node)).hash(&mut hasher);
    }
    // A Node gets its routes as soon as no older Node has its provider ID any more.
    for shared in shared_ids(nodes) {
        (&shared.node.uid, &shared.older).hash(&mut hasher);
    }
    hasher.finish()
}

/// Plans the changes. `routes` are in the order of the list; `new_route` decides about routes that do not exist.
///
/// ```
/// use cloud_provider::{Node, Route};
/// use controllers::route::plan::{NewRoute, plan};
/// use std::sync::Arc;
///
/// let node = Node { name: "worker-1".into(), pod_cidrs: ["10.244.1.0/24".into()].into(), ..Node::default() };
/// let stale = Route { name: "r-7".into(), target_node: "gone".into(), destination_cidr: "10.244.9.0/24".into(), ..Route::default() };
/// let plan = plan(&[Arc::new(node)], &[stale], &["10.244.0.0/16".parse()?], |_, _| NewRoute::Allowed);
/// assert_eq!(plan.deletes[0].route.name, "r-7");
/// assert_eq!(plan.creates[0].route.destination_cidr, "10.244.1.0/24");
/// # Ok::<(), ipnet::AddrParseError>(())
/// ```
#[must_use]
pub fn plan(
    nodes: &[Arc<Node>],
    routes: &[Route],
    cluster_cidrs: &[IpNet],
    new_route: impl Fn(&Node, &Destination) -> NewRoute,
) -> Plan {
    let table = Table::of(routes);
    let mut plan = Plan {
        creates_wait: routes.first().is_some_and(is_replaced_by_phases),
        ..Plan::default()
    };
    let mut waiting: HashSet<Destination> = HashSet::new();
    for node in nodes {
        if node.pod_cidrs.is_empty() && !table.leads_to(&node.name) {
            continue;
        }
        let mut record = Record {
            uid: node.uid.clone(),
            inputs: inputs_of(node),
            decisions: BTreeMap::new(),
        };
        for cidr in &node.pod_cidrs {
            let destination = Destination::new(cidr);
            if record.decisions.contains_key(&destination) {
                // The route is listed twice (ROUTE-35).
                continue;
            }
            let decision = match (
                table.find(node, &destination),
                new_route(node, &destination),
            ) {
                (Some(route), _) if leads_to(route, node) => Decision::Keep,
                (_, NewRoute::Deferred) => Decision::Wait,
                (_, NewRoute::Refused) => Decision::Refused,
                (Some(_), NewRoute::Allowed) => Decision::Update,
                (None, NewRoute::Allowed) => Decision::Add,
            };
            match decision {
                Decision::Keep | Decision::Refused => {}
                Decision::Wait => _ = waiting.insert(destination.clone()),
                Decision::Add | Decision::Update => {
                    plan.creates.push(creation(node, cidr, destination.clone()));
                }
            }
            record.decisions.insert(destination, decision);
        }
        plan.records.insert(node.name.clone(), record);
    }
    let deletes = routes
        .iter()
        .filter(|route| is_responsible(route, cluster_cidrs))
        .filter_map(|route| plan.deletion(route, &waiting));
    plan.deletes = deletes.collect();
    plan.deletes
        .sort_by(|a, b| (&a.destination, &a.route.name).cmp(&(&b.destination, &b.route.name)));
    plan.creates.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    plan
}

impl Plan {
    /// Returns `true` if the cloud needs no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deletes.is_empty() && self.creates.is_empty()
    }

    /// Returns the conditions to write if the whole plan succeeds, by Node name.
    #[must_use]
    pub fn conditions(&self, nodes: &[Arc<Node>]) -> Vec<(Arc<Node>, RouteCondition)> {
        let condition = |node: &Arc<Node>| {
            let mut record = self.records.get(&node.name)?.clone();
            let done = |decision: &mut Decision| {
                if matches!(decision, Decision::Add | Decision::Update) {
                    *decision = Decision::Keep;
                }
            };
            record.decisions.values_mut().for_each(done);
            record
                .condition()
                .filter(|condition| !condition.is_shown_by(node))
        };
        nodes
            .iter()
            .filter_map(|node| Some((Arc::clone(node), condition(node)?)))
            .collect()
    }

    /// Returns the deletion of a route, if it must be deleted (ROUTE-25).
    fn deletion(&self, route: &Route, waiting: &HashSet<Destination>) -> Option<Deletion> {
        let destination = Destination::new(&route.destination_cidr);
        let decision = self
            .records
            .get(&*route.target_node)
            .and_then(|record| record.decisions.get(&destination));
        let cause = match decision {
            _ if route.blackhole => DeletionCause::Blackhole,
            // The route's Node may be the one that waits, which the route may serve until that is known.
            _ if route.target_node.is_empty() && waiting.contains(&destination) => return None,
            _ if route.target_node.is_empty() => DeletionCause::NoTarget,
            None => DeletionCause::NotAssigned,
            Some(Decision::Update) => DeletionCause::NextHopChanged,
            Some(Decision::Keep | Decision::Add | Decision::Wait | Decision::Refused) => {
                return None;
            }
        };
        Some(Deletion {
            route: route.clone(),
            destination,
            cause,
        })
    }
}

/// Returns `true` if creations must wait for all deletions, which the Go program does if the first route has addresses
/// (ROUTE-29). With a provider that knows the owners of routes, each creation waits only for the deletions of its
/// destination, so that a hanging deletion delays no others (INV-6).
fn is_replaced_by_phases(first: &Route) -> bool {
    first.enable_node_addresses && first.owned.is_none()
}

/// Returns the creation of a route (ROUTE-30, PROV-58).
fn creation(node: &Arc<Node>, cidr: &str, destination: Destination) -> Creation {
    let route = Route {
        target_node: node.name.to_string(),
        target_node_addresses: node.addresses.to_vec(),
        destination_cidr: cidr.to_owned(),
        ..Route::default()
    };
    Creation {
        node: Arc::clone(node),
        destination,
        route,
    }
}

/// The listed routes by target.
struct Table<'a> {
    by_target: HashMap<&'a str, Vec<(&'a Route, Destination)>>,
}

impl<'a> Table<'a> {
    fn of(routes: &'a [Route]) -> Self {
        let mut by_target: HashMap<&str, Vec<_>> = HashMap::new();
        // A route without a target belongs to no Node (ROUTE-26).
        for route in routes.iter().filter(|route| !route.target_node.is_empty()) {
            let destination = Destination::new(&route.destination_cidr);
            by_target
                .entry(&route.target_node)
                .or_default()
                .push((route, destination));
        }
        Self { by_target }
    }

    fn to(&self, node: &str) -> &[(&'a Route, Destination)] {
        self.by_target.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns the first route for this destination to this Node. Routes that lead nowhere do not count (ROUTE-27);
    /// routes of others count if they serve.
    fn find(&self, node: &Node, destination: &Destination) -> Option<&'a Route> {
        let from_there = || {
            let routes = self
                .to(&node.name)
                .iter()
                .filter(|(route, from)| !route.blackhole && from == destination);
            routes.map(|(route, _)| *route)
        };
        let mut ours = from_there().filter(|route| route.owned != Some(false));
        ours.next()
            .or_else(|| from_there().find(|route| leads_to(route, node)))
    }

    /// Returns `true` if a route leads to this Node, unless the provider reports the route as another owner's
    /// (ROUTE-40).
    fn leads_to(&self, node: &str) -> bool {
        self.to(node)
            .iter()
            .any(|(route, _)| route.owned != Some(false))
    }
}

#[cfg(test)]
mod tests;
