//! Routes for Pod CIDRs in the private network (§4). The network's lead to addresses, the contract's to Nodes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{About, AddressType, Cluster, Error, Node, NodeAddress, Result, Route, Routes, async_trait};
use ipnet::IpNet;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{Found, Inventory, Key, Machine as _, Snapshot};
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

/// How old what is known of servers may be: their addresses in the network hardly ever change.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The routes of the network.
pub(crate) struct NetworkRoutes {
    api: Api,
    network: PrivateNetwork,
    servers: Inventory<CloudServers>,
    cluster: ClusterView,
    /// The API refuses two changes of one network at once.
    turn: Mutex<()>,
}

impl NetworkRoutes {
    pub(crate) fn new(
        api: Api,
        network: PrivateNetwork,
        servers: Inventory<CloudServers>,
        cluster: ClusterView,
    ) -> Self {
        let heard = ServerCache { metrics: api.http.metrics(), subsystem: "routes", mode: "all" };
        let servers = servers.max_age(MAX_AGE).measured(Arc::new(heard));
        Self { api, network, servers, cluster, turn: Mutex::default() }
    }

    /// The address in the network of a Node's server.
    async fn gateway_of(&self, node: &Node) -> Result<IpAddr> {
        let name = &node.name;
        let id = match node.provider_id().map(|id| (id, MachineId::read(id))) {
            None => None,
            Some((_, Ok(MachineId::Cloud(id)))) => Some(id.to_string()),
            Some((_, Err(error))) => return Err(Error::invalid(format!("node {name:?}: {error}"))),
            Some((id, Ok(MachineId::Robot(_)))) => {
                let text = format!("node {name:?} is not a cloud server ({id}): routes lead to cloud servers only");
                return Err(Error::invalid(text));
            }
        };
        let key = id.as_deref().map_or(Key::Name(name), Key::Id);
        if let Some(address) = self.address_of(node, key, false).await? {
            return Ok(address);
        }
        // What is known may be from before it was attached.
        let address = self.address_of(node, key, true).await?;
        address.ok_or_else(|| {
            Error::other(format!("the server of node {name:?} is not attached to the network: attach it"))
        })
    }

    async fn address_of(&self, node: &Node, key: Key<'_>, fresh: bool) -> Result<Option<IpAddr>> {
        match self.servers.find(key, fresh, Priority::Ordinary).await? {
            Found::There(server) => Ok(server.private_ip(self.network.id()?)),
            Found::Gone(_) => Err(Error::other(format!("the server of node {:?} does not exist", node.name))),
        }
    }

    /// §4: what the range is set to is a frequent mistake, and not this Node's.
    fn warn_of_ranges(&self, destination: &IpNet, node: &Node) {
        let ranges = self.cluster.ranges();
        if !ranges.is_empty() && !ranges.iter().any(|range| range.contains(destination)) {
            let ranges = ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let message = format!("route CIDR {destination} is not contained within cluster CIDR {ranges}");
            self.cluster.events().warning(About::Node(node), "ClusterCIDRMisconfigured", message);
        }
    }

    /// A range leads to one gateway only.
    async fn put(&self, destination: &IpNet, gateway: IpAddr) -> Result<()> {
        let wanted = Gateway { destination: destination.to_string(), gateway: gateway.to_string() };
        let _turn = self.turn.lock().await;
        let network = self.network.read().await?;
        match network.routes.iter().find(|route| route.destination.parse() == Ok(*destination)) {
            Some(there) if there.gateway.parse() == Ok(gateway) => return Ok(()),
            Some(other) => self.remove(other).await?,
            None => {}
        }
        self.change(ADD, &wanted).await
    }

    /// What is not there is removed.
    async fn remove(&self, route: &Gateway) -> Result<()> {
        match self.change(REMOVE, route).await {
            Err(error) if error.is_not_found() || error.is_invalid() => {
                match self.network.read().await?.routes.contains(route) {
                    true => Err(error),
                    false => Ok(()),
                }
            }
            outcome => outcome,
        }
    }

    async fn change(&self, action: &'static str, route: &Gateway) -> Result<()> {
        let id = self.network.id()?.to_string();
        self.api.act(Call::post(action, &[&id]).json(route)).await
    }
}

/// What the network's gateways are.
struct Targets<'a> {
    servers: HashMap<IpAddr, &'a CloudServer>,
    /// By the id of their server.
    nodes: HashMap<String, &'a Node>,
    by_name: HashMap<&'a str, &'a Node>,
    cluster: &'a ClusterView,
}

impl<'a> Targets<'a> {
    fn new(servers: &'a [CloudServer], network: u64, nodes: &'a [Arc<Node>], cluster: &'a ClusterView) -> Self {
        let attached = servers.iter().filter_map(|server| Some((server.private_ip(network)?, server)));
        let with_id = nodes.iter().filter_map(|node| match MachineId::read(node.provider_id()?) {
            Ok(MachineId::Cloud(id)) => Some((id.to_string(), &**node)),
            _ => None,
        });
        let by_name = nodes.iter().map(|node| (&*node.name, &**node));
        Self { servers: attached.collect(), nodes: with_id.collect(), by_name: by_name.collect(), cluster }
    }

    fn server(&self, route: &Gateway) -> Option<&'a CloudServer> {
        route.gateway.parse().ok().and_then(|address: IpAddr| self.servers.get(&address).copied())
    }

    /// By the Node's provider id: its name may be another than its server's. A Node that has no provider id yet is known by
    /// its name only.
    fn node_name(&self, server: &'a CloudServer) -> &'a str {
        match (self.nodes.get(server.id()), self.by_name.get(server.name())) {
            (Some(node), _) => &node.name,
            (None, Some(other)) if other.provider_id().is_some() => "",
            (None, _) => server.name(),
        }
    }

    fn route(&self, route: &Gateway) -> Route {
        let server = self.server(route);
        let target = server.map_or("", |server| self.node_name(server));
        Route {
            name: format!("{}-{}", route.gateway, route.destination),
            target_node: target.to_owned(),
            enable_node_addresses: true,
            target_node_addresses: vec![NodeAddress::new(AddressType::InternalIP, &route.gateway)],
            destination_cidr: route.destination.clone(),
            blackhole: server.is_none(),
            owned: Some(self.cluster.owns_route(&route.destination, self.by_name.get(target).copied())),
        }
    }
}

#[async_trait]
impl Routes for NetworkRoutes {
    async fn list(&self, _cluster: &Cluster) -> Result<Vec<Route>> {
        let began = Instant::now();
        let network = self.network.read().await?;
        let nodes = self.cluster.nodes().unwrap_or_default();
        let mut servers = self.servers.snapshot(Priority::Refresh).await?;
        let unknown = |servers: &Snapshot<CloudServer>| {
            let targets = Targets::new(servers.machines(), network.id, &nodes, &self.cluster);
            network
                .routes
                .iter()
                .any(|route| targets.server(route).is_none() && self.cluster.owns_route(&route.destination, None))
        };
        // Its server may be younger than what is known; only a list from now on tells that a route leads nowhere.
        if unknown(&servers) && servers.began() < began {
            servers = self.servers.clone().max_age(Duration::ZERO).snapshot(Priority::Refresh).await?;
        }
        if let Some(flaw) = servers.flaw().filter(|_| unknown(&servers)) {
            return Err(flaw.clone().context("whether routes lead nowhere cannot be told"));
        }
        let targets = Targets::new(servers.machines(), network.id, &nodes, &self.cluster);
        Ok(network.routes.iter().map(|route| targets.route(route)).collect())
    }

    async fn create(&self, _cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let (text, name) = (&route.destination_cidr, &route.target_node);
        let destination: IpNet =
            text.parse().map_err(|_| Error::invalid(format!("{text:?} is no range of addresses")))?;
        if matches!(destination, IpNet::V6(_)) {
            return Err(Error::invalid(format!(
                "cannot create route {destination} via node {name:?}: private networks do not support IPv6"
            )));
        }
        let node =
            self.cluster.node(name).ok_or_else(|| Error::other(format!("node {name:?} is not known (any more)")))?;
        let gateway = self.gateway_of(&node).await?;
        let is_it = |address: &NodeAddress| {
            address.kind == AddressType::InternalIP && address.address.parse::<IpAddr>() == Ok(gateway)
        };
        if !route.target_node_addresses.iter().any(is_it) {
            return Err(Error::invalid(format!(
                "{gateway}, the address of node {name:?} in the network, is not among its InternalIPs; wait for its addresses, \
                 or check --node-ip of its kubelet"
            )));
        }
        self.warn_of_ranges(&destination, &node);
        self.put(&destination, gateway).await
    }

    async fn delete(&self, _cluster: &Cluster, route: &Route) -> Result<()> {
        let listed = route.target_node_addresses.first().map(|hop| hop.address.to_string());
        let gateway = listed.ok_or_else(|| Error::invalid(format!("route {:?} has no gateway", route.name)))?;
        let _turn = self.turn.lock().await;
        self.remove(&Gateway { destination: route.destination_cidr.clone(), gateway }).await
    }
}
