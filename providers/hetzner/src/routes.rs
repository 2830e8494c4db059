//! Routes of the private network: each leads to the address of a cloud server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, Error, EventSubject, Node, NodeAddress, Result, Route, async_trait,
};
use ipnet::IpNet;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{Found, Inventory, Key, Machine as _, MachineSource as _, Snapshot};
use provider_kit::routes::{Change, CloudRoute, RouteCloud, RouteTable, Target};
use provider_kit::transport::{Call, Priority};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::Api;
use crate::id::MachineId;
use crate::metrics::ServerCache;
use crate::network::{Gateway, PrivateNetwork};
use crate::servers::{CloudServer, CloudServers};

const ADD: &str = "/networks/{id}/actions/add_route";
const REMOVE: &str = "/networks/{id}/actions/delete_route";

/// Maximum age of the list of servers: their addresses in the network hardly ever change.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The network whose routes are listed and changed.
pub(crate) struct NetworkRoutes {
    api: Api,
    network: PrivateNetwork,
    servers: Inventory<CloudServers>,
    cluster: ClusterView,
    /// Serializes changes: the API refuses two changes of one network at once.
    lock: Mutex<()>,
}

/// Returns the routes of `network`.
pub(crate) fn routes(
    api: Api,
    network: PrivateNetwork,
    servers: Inventory<CloudServers>,
    cluster: ClusterView,
) -> RouteTable<NetworkRoutes> {
    let cache = ServerCache {
        metrics: api.http.metrics(),
        subsystem: "routes",
        mode: "all",
    };
    let servers = servers.max_age(MAX_AGE).measured(Arc::new(cache));
    RouteTable::new(
        NetworkRoutes {
            api,
            network,
            servers,
            cluster: cluster.clone(),
            lock: Mutex::default(),
        },
        cluster,
    )
}

impl NetworkRoutes {
    /// Sets targets from a list of servers. Returns `true` if a route of this cluster leads to none of them.
    fn set_targets(
        &self,
        routes: &mut [CloudRoute],
        servers: &Snapshot<CloudServer>,
    ) -> Result<bool> {
        let network = self.network.id()?;
        let mut is_any_lost = false;
        let attached = servers
            .machines()
            .iter()
            .filter_map(|server| Some((server.private_ip(network)?, server)));
        let attached: HashMap<IpAddr, &CloudServer> = attached.collect();
        for route in routes {
            let server = route
                .next_hop()?
                .parse()
                .ok()
                .and_then(|ip: IpAddr| attached.get(&ip));
            is_any_lost |= server.is_none() && self.cluster.owns_route(&route.destination, None);
            let machine = |cloud_server: &&CloudServer| Target::Machine {
                id: cloud_server.id().to_owned(),
                name: cloud_server.name().to_owned(),
            };
            route.target = server.map_or(Target::Gone(String::new()), machine);
        }
        Ok(is_any_lost)
    }

    async fn address_of(&self, node: &Node, key: Key<'_>, fresh: bool) -> Result<Option<IpAddr>> {
        match self.servers.find(key, fresh, Priority::Ordinary).await? {
            Found::Present(server) => Ok(server.private_ip(self.network.id()?)),
            Found::Gone(_) => Err(Error::other(format!(
                "the server of node {:?} does not exist",
                node.name
            ))),
        }
    }

    /// Warns if a Pod CIDR is outside of the cluster CIDR, a frequent mistake in the configuration of the cluster
    /// rather than of this Node.
    fn warn_of_ranges(&self, destination: &IpNet, node: &Node) {
        let ranges = self.cluster.pod_cidrs();
        if !ranges.is_empty() && !ranges.iter().any(|range| range.contains(destination)) {
            let ranges = ranges
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",");
            let message =
                format!("route CIDR {destination} is not contained within cluster CIDR {ranges}");
            self.cluster.events().warning(
                EventSubject::Node(node),
                "ClusterCIDRMisconfigured",
                message,
            );
        }
    }

    async fn send(&self, action: &'static str, route: &CloudRoute) -> Result<()> {
        let gateway = Gateway {
            destination: route.destination.clone(),
            gateway: route.next_hop()?.to_owned(),
        };
        self.api
            .actions
            .run(
                Call::post(action, &[&self.network.id()?.to_string()]).json(&gateway),
                &(),
            )
            .await
    }
}

#[async_trait]
impl RouteCloud for NetworkRoutes {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        let route = |Gateway {
                         destination,
                         gateway,
                     }| CloudRoute {
            name: format!("{gateway}-{destination}"),
            destination,
            next_hops: vec![gateway],
            ..CloudRoute::default()
        };
        Ok(self
            .network
            .read()
            .await?
            .routes
            .into_iter()
            .map(route)
            .collect())
    }

    async fn find_targets(&self, routes: &mut [CloudRoute]) -> Result<()> {
        let began = Instant::now();
        let mut servers = self.servers.snapshot(Priority::Refresh).await?;
        let mut is_any_lost = self.set_targets(routes, &servers)?;
        // The server may be younger than the list: only a new list proves that a route leads nowhere.
        if is_any_lost && servers.began() < began {
            servers = self
                .servers
                .clone()
                .max_age(Duration::ZERO)
                .snapshot(Priority::Refresh)
                .await?;
            is_any_lost = self.set_targets(routes, &servers)?;
        }
        match servers.partial_reason().filter(|_| is_any_lost) {
            Some(reason) => Err(reason
                .clone()
                .context("cannot find out which routes have no server any more")),
            None => Ok(()),
        }
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        self.servers.source().machine_id(provider_id).ok()
    }

    async fn next_hop_for(
        &self,
        node: &Node,
        route: &Route,
        destination: IpNet,
    ) -> Result<(Vec<String>, Target)> {
        let name = &node.name;
        if matches!(destination, IpNet::V6(_)) {
            return Err(Error::invalid(format!(
                "cannot create route {destination} via node {name:?}: private networks do not support IPv6"
            )));
        }
        let id = match node.provider_id().map(|id| (id, MachineId::read(id))) {
            None => None,
            Some((_, Ok(MachineId::Cloud(id)))) => Some(id.to_string()),
            Some((_, Err(error))) => return Err(Error::invalid(format!("node {name:?}: {error}"))),
            Some((id, Ok(MachineId::Robot(_)))) => {
                let text = format!(
                    "node {name:?} is not a cloud server ({id}): routes lead to cloud servers only"
                );
                return Err(Error::invalid(text));
            }
        };
        let key = id.as_deref().map_or(Key::Name(name), Key::Id);
        let gateway = match self.address_of(node, key, false).await? {
            // The server may have been attached after it was read.
            None => self.address_of(node, key, true).await?,
            found => found,
        };
        let gateway = gateway.ok_or_else(|| {
            Error::other(format!(
                "the server of node {name:?} is not attached to the network: attach it"
            ))
        })?;
        let is_this_address = |address: &NodeAddress| {
            address.kind == AddressType::InternalIP
                && address.address.parse::<IpAddr>() == Ok(gateway)
        };
        if !route.target_node_addresses.iter().any(is_this_address) {
            return Err(Error::invalid(format!(
                "{gateway}, the address of node {name:?} in the network, is not among its InternalIPs; wait for its addresses, \
                 or check --node-ip of its kubelet"
            )));
        }
        self.warn_of_ranges(&destination, node);
        Ok((vec![gateway.to_string()], Target::Address))
    }

    /// Adds or removes a route. A range has only one gateway: its route to another gateway is removed first.
    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let _lock = self.lock.lock().await;
        if change == Change::Remove {
            return self.send(REMOVE, route).await;
        }
        match self
            .list()
            .await?
            .iter()
            .find(|other_route| other_route.has_destination_of(route))
        {
            Some(existing_route) if existing_route.is_same(route) => return Ok(()),
            Some(other) => self.send(REMOVE, other).await?,
            None => {}
        }
        self.send(ADD, route).await
    }
}
