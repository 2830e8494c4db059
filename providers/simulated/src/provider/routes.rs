//! Routes. The cloud's lead to machines, the contract's to Nodes.

use std::collections::HashMap;

use cloud_provider::{AddressType, Cluster, Error, Node, NodeAddress, Result, Route, Routes, async_trait};
use provider_kit::load_balancers::Marks;
use provider_kit::transport::Call;

use super::{IDS, ListPage, Simulated};
use crate::cloud::{CloudRoute, NewRoute};

const ALL: &str = "/v1/routes";

fn is_ours(route: &NewRoute, cluster: &Cluster) -> bool {
    route.labels.get(Marks::CLUSTER).is_some_and(|mark| mark == Marks::cluster(cluster))
}

impl Simulated {
    /// What has the range already: what was to be made, or something in its way.
    async fn check_existing(&self, cluster: &Cluster, new: &NewRoute, conflict: Error) -> Result<()> {
        let call = Call::get(ALL, &[]).query("name", &new.destination);
        let page: ListPage<CloudRoute> = self.http.read(call).await?;
        match page.items.first().map(|existing| &existing.route) {
            Some(route) if route == new => Ok(()),
            Some(route) if !is_ours(route, cluster) => Err(Error::invalid(format!(
                "the route to {} that exists is not this cluster's and is left alone; remove it, or mark it with {}={}",
                new.destination,
                Marks::CLUSTER,
                Marks::cluster(cluster)
            ))),
            _ => Err(conflict),
        }
    }
}

#[async_trait]
impl Routes for Simulated {
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>> {
        let list = self.instances.source().read_list(ALL, |route| route, |route: &CloudRoute| route.id.clone());
        let routes = list.await?.complete()?;
        let nodes = self.caches.get().map(|caches| caches.nodes()).unwrap_or_default();
        let id = |node: &Node| IDS.read(&node.provider_id).ok().map(str::to_owned);
        let names: HashMap<_, _> = nodes.iter().filter_map(|node| Some((id(node)?, &node.name))).collect();
        let internal = |ip: &String| NodeAddress::new(AddressType::InternalIP, ip);
        let to_route = |CloudRoute { id, blackhole, route, .. }: &CloudRoute| Route {
            name: id.clone(),
            target_node: names.get(&route.machine).map(ToString::to_string).unwrap_or_default(),
            enable_node_addresses: true,
            target_node_addresses: route.next_hop.iter().map(internal).collect(),
            destination_cidr: route.destination.clone(),
            blackhole: *blackhole,
            owned: Some(is_ours(route, cluster)),
        };
        Ok(routes.items().iter().map(to_route).collect())
    }

    async fn create(&self, cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let node = self.caches.get().and_then(|caches| caches.node(&route.target_node));
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
