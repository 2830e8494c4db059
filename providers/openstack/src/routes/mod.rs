//! Routes for Pod CIDRs: extra routes of a Neutron router, and what the servers' ports let through (§4).

mod router;

use std::sync::Arc;

use cloud_provider::{Error, Result, async_trait};
use ipnet::IpNet;
use provider_kit::cluster::ClusterView;
use provider_kit::coalescer::Coalescer;
use provider_kit::routes::{Change, CloudRoute, RouteCloud, RouteTable};
use serde_json::{Value, json};

use self::router::Router;
use crate::ports::{AddressPair, Port, Ports};
use crate::services::Services;

/// A router whose routes are listed and changed.
pub(crate) struct RouterRoutes {
    services: Services,
    router: Router,
    ports: Ports,
    /// Ports by address: concurrent callers share one request.
    wanted_ports: Coalescer<(), String, Arc<Vec<Port>>>,
    changes: Coalescer<Change, CloudRoute>,
}

/// Returns the routes of `[Route] router-id`.
pub(crate) fn routes(services: Services, ports: Ports, id: String, cluster: ClusterView) -> RouteTable<RouterRoutes> {
    let router = Router::new(services.clone(), id);
    let (all_ports, its) = (ports.clone(), router.clone());
    let wanted_ports = Coalescer::retrying_alone(move |(), ips: Vec<String>| {
        let (ports, router) = (all_ports.clone(), its.clone());
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
    RouteTable::new(RouterRoutes { services, router, ports, wanted_ports, changes }, cluster)
}

impl RouterRoutes {
    /// Returns `true` if the cloud has routes at all.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(crate) async fn are_supported(&self) -> Result<bool> {
        Ok(self.services.has_extension("extraroute").await? || self.services.has_extension("extraroute-atomic").await?)
    }

    /// Returns the one port in the router's networks that has an address; `None` in a cloud without address pairs, or if there
    /// are none to be removed.
    async fn port_at(&self, ip: &str, change: Change) -> Result<Option<Port>> {
        if !self.services.has_extension("allowed-address-pairs").await? {
            return Ok(None);
        }
        let ports = self.wanted_ports.join((), ip.to_owned()).await?;
        let found: Vec<_> = ports.iter().filter(|port| port.has(ip)).collect();
        let error = match (&*found, change) {
            ([port], _) => return Ok(Some(Port::clone(port))),
            // The port was deleted with its server.
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
}

#[async_trait]
impl RouteCloud for RouterRoutes {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        self.router.routes().await
    }

    /// The port before the router: a listed route is complete, and an interrupted change is repeated.
    async fn prepare(&self, change: Change, route: &CloudRoute) -> Result<bool> {
        let Some(port) = self.port_at(route.next_hop()?, change).await? else { return Ok(false) };
        match self.ports.change(port, |port| pairs(port, change, route)).await {
            Err(error) if error.is_not_found() && change == Change::Remove => Ok(false),
            changed => changed,
        }
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        self.changes.join(change, route.clone()).await
    }
}

/// Returns the fields of a PUT that changes what a port lets through; `None` if no change is needed.
fn pairs(port: &Port, change: Change, route: &CloudRoute) -> Option<Value> {
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
