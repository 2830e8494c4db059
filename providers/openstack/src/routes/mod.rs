//! Routes for Pod CIDRs: extra routes of a Neutron router, and what the servers' ports let through (§4).

mod router;
mod targets;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{Caches, Cluster, Error, Result, Route, Routes, async_trait};
use ipnet::IpNet;
use provider_kit::batch::Batch;
use provider_kit::shelf::Shelf;
use serde_json::{Value, json};

use self::router::{Change, Gateway, Router};
use self::targets::{Targets, next_hop};
use crate::ports::{AddressPair, Port, Ports};
use crate::services::Services;

/// How old the list of a router's networks may be.
const NETWORKS_AGE: Duration = Duration::from_secs(300);

/// The routes of a router.
pub(crate) struct RouterRoutes {
    services: Services,
    router: Router,
    ports: Ports,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    /// `--cluster-cidr`.
    ranges: OnceLock<Vec<IpNet>>,
    /// Ports by address: who looks for one at the same time as others is answered with them.
    wanted_ports: Batch<Duration, String, Arc<Vec<Port>>>,
    changes: Batch<Change, Gateway>,
}

impl RouterRoutes {
    /// The routes of `[Route] router-id`.
    pub(crate) fn new(
        services: Services,
        ports: Ports,
        router: String,
        caches: Arc<OnceLock<Arc<dyn Caches>>>,
    ) -> Self {
        let router = Router::new(services.clone(), router);
        let wanted_ports = {
            let (ports, router, networks) = (ports.clone(), router.clone(), Arc::new(Shelf::default()));
            Batch::new(move |age, ips: Vec<String>| {
                let (ports, router, networks) = (ports.clone(), router.clone(), Arc::clone(&networks));
                async move { ports_at(&ports, &router, &networks, age, ips).await.map(Arc::new) }
            })
        };
        let (changes, ranges) = (router.changes(), OnceLock::new());
        Self { services, router, ports, caches, ranges, wanted_ports, changes }
    }

    /// Whether the cloud has routes at all; asked before the controller is offered them.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn are_supported(&self) -> Result<bool> {
        Ok(self.services.has_extension("extraroute").await? || self.services.has_extension("extraroute-atomic").await?)
    }

    /// From now on the Pod network's ranges are known.
    pub(crate) fn learn_ranges(&self, cluster_cidrs: &[String]) {
        self.ranges.get_or_init(|| cluster_cidrs.iter().filter_map(|range| range.parse().ok()).collect());
    }

    /// The one port in the router's networks that has an address; `None` if port security is nobody's business here.
    async fn port_at(&self, ip: &str) -> Result<Option<Port>> {
        if !self.services.has_extension("allowed-address-pairs").await? {
            return Ok(None);
        }
        let mut found = Vec::new();
        // The router may have got another network a moment ago.
        for age in [NETWORKS_AGE, Duration::ZERO] {
            let ports = self.wanted_ports.join(age, ip.to_owned()).await?;
            found = ports.iter().filter(|port| port.has(ip)).cloned().collect();
            if !found.is_empty() {
                break;
            }
        }
        match (found.pop(), found.len()) {
            (Some(port), 0) => Ok(Some(port)),
            (None, _) => Err(Error::not_found(format!(
                "no port has the address {ip} in the networks of router {:?}; attach the server's network to the router",
                self.router.id()
            ))),
            (Some(_), more) => Err(Error::invalid(format!(
                "{} ports have the address {ip} in the networks of router {:?}",
                more + 1,
                self.router.id()
            ))),
        }
    }

    /// Whether the router has a route now.
    async fn has(&self, route: &Gateway) -> Result<bool> {
        Ok(self.router.routes().await?.iter().any(|there| there.is(route)))
    }

    /// Changes the router. If that fails, what it has now decides: an answer may have been lost.
    async fn change(&self, change: Change, route: &Gateway) -> std::result::Result<(), Failed> {
        let Err(error) = self.changes.join(change, route.clone()).await else { return Ok(()) };
        match self.has(route).await {
            Ok(is_there) if is_there == (change == Change::Add) => Ok(()),
            Ok(_) => Err(Failed { error, is_undone: true }),
            Err(_) => Err(Failed { error, is_undone: false }),
        }
    }
}

/// A change of the router that failed, and whether it is known that nothing has come of it.
struct Failed {
    error: Error,
    is_undone: bool,
}

#[async_trait]
impl Routes for RouterRoutes {
    async fn list(&self, _cluster: &Cluster) -> Result<Vec<Route>> {
        let unknown = || Error::other("routes cannot be judged before the nodes are known");
        let nodes = self.caches.get().ok_or_else(unknown)?.nodes();
        let targets = Targets::new(&nodes, self.ranges.get().map_or(&[], Vec::as_slice));
        Ok(self.router.routes().await?.iter().map(|route| targets.route(route)).collect())
    }

    /// The port before the router: a route that is listed is whole, and one that was interrupted is made again.
    async fn create(&self, _cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let (text, node) = (&route.destination_cidr, &route.target_node);
        let range: IpNet = text.parse().map_err(|_| Error::invalid(format!("{text:?} is no range of addresses")))?;
        let hop = next_hop(&route.target_node_addresses, range).ok_or_else(|| {
            let family = if matches!(range, IpNet::V6(_)) { "IPv6" } else { "IPv4" };
            Error::invalid(format!("node {node:?} has no InternalIP of {family} that its route {text} could lead to"))
        })?;
        let wanted = Gateway { destination: text.clone(), nexthop: hop.to_string() };
        let port = self.port_at(&wanted.nexthop).await?;
        let opened = match &port {
            Some(port) => self.ports.change(port.clone(), |port| with(port, range)).await?,
            None => false,
        };
        let Err(failed) = self.change(Change::Add, &wanted).await else { return Ok(()) };
        if let Some(port) = port.filter(|_| opened && failed.is_undone) {
            self.undo(&port, |port| without(port, range)).await;
        }
        Err(failed.error)
    }

    /// The port before the router, too: what was interrupted is listed, and deleted again.
    async fn delete(&self, _cluster: &Cluster, route: &Route) -> Result<()> {
        let listed = route.target_node_addresses.first().map_or(&*route.target_node, |hop| &*hop.address);
        let unwanted = Gateway { destination: route.destination_cidr.clone(), nexthop: listed.to_owned() };
        let range: Option<IpNet> = route.destination_cidr.parse().ok();
        let mut closed = None;
        if let Some(range) = range.filter(|_| !route.blackhole) {
            match self.port_at(&unwanted.nexthop).await {
                // With the server its port is gone.
                Err(error) if error.is_not_found() => {}
                port => closed = port?.map(|port| (port, range)),
            }
        }
        if let Some((port, range)) = &closed {
            match self.ports.change(port.clone(), |port| without(port, *range)).await {
                Ok(true) => {}
                Err(error) if !error.is_not_found() => return Err(error),
                _ => closed = None,
            }
        }
        let Err(failed) = self.change(Change::Remove, &unwanted).await else { return Ok(()) };
        if let Some((port, range)) = closed.filter(|_| failed.is_undone) {
            self.undo(&port, |port| with(port, range)).await;
        }
        Err(failed.error)
    }
}

impl RouterRoutes {
    async fn undo(&self, port: &Port, change: impl Fn(&Port) -> Option<Value>) {
        let id = &port.id;
        let undone = async {
            match self.ports.by_id(id).await? {
                Some(port) => self.ports.change(port, change).await.map(drop),
                None => Ok(()),
            }
        };
        if let Err(error) = undone.await {
            tracing::warn!(port = &**id, %error, "what was changed of a port for a route could not be taken back");
        }
    }
}

/// Ports by their addresses, in the networks that the router has ports in.
async fn ports_at(
    ports: &Ports,
    router: &Router,
    networks: &Shelf<Box<str>>,
    age: Duration,
    ips: Vec<String>,
) -> Result<Vec<Port>> {
    let of_router = async || {
        let its = ports.of_router(router.id()).await?;
        Ok(its.into_iter().map(|port| port.network).collect())
    };
    let (networks, _) = networks.list(age, of_router).await?;
    if networks.is_empty() {
        return Ok(Vec::new());
    }
    ports.at(&networks, &ips).await
}

/// With a range that the port lets through; `None` if it does, or has no port security.
fn with(port: &Port, range: IpNet) -> Option<Value> {
    if !port.is_secured || port.pairs.iter().any(|pair| is_of(pair, range)) {
        return None;
    }
    let added = AddressPair { ip_address: range.to_string().into(), mac_address: None };
    Some(json!({ "allowed_address_pairs": port.pairs.iter().chain([&added]).collect::<Vec<_>>() }))
}

/// Without it.
fn without(port: &Port, range: IpNet) -> Option<Value> {
    let kept: Vec<_> = port.pairs.iter().filter(|pair| !is_of(pair, range)).collect();
    (port.is_secured && kept.len() < port.pairs.len()).then(|| json!({ "allowed_address_pairs": kept }))
}

fn is_of(pair: &AddressPair, range: IpNet) -> bool {
    pair.ip_address.parse::<IpNet>().is_ok_and(|there| there == range)
}

#[cfg(test)]
mod tests;
