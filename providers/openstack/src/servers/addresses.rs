//! The addresses of a server's Node, and their order. Pure.

use std::cmp::Reverse;
use std::net::IpAddr;

use cloud_provider::{AddressType, NodeAddress, add_addresses};
use ipnet::IpNet;

use super::Wire;
use super::attached::Attached;
use crate::config::Networking;

/// Returns the Node addresses of a server, in this order: those of its ports, its access addresses, its host name,
/// those of its networks.
pub(super) fn addresses(
    server: &Wire,
    attached: &Attached,
    config: &Networking,
) -> Box<[NodeAddress]> {
    use AddressType::{ExternalIP, Hostname, InternalIP};
    let access = [&server.access_ipv4, &server.access_ipv6]
        .into_iter()
        .flatten();
    let first = attached
        .ips
        .iter()
        .map(|ip| (InternalIP, ip))
        .chain(access.map(|ip| (ExternalIP, ip)));
    let first = first.chain(server.metadata.hostname.iter().map(|name| (Hostname, name)));
    let mut list = Vec::new();
    add_addresses(
        &mut list,
        first
            .filter(|(_, text)| !text.is_empty())
            .map(|(kind, text)| NodeAddress::new(kind, text)),
    );
    for (network, is_floating, ip) in in_networks(server, attached) {
        let is_one_of = |names: &[String]| names.iter().any(|name| name == network);
        let is_external = is_floating || is_one_of(&config.public);
        let is_internal =
            !is_external && (config.internal.is_empty() || is_one_of(&config.internal));
        if !is_floating && !is_internal {
            list.retain(|address| *address.address != *ip);
        }
        let kind = is_external
            .then_some(ExternalIP)
            .or(is_internal.then_some(InternalIP));
        add_addresses(&mut list, kind.map(|kind| NodeAddress::new(kind, ip)));
    }
    list.retain(|address| {
        address.kind == Hostname || !(config.ipv6_disabled && address.address.contains(':'))
    });
    sort(&mut list, &config.sort_order);
    list.into()
}

/// Returns the network, `true` for a floating IP, and the address: networks by their names, in each the server's own addresses
/// before those that it has through a trunk.
fn in_networks<'a>(server: &'a Wire, attached: &'a Attached) -> Vec<(&'a str, bool, &'a str)> {
    let server_addresses = server.addresses.iter().flat_map(|(network, addresses)| {
        addresses.iter().map(|address| {
            (
                &**network,
                address.kind.as_deref() == Some("floating"),
                &*address.addr,
            )
        })
    });
    let trunk = attached
        .trunk
        .iter()
        .map(|(network, ip)| (&**network, false, &**ip));
    let mut all: Vec<_> = server_addresses.chain(trunk).collect();
    all.sort_by_key(|(network, ..)| *network);
    all
}

/// Sorts by `address-sort-order`: addresses in a network of it first, by number; the others keep their order.
fn sort(addresses: &mut [NodeAddress], order: &[IpNet]) {
    if order.is_empty() {
        return;
    }
    addresses.sort_by_cached_key(|address| {
        match (priority(order, &address.address), address.address.parse()) {
            (0, _) | (_, Err(_)) => (Reverse(0), 0),
            (priority, Ok(IpAddr::V4(ip))) => (Reverse(priority), ip.to_ipv6_mapped().to_bits()),
            (priority, Ok(IpAddr::V6(ip))) => (Reverse(priority), ip.to_bits()),
        }
    });
}

/// Returns the priority of an address: higher for an earlier network in `order`, and 0 if no network contains the
/// address.
fn priority(order: &[IpNet], address: &str) -> usize {
    let place = |ip: IpAddr| order.iter().position(|network| network.contains(&ip));
    address
        .parse()
        .ok()
        .and_then(place)
        .map_or(0, |at| order.len() - at)
}

#[cfg(test)]
mod tests;
