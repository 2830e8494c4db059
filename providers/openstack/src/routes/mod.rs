//! Routes for Pod CIDRs: extra routes of a Neutron router, and the address pairs of the servers' ports.

use std::sync::Arc;

use cloud_provider::{Error, Result, async_trait};
use ipnet::IpNet;
use provider_kit::cluster::ClusterView;
use provider_kit::coalescer::Coalescer;
use provider_kit::routes::{Change, CloudRoute, RouteCloud, RouteTable};
use provider_kit::shared_document::{DocumentStore, SharedDocuments, Versioned};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ports::{AddressPair, Port, Ports};
use crate::services::{Services, based_on};

/// A router whose routes are listed and changed.
pub(crate) struct RouterRoutes {
    services: Services,
    router: Router,
    ports: Ports,
    /// Ports by address: concurrent callers share one request.
    wanted_ports: Coalescer<(), String, Arc<Vec<Port>>>,
    /// Concurrent changes share a request.
    changes: Coalescer<Change, CloudRoute>,
}

#[derive(Deserialize)]
struct RouterResponse {
    #[serde(default)]
    routes: Vec<RouteResponse>,
    #[serde(default)]
    revision_number: Option<u64>,
}

#[derive(Deserialize)]
struct RouteResponse {
    destination: String,
    nexthop: String,
}

impl From<RouteResponse> for CloudRoute {
    fn from(
        RouteResponse {
            destination,
            nexthop,
        }: RouteResponse,
    ) -> Self {
        Self {
            name: destination.clone(),
            destination,
            next_hops: vec![nexthop],
            ..Self::default()
        }
    }
}

/// Returns the body of a PUT.
fn body(routes: &[CloudRoute]) -> Value {
    let route = |route: &CloudRoute| json!({ "destination": route.destination, "nexthop": route.next_hops.first() });
    json!({ "router": { "routes": routes.iter().map(route).collect::<Vec<_>>() } })
}

/// Returns the routes of `[Route] router-id`.
pub(crate) fn routes(
    services: Services,
    ports: Ports,
    id: String,
    cluster: ClusterView,
) -> RouteTable<RouterRoutes> {
    let all_ports = ports.clone();
    let router = id.clone();
    let wanted_ports = Coalescer::retrying_alone(move |(), ips: Vec<String>| {
        let ports = all_ports.clone();
        let router = router.clone();
        async move {
            let of_router = ports.with("device_id", &[router], &[]).await?;
            if of_router.is_empty() {
                return Ok(Arc::new(of_router));
            }
            let networks: Vec<_> = of_router.iter().map(|port| &*port.network).collect();
            let ips: Vec<_> = ips.iter().map(|ip| format!("ip_address={ip}")).collect();
            ports.with("fixed_ips", &ips, &networks).await.map(Arc::new)
        }
    });
    let router = Router {
        id,
        documents: SharedDocuments::new(Routers(services.clone())),
    };
    let of_changes = router.clone();
    let changes = Coalescer::retrying_alone(move |change, routes| {
        let router = of_changes.clone();
        async move { router.change(change, routes).await }
    });
    RouteTable::new(
        RouterRoutes {
            services,
            router,
            ports,
            wanted_ports,
            changes,
        },
        cluster,
    )
}

/// A router, and the lists of routes for a Neutron that takes only whole lists.
#[derive(Clone)]
struct Router {
    id: String,
    documents: SharedDocuments<Routers>,
}

impl Router {
    async fn change(&self, change: Change, routes: Vec<CloudRoute>) -> Result<()> {
        let Routers(services) = self.documents.store();
        if !services.has_extension("extraroute-atomic").await? {
            let edit = move |all: &mut Vec<CloudRoute>| {
                edit(all, change, &routes);
                Ok(())
            };
            return self.documents.edit(&self.id, edit).await;
        }
        let path = match change {
            Change::Add => "/routers/{id}/add_extraroutes",
            Change::Remove => "/routers/{id}/remove_extraroutes",
        };
        services
            .network
            .send(Call::put(path, &[&self.id]).json(&body(&routes)))
            .await
            .map(drop)
    }
}

/// Applies a change to a list of routes. Routes that are there already, or are not there, are left as they are.
fn edit(all: &mut Vec<CloudRoute>, change: Change, routes: &[CloudRoute]) {
    all.retain(|route| change == Change::Add || !routes.iter().any(|other| route.is_same(other)));
    for route in routes.iter().filter(|_| change == Change::Add) {
        if !all.iter().any(|other_route| other_route.is_same(route)) {
            all.push(route.clone());
        }
    }
}

/// Routers whose list of routes is written as a whole, for a Neutron without `extraroute-atomic`. Neutron refuses a
/// list that is based on an older revision.
struct Routers(Services);

#[async_trait]
impl DocumentStore for Routers {
    type Key = String;
    type Document = Vec<CloudRoute>;

    async fn read(&self, id: &String) -> Result<Versioned<Vec<CloudRoute>>> {
        let call = Call::get("/routers/{id}", &[id]).inside("router");
        let found: Option<RouterResponse> = self.0.network.find(call).await?;
        // A missing router does not mean that there are no routes.
        let missing = || {
            Error::invalid(format!(
                "there is no router {id:?} in the project; correct router-id in [Route]"
            ))
        };
        let RouterResponse {
            routes,
            revision_number,
        } = found.ok_or_else(missing)?;
        let document = routes.into_iter().map(CloudRoute::from).collect();
        Ok(Versioned {
            document,
            version: revision_number.map(|number| number.to_string()),
        })
    }

    async fn write(
        &self,
        id: &String,
        routes: Vec<CloudRoute>,
        version: Option<&str>,
    ) -> Result<()> {
        let call = Call::put("/routers/{id}", &[id]).json(&body(&routes));
        self.0.network.send(based_on(version, call)).await.map(drop)
    }
}

impl RouterRoutes {
    /// Returns `true` if the cloud has routes at all.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(crate) async fn are_supported(&self) -> Result<bool> {
        Ok(self.services.has_extension("extraroute").await?
            || self.services.has_extension("extraroute-atomic").await?)
    }

    /// Returns the only port in the router's networks with this address; `None` in a cloud without address pairs, or,
    /// for a removal, if the port no longer exists.
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
            self.router.id
        )))
    }
}

#[async_trait]
impl RouteCloud for RouterRoutes {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        Ok(self
            .router
            .documents
            .store()
            .read(&self.router.id)
            .await?
            .document)
    }

    /// Changes the port before the router: thus a listed route is complete, and an interrupted change is repeated.
    async fn change_auxiliaries(&self, change: Change, route: &CloudRoute) -> Result<bool> {
        let Some(port) = self.port_at(route.next_hop()?, change).await? else {
            return Ok(false);
        };
        match self
            .ports
            .change(port, |port| pairs(port, change, route))
            .await
        {
            Err(error) if error.is_not_found() && change == Change::Remove => Ok(false),
            changed => changed,
        }
    }

    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        self.changes.join(change, route.clone()).await
    }
}

/// Returns the fields of a PUT that changes the address pairs of a port; `None` if no change is needed.
fn pairs(port: &Port, change: Change, route: &CloudRoute) -> Option<Value> {
    let range: IpNet = route.destination.parse().ok()?;
    let is_its_pair = |pair: &AddressPair| pair.ip_address.parse() == Ok(range);
    let added = AddressPair {
        ip_address: range.to_string().into(),
        mac_address: None,
    };
    let mut pairs: Vec<_> = port
        .pairs
        .iter()
        .filter(|pair| !is_its_pair(pair))
        .collect();
    let is_done = (pairs.len() < port.pairs.len()) == (change == Change::Add);
    if change == Change::Add {
        pairs.push(&added);
    }
    (port.is_secured && !is_done).then(|| json!({ "allowed_address_pairs": pairs }))
}

#[cfg(test)]
mod tests;
