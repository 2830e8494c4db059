//! Routes. The cloud's lead to machines, the contract's to Nodes.

use std::collections::HashMap;
use std::sync::Arc;

use cloud_provider::{AddressType, Cluster, Error, Node, NodeAddress, Result, Route, Routes, async_trait};
use provider_kit::inventory::Urgency;
use provider_kit::load_balancers::Marks;
use provider_kit::transport::{Call, Priority};

use super::{IDS, ListPage, Simulated};
use crate::cloud::{CloudRoute, NewRoute};

const ALL: &str = "/v1/routes";

/// Whether a route is this cluster's. RBAC may grant or take the read of the cluster's id (D-128), so marks of both kinds
/// are met; two clusters may have one name, so a mark that is not today's needs a machine to bear it out. `node`: the one
/// on the route's machine.
fn is_ours(found: &CloudRoute, cluster: &Cluster, node: Option<&Node>) -> bool {
    let Some(mark) = found.route.labels.get(Marks::CLUSTER) else { return false };
    let is_of = |node: &Node| node.pod_cidrs.iter().any(|cidr| **cidr == *found.route.destination);
    match &cluster.id {
        _ if mark == Marks::cluster(cluster) => true,
        Some(_) => *mark == cluster.name && (found.blackhole || node.is_some()),
        // Perhaps by our id: what leads to a Node from its own Pod CIDR. All else stays until the id is known again.
        None => node.is_some_and(is_of),
    }
}

/// Whether a route does what another one would.
fn is_as_good(existing: &NewRoute, new: &NewRoute) -> bool {
    (&existing.destination, &existing.machine, &existing.next_hop) == (&new.destination, &new.machine, &new.next_hop)
}

impl Simulated {
    /// The Nodes by the id of their machine.
    fn nodes_by_machine(&self) -> HashMap<String, Arc<Node>> {
        let nodes = self.cluster.nodes().unwrap_or_default();
        let id = |node: &Node| IDS.read(&node.provider_id).ok().map(str::to_owned);
        nodes.into_iter().filter_map(|node| Some((id(&node)?, node))).collect()
    }

    /// What has the range already: what was to be made, or something in its way.
    async fn check_existing(&self, cluster: &Cluster, new: &NewRoute, conflict: Error) -> Result<()> {
        let nodes = self.nodes_by_machine();
        let call = Call::get(ALL, &[]).list().query("name", &new.destination);
        let page: ListPage<CloudRoute> = self.http.read(call).await?;
        match page.items.first() {
            Some(found) if is_as_good(&found.route, new) => Ok(()),
            Some(found) if !is_ours(found, cluster, nodes.get(&found.route.machine).map(|node| &**node)) => {
                Err(Error::invalid(format!(
                    "the route to {} that exists is not this cluster's and is left alone; remove it, or mark it with {}={}",
                    new.destination,
                    Marks::CLUSTER,
                    Marks::cluster(cluster)
                )))
            }
            _ => Err(conflict),
        }
    }
}

#[async_trait]
impl Routes for Simulated {
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>> {
        let (id, urgency) = (|route: &CloudRoute| route.id.clone(), Urgency::of(Priority::Ordinary));
        let routes = self.instances.source().read_list(ALL, &urgency, |route| route, id).await?.complete()?;
        let nodes = self.nodes_by_machine();
        let internal = |ip: &String| NodeAddress::new(AddressType::InternalIP, ip);
        let to_route = |found: &CloudRoute| {
            let CloudRoute { id, blackhole, route, .. } = found;
            let node = nodes.get(&route.machine).map(|node| &**node);
            Route {
                name: id.clone(),
                target_node: node.map(|node| node.name.to_string()).unwrap_or_default(),
                enable_node_addresses: true,
                target_node_addresses: route.next_hop.iter().map(internal).collect(),
                destination_cidr: route.destination.clone(),
                blackhole: *blackhole,
                owned: Some(is_ours(found, cluster, node)),
            }
        };
        Ok(routes.items().iter().map(to_route).collect())
    }

    async fn create(&self, cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let node = self.cluster.node(&route.target_node);
        let missing = || Error::other(format!("node {:?} has no provider id to route to", route.target_node));
        let id = node.as_ref().and_then(|node| node.provider_id()).ok_or_else(missing)?;
        let internal = route.target_node_addresses.iter().filter(|a| a.kind == AddressType::InternalIP);
        let new = NewRoute {
            destination: route.destination_cidr.clone(),
            machine: IDS.read(id)?.to_owned(),
            next_hop: internal.map(|a| a.address.to_string()).collect(),
            labels: [(Marks::CLUSTER.to_owned(), Marks::cluster(cluster).to_owned())].into(),
        };
        match self.http.send(Call::post(ALL, &[]).json(&new)).await {
            // A range is routed once: this may be our own, made by a request whose answer was lost.
            Err(err) if err.is_conflict() => self.check_existing(cluster, &new, err).await,
            outcome => outcome.map(drop),
        }
    }

    async fn delete(&self, _cluster: &Cluster, route: &Route) -> Result<()> {
        if route.owned == Some(false) {
            return Err(Error::invalid(format!("the route to {} is not this cluster's", route.destination_cidr)));
        }
        self.http.remove(Call::delete("/v1/routes/{id}", &[&route.name])).await
    }
}
