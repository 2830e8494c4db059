//! Which addresses a server's Node gets, and in which order (§2.3). Pure.

use std::cmp::Reverse;
use std::net::IpAddr;

use cloud_provider::{AddressType, NodeAddress, add_addresses};
use ipnet::IpNet;

use super::attached::Attached;
use super::wire::Wire;
use crate::config::Networking;

/// The addresses: of its ports, for access, its host name, of its networks.
pub(super) fn addresses(server: &Wire, attached: &Attached, config: &Networking) -> Box<[NodeAddress]> {
    use AddressType::{ExternalIP, Hostname, InternalIP};
    let mut list = List { addresses: Vec::new(), ipv6_disabled: config.ipv6_disabled };
    attached.ips.iter().for_each(|ip| list.add(InternalIP, ip));
    [&server.access_ipv4, &server.access_ipv6].into_iter().flatten().for_each(|ip| list.add(ExternalIP, ip));
    if let Some(name) = server.metadata.hostname.as_deref().filter(|name| !name.is_empty()) {
        list.addresses.push(NodeAddress::new(Hostname, name));
    }
    for (network, floating, ip) in in_networks(server, attached) {
        let has = |names: &[String]| names.iter().any(|name| name == network);
        if floating {
            list.add(ExternalIP, ip);
        } else if has(&config.public) {
            list.remove(ip);
            list.add(ExternalIP, ip);
        } else if config.internal.is_empty() || has(&config.internal) {
            list.add(InternalIP, ip);
        } else {
            list.remove(ip);
        }
    }
    sort(&mut list.addresses, &config.sort_order);
    list.addresses.into()
}

struct List {
    addresses: Vec<NodeAddress>,
    ipv6_disabled: bool,
}

impl List {
    fn add(&mut self, kind: AddressType, ip: &str) {
        let is_left_out = ip.is_empty() || (self.ipv6_disabled && ip.contains(':'));
        if !is_left_out {
            add_addresses(&mut self.addresses, [NodeAddress::new(kind, ip)]);
        }
    }

    fn remove(&mut self, ip: &str) {
        self.addresses.retain(|address| *address.address != *ip);
    }
}

/// Network, whether it is a floating IP, and address: networks by their names, in each what the server has itself before what
/// it has through a trunk.
fn in_networks<'a>(server: &'a Wire, attached: &'a Attached) -> Vec<(&'a str, bool, &'a str)> {
    let own = server.addresses.iter().flat_map(|(network, addresses)| {
        addresses.iter().map(|it| (&**network, it.kind.as_deref() == Some("floating"), &*it.addr))
    });
    let trunk = attached.trunk.iter().map(|(network, ip)| (&**network, false, &**ip));
    let mut all: Vec<_> = own.chain(trunk).collect();
    all.sort_by_key(|(network, ..)| *network);
    all
}

/// `address-sort-order`: those in a network of it first, by number; the others stay where they are.
fn sort(addresses: &mut [NodeAddress], order: &[IpNet]) {
    if order.is_empty() {
        return;
    }
    addresses.sort_by_cached_key(|address| match (priority(order, &address.address), address.address.parse()) {
        (0, _) | (_, Err(_)) => (Reverse(0), 0),
        (priority, Ok(IpAddr::V4(ip))) => (Reverse(priority), ip.to_ipv6_mapped().to_bits()),
        (priority, Ok(IpAddr::V6(ip))) => (Reverse(priority), ip.to_bits()),
    });
}

/// How far before the end the network of an address stands; 0: it is in none.
fn priority(order: &[IpNet], address: &str) -> usize {
    let place = |ip: IpAddr| order.iter().position(|network| network.contains(&ip));
    address.parse().ok().and_then(place).map_or(0, |at| order.len() - at)
}

#[cfg(test)]
mod tests;
