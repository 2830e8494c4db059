//! Whose routes a router's are (§4). Pure.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{AddressType, Node, NodeAddress, Route};
use ipnet::IpNet;
use provider_kit::cluster::ClusterView;

use super::router::Gateway;

/// The Nodes that routes may lead to.
pub(super) struct Targets<'a> {
    by_address: HashMap<IpAddr, &'a Node>,
    by_range: HashMap<IpNet, &'a Node>,
    cluster: &'a ClusterView,
}

impl<'a> Targets<'a> {
    pub(super) fn new(nodes: &'a [Arc<Node>], cluster: &'a ClusterView) -> Self {
        let (mut by_address, mut by_range) = (HashMap::new(), HashMap::new());
        for node in nodes {
            for address in node.addresses.iter().filter_map(|it| it.address.parse().ok()) {
                by_address.entry(address).or_insert(&**node);
            }
            for range in node.pod_cidrs.iter().filter_map(|it| it.parse().ok()) {
                by_range.entry(range).or_insert(&**node);
            }
        }
        Self { by_address, by_range, cluster }
    }

    /// The contract's route for one of the router's.
    pub(super) fn route(&self, route: &Gateway) -> Route {
        let (destination, hop) = (route.destination.parse::<IpNet>().ok(), route.nexthop.parse::<IpAddr>().ok());
        let owner = destination.and_then(|range| self.by_range.get(&range).copied());
        let has_hop = |node: &&Node| node.addresses.iter().any(|it| hop.is_some() && it.address.parse().ok() == hop);
        let has_none = |node: &&Node| !node.addresses.iter().any(|it| it.kind == AddressType::InternalIP);
        // A Node whose server is gone may still have the address of another one's: the route is its whose range it is for. And a
        // Node that has no addresses (yet) keeps its route.
        let at_hop = || hop.and_then(|ip| self.by_address.get(&ip).copied());
        let target = owner.filter(has_hop).or_else(at_hop).or(owner.filter(has_none));
        Route {
            name: route.destination.clone(),
            target_node: target.map_or(&*route.nexthop, |node| &*node.name).to_owned(),
            enable_node_addresses: true,
            target_node_addresses: vec![NodeAddress::new(AddressType::InternalIP, &route.nexthop)],
            destination_cidr: route.destination.clone(),
            blackhole: target.is_none(),
            owned: Some(self.cluster.owns_route(&route.destination, target)),
        }
    }
}

/// §8.60: a Node's first internal address of the family of a range.
pub(super) fn next_hop(addresses: &[NodeAddress], range: IpNet) -> Option<IpAddr> {
    let internal = addresses.iter().filter(|it| it.kind == AddressType::InternalIP);
    let mut ips = internal.filter_map(|it| it.address.parse::<IpAddr>().ok());
    ips.find(|ip| ip.is_ipv6() == matches!(range, IpNet::V6(_)))
}

#[cfg(test)]
mod tests;
