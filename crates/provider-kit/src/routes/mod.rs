//! Routes for Pod CIDRs: [`Routes`] for any cloud that can list, add and remove routes.
//!
//! A route of a cloud leads to an address or a machine, a [`Route`] of the contract to a Node. [`RouteTable`] converts
//! between the two, never removes another owner's route, and lists the routes again after a change that failed: a lost
//! answer is no failure.
//!
//! A cloud whose routes are one document edits it through [`SharedDocuments`](crate::shared_document::SharedDocuments), and
//! a cloud that takes many routes in one request sends them through [`Coalescer`](crate::coalescer::Coalescer).

mod owners;

use std::net::IpAddr;

use cloud_provider::{
    AddressType, Cluster, Error, Node, NodeAddress, OwnedResource, Owner, RemovalOutcome, Result,
    Route, Routes, async_trait,
};
pub use ipnet::IpNet;

use self::owners::Nodes;
use crate::cluster::ClusterView;
use crate::load_balancers::OwnerTags;

/// A route, as a cloud has it: addresses are spelled as the cloud spells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudRoute {
    /// Name or ID in the cloud. Two routes of different names may be the same route.
    pub name: String,
    /// Destination of the route, as a CIDR.
    pub destination: String,
    /// Addresses that the route leads to.
    pub next_hops: Vec<String>,
    /// Machine that the route leads to.
    pub target: Target,
    /// Cluster that the route's owner tag ([`OwnerTags::CLUSTER`]) names; empty if the route has no tag. `None` in a cloud whose
    /// routes cannot have tags: there the ranges of Pods decide.
    pub owner: Option<String>,
}

/// The machine to which a route leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The Node that has one of the next hops among its addresses.
    #[default]
    Address,
    /// A machine of the cloud.
    Machine {
        /// ID of the machine.
        id: String,
        /// Name that a Node without a provider ID is found by; may be empty.
        name: String,
    },
    /// A machine that no longer exists, so the route is a black hole; with the machine's ID, empty if unknown.
    Gone(String),
}

/// A change of a route: addition or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Change {
    Add,
    Remove,
}

/// The routes of a cloud.
#[async_trait]
pub trait RouteCloud: Send + Sync + 'static {
    /// Lists all routes, those of other owners included.
    ///
    /// # Errors
    /// The cloud's answer; a partial list is an error, or routes that it lacks would be created again.
    async fn list(&self) -> Result<Vec<CloudRoute>>;

    /// Returns `true` if each route that this program creates carries its owner tag ([`CloudRoute::owner`]), so that `orphans`
    /// can list and delete the routes of Nodes that no longer exist.
    fn has_owner_tags(&self) -> bool {
        false
    }

    /// Sets the targets of listed routes, if the list does not contain them.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn find_targets(&self, _routes: &mut [CloudRoute]) -> Result<()> {
        Ok(())
    }

    /// Returns the ID of the machine that a provider ID names, as in [`Target`]; `None` if routes do not name machines.
    fn machine_id<'a>(&self, _provider_id: &'a str) -> Option<&'a str> {
        None
    }

    /// Returns the next hops and the target of a new route to `node`; by default, the first InternalIP of the
    /// destination's IP family and [`Target::Address`].
    ///
    /// # Errors
    /// *Invalid* if no route can lead to the Node.
    async fn next_hop_for(
        &self,
        _node: &Node,
        route: &Route,
        destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let hop = next_hop(&route.target_node_addresses, destination).ok_or_else(|| {
            let family = if matches!(destination, IpNet::V6(_)) { "IPv6" } else { "IPv4" };
            let Route { target_node, destination_cidr, .. } = route;
            Error::invalid(format!(
                "node {target_node:?} has no InternalIP of {family} that its route {destination_cidr} could lead to"
            ))
        })?;
        Ok((vec![hop.to_string()], Target::Address))
    }

    /// Changes other objects that a route needs, such as the allowed addresses of a port, before the route is changed.
    /// Returns `true` if anything was changed. If changing the route then fails, the method is called with the opposite
    /// [`Change`], to revert it.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn change_auxiliaries(&self, _change: Change, _route: &CloudRoute) -> Result<bool> {
        Ok(false)
    }

    /// Adds or removes a route.
    ///
    /// # Errors
    /// The cloud's answer. The routes are then listed, and the change has succeeded if the list shows it.
    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()>;
}

/// The routes of a cloud, in the form of [`Routes`].
pub struct RouteTable<C> {
    cloud: C,
    cluster: ClusterView,
}

impl CloudRoute {
    /// Returns the first next hop.
    ///
    /// # Errors
    /// *Invalid* if there is none.
    pub fn next_hop(&self) -> Result<&str> {
        let none = || Error::invalid(format!("route {:?} has no gateway", self.name));
        self.next_hops.first().map(String::as_str).ok_or_else(none)
    }

    /// Returns `true` if both routes are for the same range, perhaps in another spelling.
    #[must_use]
    pub fn has_destination_of(&self, other: &Self) -> bool {
        range(&self.destination) == range(&other.destination)
    }

    /// Returns `true` if both routes lead from the same range to the same next hops and machine.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let hops: [Vec<_>; 2] = [self, other].map(|route| {
            route
                .next_hops
                .iter()
                .map(|hop| hop.parse::<IpAddr>().map_err(|_| hop.as_str()))
                .collect()
        });
        let is_other_machine = matches!(
            (self.target.machine(), other.target.machine()),
            (Some(one), Some(another)) if one != another
        );
        self.has_destination_of(other) && hops[0] == hops[1] && !is_other_machine
    }
}

fn range(text: &str) -> Result<IpNet, &str> {
    text.parse::<IpNet>()
        .map(|range| range.trunc())
        .map_err(|_| text)
}

/// Returns the first internal address of the family of `range`.
fn next_hop(addresses: &[NodeAddress], range: IpNet) -> Option<IpAddr> {
    let internal = addresses
        .iter()
        .filter(|address| address.kind == AddressType::InternalIP);
    let mut ips = internal.filter_map(|address| address.address.parse::<IpAddr>().ok());
    ips.find(|ip| ip.is_ipv6() == matches!(range, IpNet::V6(_)))
}

impl Target {
    fn machine(&self) -> Option<&str> {
        match self {
            Self::Address => None,
            Self::Machine { id, .. } | Self::Gone(id) => Some(id),
        }
    }
}

impl Change {
    fn undone(self) -> Self {
        if self == Self::Add {
            Self::Remove
        } else {
            Self::Add
        }
    }
}

impl<C: RouteCloud> RouteTable<C> {
    /// Returns the routes of `cloud` to the Nodes of `cluster`.
    pub fn new(cloud: C, cluster: ClusterView) -> Self {
        Self { cloud, cluster }
    }

    /// Returns the cloud that routes are read from.
    pub fn cloud(&self) -> &C {
        &self.cloud
    }

    /// Reads the routes whose owner tag names this cluster, by its ID or by its name.
    async fn tagged(&self, cluster: &Cluster) -> Result<Vec<(OwnedResource, CloudRoute)>> {
        if !self.cloud.has_owner_tags() {
            return Ok(Vec::new());
        }
        let resource = |route: CloudRoute| {
            let tag = route
                .owner
                .clone()
                .filter(|tag| Some(tag) == cluster.id.as_ref() || *tag == cluster.name)?;
            let target = match &route.target {
                Target::Gone(id) => Some(format!("{id}, which no longer exists")),
                target => target.machine().map(str::to_owned),
            };
            let hops = (!route.next_hops.is_empty()).then(|| route.next_hops.join(", "));
            let facts = [("next hop", hops), ("machine", target)];
            let resource = OwnedResource {
                kind: "route",
                id: if route.name.is_empty() {
                    &route.destination
                } else {
                    &route.name
                }
                .clone(),
                name: route.destination.clone(),
                cluster: tag,
                owner: Owner::PodCidr(route.destination.clone()),
                details: facts
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                    .collect(),
                ..OwnedResource::default()
            };
            Some((resource, route))
        };
        Ok(self
            .cloud
            .list()
            .await?
            .into_iter()
            .filter_map(resource)
            .collect())
    }

    /// Prepares and sends a change. For a black hole, a failure to change the next hop is ignored: its address may
    /// belong to another machine, and must not keep a route that leads nowhere.
    async fn change(
        &self,
        cluster: &Cluster,
        change: Change,
        route: &CloudRoute,
        is_blackhole: bool,
    ) -> Result<()> {
        let is_prepared = match self.cloud.change_auxiliaries(change, route).await {
            Err(error) if is_blackhole && (error.is_invalid() || error.is_unauthorized()) => {
                tracing::warn!(route = route.destination, %error, "cannot change next hop of a route without a target");
                false
            }
            outcome => outcome?,
        };
        let Err(error) = self.cloud.change(change, route).await else {
            return Ok(());
        };
        let Ok(listed) = self.cloud.list().await else {
            return Err(error);
        };
        if listed.iter().any(|other_route| other_route.is_same(route)) == (change == Change::Add) {
            return Ok(());
        }
        if is_prepared
            && let Err(error) = self.cloud.change_auxiliaries(change.undone(), route).await
        {
            tracing::warn!(route = route.destination, %error, "cannot revert next hop of a failed route");
        }
        let in_the_way = listed
            .iter()
            .find(|other_route| other_route.has_destination_of(route) && change == Change::Add);
        Err(in_the_way
            .filter(|_| error.is_conflict())
            .and_then(|route| self.foreign(cluster, route))
            .unwrap_or(error))
    }

    /// Returns the error about a route that is in the way of a new one, if its owner tag is not this cluster's.
    fn foreign(&self, cluster: &Cluster, route: &CloudRoute) -> Option<Error> {
        let nodes = self.cluster.nodes().unwrap_or_default();
        let is_ours = Nodes::new(&nodes, &self.cloud).owns(cluster, &self.cluster, route);
        (route.owner.is_some() && !is_ours).then(|| {
            Error::invalid(format!(
                "the existing route to {} belongs to another owner and is left alone; delete it, or add the owner tag {}={}",
                route.destination,
                OwnerTags::CLUSTER,
                OwnerTags::cluster(cluster)
            ))
        })
    }
}

#[async_trait]
impl<C: RouteCloud> Routes for RouteTable<C> {
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>> {
        let mut routes = self.cloud.list().await?;
        self.cloud.find_targets(&mut routes).await?;
        let unknown = || Error::other("cannot list routes before the Nodes are known");
        let nodes = self.cluster.nodes().ok_or_else(unknown)?;
        let nodes = Nodes::new(&nodes, &self.cloud);
        Ok(routes
            .iter()
            .map(|route| nodes.route(cluster, &self.cluster, route))
            .collect())
    }

    async fn create(&self, cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let text = &route.destination_cidr;
        let name = &route.target_node;
        let destination = text
            .parse()
            .map_err(|_| Error::invalid(format!("{text:?} is not a range of addresses")))?;
        let node = self
            .cluster
            .node(name)
            .ok_or_else(|| Error::other(format!("Node {name:?} does not exist (any more)")))?;
        let (next_hops, target) = self.cloud.next_hop_for(&node, route, destination).await?;
        let name = String::new();
        let owner = Some(OwnerTags::cluster(cluster).to_owned());
        let wanted = CloudRoute {
            name,
            destination: text.clone(),
            next_hops,
            target,
            owner,
        };
        self.change(cluster, Change::Add, &wanted, false).await
    }

    async fn delete(&self, cluster: &Cluster, route: &Route) -> Result<()> {
        let Route {
            name,
            destination_cidr,
            target_node_addresses: hops,
            owned,
            blackhole,
            ..
        } = route;
        if *owned == Some(false) {
            return Err(Error::invalid(format!(
                "the route to {destination_cidr} is not this cluster's"
            )));
        }
        let next_hops = hops.iter().map(|hop| hop.address.to_string()).collect();
        let unwanted = CloudRoute {
            name: name.clone(),
            destination: destination_cidr.clone(),
            next_hops,
            ..Default::default()
        };
        self.change(cluster, Change::Remove, &unwanted, *blackhole)
            .await
    }

    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        Ok(self
            .tagged(cluster)
            .await?
            .into_iter()
            .map(|(resource, _)| resource)
            .collect())
    }

    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
    ) -> Result<RemovalOutcome> {
        if cluster.id.as_ref() != Some(&resource.cluster) {
            return Err(Error::invalid(format!(
                "{resource} carries the owner tag of another cluster; it is left alone"
            )));
        }
        let listed = self.tagged(cluster).await?.into_iter();
        let is_this_other_resource = |(other_resource, _): &(OwnedResource, CloudRoute)| {
            (
                &other_resource.id,
                &other_resource.owner,
                &other_resource.cluster,
            ) == (&resource.id, &resource.owner, &resource.cluster)
        };
        let Some((_, route)) = listed.into_iter().find(is_this_other_resource) else {
            return Ok(RemovalOutcome::NotFound);
        };
        self.change(cluster, Change::Remove, &route, true)
            .await
            .map(|()| RemovalOutcome::Deleted)
    }
}

#[cfg(test)]
mod tests;
