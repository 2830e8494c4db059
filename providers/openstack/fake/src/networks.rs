//! Networks and subnets, and the extensions of Neutron.

use std::net::IpAddr;

use fake_cloud::Reply;
use ipnet::IpNet;
use serde_json::json;

use crate::attributes;
use crate::model::{Kind, Model, Object, text};
use crate::pages;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, one};

impl Model {
    /// Returns the range of a subnet.
    pub(crate) fn range(&self, subnet: &str) -> Option<IpNet> {
        self.get(Kind::Subnet, subnet)
            .and_then(|subnet| text(subnet, "cidr").parse().ok())
    }

    /// Returns the subnets of a network.
    pub(crate) fn subnets_of(&self, network: &str) -> impl Iterator<Item = &Object> {
        self.all(Kind::Subnet)
            .filter(move |object| text(object, "network_id") == network)
    }

    /// Returns a free address of a subnet.
    pub(crate) fn free_address(&mut self, subnet: &str) -> Result<String, Refusal> {
        let none = || {
            let message = format!("No more IP addresses available on network {subnet}.");
            Refusal::new(409, "IpAddressGenerationFailure", message)
        };
        let range = self
            .range(subnet)
            .ok_or_else(|| Kind::Subnet.not_found(subnet))?;
        loop {
            // The first addresses are reserved for the gateway and for addresses that tests choose.
            let cursor = self.cursors.entry(subnet.to_owned()).or_insert(15);
            *cursor += 1;
            let address = match range.network() {
                IpAddr::V4(first) => IpAddr::V4((u32::from(first) + *cursor).into()),
                IpAddr::V6(first) => IpAddr::V6((u128::from(first) + u128::from(*cursor)).into()),
            };
            if !range.contains(&address) {
                return Err(none());
            }
            let address = address.to_string();
            if !self.chosen.contains(&address) {
                return Ok(address);
            }
        }
    }

    /// Returns `true` if a port already has this address of the subnet.
    pub(crate) fn is_taken(&self, subnet: &str, address: &str) -> bool {
        let has = |port: &Object| {
            crate::model::list(port, "fixed_ips")
                .iter()
                .any(|fixed_ip| {
                    fixed_ip["ip_address"] == address && fixed_ip["subnet_id"] == subnet
                })
        };
        self.all(Kind::Port).any(has)
            || self
                .all(Kind::FloatingIp)
                .any(|object| text(object, "floating_ip_address") == address)
    }
}

pub(crate) fn versions(model: &mut Model, _: &ApiRequest) -> Answer {
    let href = format!("{}/network/v2.0/", model.options.endpoint);
    let version =
        json!({"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": href}]});
    Ok(Reply::new(200, json!({"versions": [version]})))
}

pub(crate) fn extensions(model: &mut Model, _: &ApiRequest) -> Answer {
    let options = &model.options;
    let some = [
        (options.routes, "extraroute"),
        (options.atomic_routes, "extraroute-atomic"),
        (options.address_pairs, "allowed-address-pairs"),
    ];
    let always = [
        "router",
        "security-group",
        "port-security",
        "standard-attr-tag",
        "revision-if-match",
        "pagination",
        "external-net",
    ];
    let aliases = some
        .into_iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, alias)| alias)
        .chain(always);
    let extension = |alias: &str| json!({"alias": alias, "name": alias, "description": "", "updated": "", "links": []});
    Ok(Reply::new(
        200,
        json!({"extensions": aliases.map(extension).collect::<Vec<_>>()}),
    ))
}

fn shown(model: &Model, network: &Object) -> Object {
    let mut shown = network.clone();
    let subnets = model
        .subnets_of(text(network, "id"))
        .map(|object| text(object, "id"));
    shown.insert("subnets".to_owned(), subnets.collect());
    shown
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Network, attributes::NETWORK, shown)
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let network = model.one(Kind::Network, &request.project, request.id())?;
    one(Kind::Network, shown(model, network))
}

pub(crate) fn list_subnets(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(
        model,
        request,
        Kind::Subnet,
        attributes::SUBNET,
        |_, subnet| subnet.clone(),
    )
}

pub(crate) fn get_subnet(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::Subnet,
        model
            .one(Kind::Subnet, &request.project, request.id())?
            .clone(),
    )
}
