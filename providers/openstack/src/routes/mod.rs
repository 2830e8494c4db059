//! Routes for Pod CIDRs: extra routes of a Neutron router, and what the servers' ports let through (§4).

mod router;
mod targets;

use std::sync::Arc;

use cloud_provider::{Cluster, Error, Result, Route, Routes, async_trait};
use ipnet::IpNet;
use provider_kit::batch::Batch;
use provider_kit::cluster::ClusterView;
use serde_json::{Value, json};

use self::router::{Change, Gateway, Router};
use self::targets::{Targets, next_hop};
use crate::ports::{AddressPair, Port, Ports};
use crate::services::Services;

/// The routes of a router.
pub(crate) struct RouterRoutes {
    services: Services,
    router: Router,
    ports: Ports,
    cluster: ClusterView,
    /// Ports by address: who looks for one at the same time as others is answered with them.
    wanted_ports: Batch<(), String, Arc<Vec<Port>>>,
    changes: Batch<Change, Gateway>,
}

impl RouterRoutes {
    /// The routes of `[Route] router-id`.
    pub(crate) fn new(services: Services, ports: Ports, router: String, cluster: ClusterView) -> Self {
        let router = Router::new(services.clone(), router);
        let (ports_too, its) = (ports.clone(), router.clone());
        let wanted_ports = Batch::new(move |(), ips: Vec<String>| {
            let (ports, router) = (ports_too.clone(), its.clone());
            async move {
                let of_router = ports.with("device_id", &[router.id().to_owned()], &[]).await?;
                if of_router.is_empty() {
                    return Ok(Arc::new(of_router));
                }
                let networks: Vec<_> = of_router.iter().map(|port| &*port.network).collect();
                let ips: Vec<_> = ips.iter().map(|ip| format!("ip_address={ip}")).collect();
                ports.with("fixed_ips", &ips, &networks).await.map(Arc::new)
            }
        });
        let changes = router.changes();
        Self { services, router, ports, cluster, wanted_ports, changes }
    }

    /// Whether the cloud has routes at all; asked before the controller is offered them.
    ///
    /// # Errors
    /// What Neutron answered.
    pub(crate) async fn are_supported(&self) -> Result<bool> {
        Ok(self.services.has_extension("extraroute").await? || self.services.has_extension("extraroute-atomic").await?)
    }

    /// The one port in the router's networks that has an address; `None` where there are no address pairs, or none to be
    /// removed.
    async fn port_at(&self, ip: &str, change: Change) -> Result<Option<Port>> {
        if !self.services.has_extension("allowed-address-pairs").await? {
            return Ok(None);
        }
        let ports = self.wanted_ports.join((), ip.to_owned()).await?;
        let found: Vec<_> = ports.iter().filter(|port| port.has(ip)).collect();
        let error = match (&*found, change) {
            ([port], _) => return Ok(Some(Port::clone(port))),
            // With the server its port is gone.
            ([], Change::Remove) => return Ok(None),
            ([], Change::Add) => Error::not_found,
            _ => Error::invalid,
        };
        Err(error(format!(
            "{} ports have the address {ip} in the networks of router {:?}, of which it should be one: are the server's \
             network and the router connected?",
            found.len(),
            self.router.id()
        )))
    }

    /// The port before the router: what is listed is whole, and what was interrupted is done again. If the router refuses,
    /// what it has then decides, as an answer may have been lost, and what was changed of the port is taken back.
    async fn apply(&self, change: Change, route: &Gateway) -> Result<()> {
        let port = self.port_at(&route.nexthop, change).await?;
        let change_pairs = async |port: Port, change| self.ports.change(port, |port| pairs(port, change, route)).await;
        let changed = match &port {
            Some(port) => match change_pairs(port.clone(), change).await {
                Err(error) if error.is_not_found() && change == Change::Remove => false,
                changed => changed?,
            },
            None => false,
        };
        let Err(error) = self.changes.join(change, route.clone()).await else { return Ok(()) };
        let Ok(routes) = self.router.routes().await else { return Err(error) };
        if routes.iter().any(|there| there.is(route)) == (change == Change::Add) {
            return Ok(());
        }
        if let Some(port) = port.filter(|_| changed) {
            let undone = match self.ports.by_id(&port.id).await {
                Ok(Some(port)) => change_pairs(port, change.undone()).await.map(drop),
                gone_or_not => gone_or_not.map(drop),
            };
            if let Err(error) = undone {
                tracing::warn!(port = &*port.id, %error, "what was changed of a port for a route could not be taken back");
            }
        }
        Err(error)
    }
}

#[async_trait]
impl Routes for RouterRoutes {
    async fn list(&self, _cluster: &Cluster) -> Result<Vec<Route>> {
        let unknown = || Error::other("routes cannot be judged before the nodes are known");
        let nodes = self.cluster.nodes().ok_or_else(unknown)?;
        let targets = Targets::new(&nodes, &self.cluster);
        Ok(self.router.routes().await?.iter().map(|route| targets.route(route)).collect())
    }

    async fn create(&self, _cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let (text, node) = (&route.destination_cidr, &route.target_node);
        let range: IpNet = text.parse().map_err(|_| Error::invalid(format!("{text:?} is no range of addresses")))?;
        let hop = next_hop(&route.target_node_addresses, range).ok_or_else(|| {
            let family = if matches!(range, IpNet::V6(_)) { "IPv6" } else { "IPv4" };
            Error::invalid(format!("node {node:?} has no InternalIP of {family} that its route {text} could lead to"))
        })?;
        let wanted = Gateway { destination: text.clone(), nexthop: hop.to_string() };
        self.apply(Change::Add, &wanted).await
    }

    async fn delete(&self, _cluster: &Cluster, route: &Route) -> Result<()> {
        let hop = route.target_node_addresses.first().map_or(&*route.target_node, |hop| &*hop.address);
        let unwanted = Gateway { destination: route.destination_cidr.clone(), nexthop: hop.to_owned() };
        match self.apply(Change::Remove, &unwanted).await {
            // Where no Node is the port may be anybody's, and keeps no route that leads nowhere.
            Err(error) if route.blackhole && (error.is_invalid() || error.is_unauthorized()) => {
                tracing::warn!(hop, %error, "what the port at the end of a route lets through was not changed");
                self.changes.join(Change::Remove, unwanted).await
            }
            answer => answer,
        }
    }
}

/// What a port lets through after a change; `None` if that is what it does.
fn pairs(port: &Port, change: Change, route: &Gateway) -> Option<Value> {
    let range: IpNet = route.destination.parse().ok()?;
    let is_its = |pair: &AddressPair| pair.ip_address.parse() == Ok(range);
    let added = AddressPair { ip_address: range.to_string().into(), mac_address: None };
    let mut pairs: Vec<_> = port.pairs.iter().filter(|pair| !is_its(pair)).collect();
    let is_done = (pairs.len() < port.pairs.len()) == (change == Change::Add);
    if change == Change::Add {
        pairs.push(&added);
    }
    (port.is_secured && !is_done).then(|| json!({ "allowed_address_pairs": pairs }))
}

#[cfg(test)]
mod tests;
