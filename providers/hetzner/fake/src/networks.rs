//! Private networks and their routes.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::lists::{names, page};
use crate::model::{CREATED, Kind, Model, Owned, asked_for, changed, of, one};
use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, ok, parse};

/// A private network of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// ID of the network.
    pub id: u64,
    /// Name of the network.
    pub name: String,
    /// Address range of the network.
    pub ip_range: Ipv4Net,
    /// Subnets, from which addresses are assigned.
    pub subnets: Vec<Subnet>,
    /// Routes of the network.
    pub routes: Vec<Route>,
}

/// A subnet of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Address range of the subnet.
    pub ip_range: Ipv4Net,
    /// Network zone of the subnet, such as `eu-central`.
    pub network_zone: String,
}

/// A route of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Destination range of the route.
    pub destination: String,
    /// Address of the gateway.
    pub gateway: String,
}

fn gateway(range: Ipv4Net) -> Option<Ipv4Addr> {
    range.hosts().next()
}

impl Model {
    pub(crate) fn add_network(&mut self, project: &str, name: &str, ip_range: Ipv4Net) -> u64 {
        let (id, _) = self.next_id(Kind::Network);
        let subnet =
            Ipv4Net::new(ip_range.network(), ip_range.prefix_len().max(16)).unwrap_or(ip_range);
        let subnets = vec![Subnet {
            ip_range: subnet,
            network_zone: "eu-central".to_owned(),
        }];
        let network = Network {
            id,
            name: name.to_owned(),
            ip_range,
            subnets,
            routes: Vec::new(),
        };
        self.networks.insert(
            id,
            Owned {
                project: project.to_owned(),
                object: network,
            },
        );
        id
    }

    fn taken_in(&self, network: u64) -> impl Iterator<Item = Ipv4Addr> {
        let of_servers = self
            .servers
            .values()
            .flat_map(|server| &server.object.private_net);
        let of_servers = of_servers
            .filter(move |other_network| other_network.network == network)
            .map(|network| network.ip);
        let of_balancers = self
            .balancers
            .values()
            .flat_map(|load_balancer| &load_balancer.object.private_net);
        of_servers.chain(
            of_balancers
                .filter(move |other_network| other_network.network == network)
                .map(|network| network.ip),
        )
    }

    /// Returns an address in a network: this one, or a free one of this range or of any subnet.
    pub(crate) fn address_in(
        &self,
        project: &str,
        id: u64,
        wanted: Option<Ipv4Addr>,
        range: Option<Ipv4Net>,
    ) -> Result<Ipv4Addr, Refusal> {
        let network =
            one(&self.networks, project, id).ok_or_else(|| Refusal::not_found("network"))?;
        let taken: std::collections::BTreeSet<_> = self.taken_in(id).collect();
        let subnets = network
            .subnets
            .iter()
            .map(|subnet| subnet.ip_range)
            .filter(|network| range.is_none_or(|range| range == *network));
        let subnets: Vec<_> = subnets.collect();
        let no_subnet =
            || Refusal::new("no_subnet_available", "no subnet of this network has room");
        match wanted {
            Some(wanted)
                if subnets.is_empty()
                    || taken.contains(&wanted)
                    || !subnets.iter().any(|network| network.contains(&wanted)) =>
            {
                Err(Refusal::new(
                    "ip_not_available",
                    format!("{wanted} is not available"),
                ))
            }
            Some(wanted) => Ok(wanted),
            None => {
                let mut free = subnets
                    .iter()
                    .flat_map(|network| network.hosts().skip(1))
                    .filter(|address| !taken.contains(address));
                free.next().ok_or_else(no_subnet)
            }
        }
    }

    pub(crate) fn network_json(&self, network: &Network) -> Value {
        let id = network.id;
        let servers = self
            .servers
            .values()
            .filter(|server| server.object.ip_in(id).is_some())
            .map(|server| server.object.id);
        let balancers = self
            .balancers
            .values()
            .map(|load_balancer| &load_balancer.object);
        let balancers = balancers
            .filter(|load_balancer| {
                load_balancer
                    .private_net
                    .iter()
                    .any(|net| net.network == id)
            })
            .map(|load_balancer| load_balancer.id);
        let subnets: Vec<Value> = network
            .subnets
            .iter()
            .map(|subnet| json!({"type": "cloud", "ip_range": subnet.ip_range, "network_zone": subnet.network_zone, "gateway": gateway(subnet.ip_range)}))
            .collect();
        json!({
            "id": id, "name": network.name, "ip_range": network.ip_range, "subnets": subnets, "routes": network.routes,
            "servers": servers.collect::<Vec<_>>(), "load_balancers": balancers.collect::<Vec<_>>(),
            "protection": {"delete": false}, "labels": {}, "created": CREATED, "expose_routes_to_vswitch": false,
        })
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let networks = of(&model.networks, request).filter(|network| names(request, &network.name));
    page(request, "networks", networks, |network| {
        model.network_json(network)
    })
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"network": model.network_json(asked_for(&model.networks, request, "network")?)}))
}

pub(crate) fn add_route(model: &mut Model, request: &ApiRequest) -> Answer {
    let route: Route = parse(request)?;
    let most = model.options.network_routes;
    let network = asked_for(&model.networks, request, "network")?;
    let destination: IpNet = route
        .destination
        .parse()
        .map_err(|_| Refusal::field("destination", "is no range"))?;
    if !matches!(destination, IpNet::V4(range) if range.trunc() == range) {
        return Err(Refusal::field("destination", "must be an IPv4 range"));
    }
    let gateway: IpAddr = route
        .gateway
        .parse()
        .map_err(|_| Refusal::field("gateway", "is no address"))?;
    if !matches!(gateway, IpAddr::V4(ip) if network.ip_range.contains(&ip)) {
        return Err(Refusal::field(
            "gateway",
            "must be an address of the network",
        ));
    }
    if network
        .routes
        .iter()
        .any(|other_route| other_route.destination == route.destination)
    {
        return Err(Refusal::field("destination", "overlaps with another route"));
    }
    if network.routes.len() >= most {
        return Err(Refusal::new(
            "resource_limit_exceeded",
            format!("a network has at most {most} routes"),
        ));
    }
    let action = model.act(request, "add_route", ("network", network.id))?;
    changed(&mut model.networks, &action, |network| {
        network.routes.push(route);
    });
    action.answer()
}

pub(crate) fn delete_route(model: &mut Model, request: &ApiRequest) -> Answer {
    let route: Route = parse(request)?;
    let network = asked_for(&model.networks, request, "network")?;
    if !network.routes.contains(&route) {
        return Err(Refusal::not_found("route"));
    }
    let action = model.act(request, "delete_route", ("network", network.id))?;
    changed(&mut model.networks, &action, |network| {
        network.routes.retain(|other_route| *other_route != route);
    });
    action.answer()
}
