//! The Node that a cloud's route leads to, and the decision whether the route is the cluster's. Pure.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{AddressType, Cluster, Node, NodeAddress, Route};
use ipnet::IpNet;

use super::{CloudRoute, RouteCloud, Target};
use crate::cluster::ClusterView;
use crate::load_balancers::OwnerTags;

/// The Nodes that routes may lead to.
pub(super) struct Nodes<'a> {
    by_machine: HashMap<&'a str, &'a Node>,
    by_name: HashMap<&'a str, &'a Node>,
    by_address: HashMap<IpAddr, &'a Node>,
    by_range: HashMap<IpNet, &'a Node>,
}

impl<'a> Nodes<'a> {
    pub(super) fn new(nodes: &'a [Arc<Node>], cloud: &impl RouteCloud) -> Self {
        let mut by_address = HashMap::new();
        let mut by_range = HashMap::new();
        for node in nodes {
            for address in node
                .addresses
                .iter()
                .filter_map(|address| address.address.parse().ok())
            {
                by_address.entry(address).or_insert(&**node);
            }
            for range in node
                .pod_cidrs
                .iter()
                .filter_map(|pod_cidr| pod_cidr.parse().ok())
            {
                by_range.entry(range).or_insert(&**node);
            }
        }
        let by_machine = nodes
            .iter()
            .filter_map(|node| Some((cloud.machine_id(node.provider_id()?)?, &**node)));
        let by_name = nodes.iter().map(|node| (&*node.name, &**node));
        Self {
            by_machine: by_machine.collect(),
            by_name: by_name.collect(),
            by_address,
            by_range,
        }
    }

    /// Converts a cloud's route to the contract's.
    pub(super) fn route(&self, cluster: &Cluster, view: &ClusterView, route: &CloudRoute) -> Route {
        let (target, _) = self.target(route);
        let internal = |ip: &String| NodeAddress::new(AddressType::InternalIP, ip);
        Route {
            name: route.name.clone(),
            enable_node_addresses: true,
            target_node_addresses: route.next_hops.iter().map(internal).collect(),
            destination_cidr: route.destination.clone(),
            blackhole: match &route.target {
                Target::Address => target.is_none(),
                Target::Machine { .. } => false,
                Target::Gone(_) => true,
            },
            owned: Some(self.owns(cluster, view, route)),
            target_node: match (target, &route.target) {
                (Some(target), _) => target.to_owned(),
                (None, Target::Address) => route.next_hops.first().cloned().unwrap_or_default(),
                (None, _) => String::new(),
            },
        }
    }

    /// Returns the name of the Node that a route leads to, and the Node.
    fn target<'b>(&self, route: &'b CloudRoute) -> (Option<&'b str>, Option<&'a Node>)
    where
        'a: 'b,
    {
        let node = match &route.target {
            Target::Address => self.at_next_hop(route),
            Target::Machine { id, .. } | Target::Gone(id) => self.by_machine.get(&**id).copied(),
        };
        match (&route.target, node) {
            (_, Some(node)) => (Some(&node.name), Some(node)),
            // A Node without a provider ID is known by its name only. A Node with one is on another machine.
            (Target::Machine { name, .. }, None) => match self.by_name.get(&**name).copied() {
                Some(other) if other.provider_id().is_some() => (None, None),
                node => (Some(name), node),
            },
            _ => (None, None),
        }
    }

    /// Returns the Node of a route's next hop. A Node whose machine no longer exists may still have the address of
    /// another Node's machine, so the Node whose Pod CIDR the route is for takes precedence. A Node that has no
    /// addresses (yet) keeps its route.
    fn at_next_hop(&self, route: &CloudRoute) -> Option<&'a Node> {
        let hop = route
            .next_hops
            .first()
            .and_then(|hop| hop.parse::<IpAddr>().ok());
        let owner = route
            .destination
            .parse()
            .ok()
            .and_then(|range: IpNet| self.by_range.get(&range).copied());
        let has_hop = |node: &&Node| {
            node.addresses
                .iter()
                .any(|address| hop.is_some() && address.address.parse().ok() == hop)
        };
        let has_none = |node: &&Node| {
            !node
                .addresses
                .iter()
                .any(|address| address.kind == AddressType::InternalIP)
        };
        let at_hop = || hop.and_then(|ip| self.by_address.get(&ip).copied());
        owner
            .filter(has_hop)
            .or_else(at_hop)
            .or(owner.filter(has_none))
    }

    /// Returns `true` if a route is the cluster's: by its owner tag where routes have tags, by the ranges of Pods elsewhere.
    ///
    /// RBAC may grant or take the read of the cluster's ID (D-128), so a tag holds either the ID or the name of the cluster.
    /// Two clusters may have one name, so a tag that is not the one written now only counts together with a machine.
    pub(super) fn owns(&self, cluster: &Cluster, view: &ClusterView, route: &CloudRoute) -> bool {
        let (_, node) = self.target(route);
        let Some(tag) = &route.owner else {
            return view.owns_route(&route.destination, node);
        };
        let is_its_node = |node: &Node| {
            node.pod_cidrs
                .iter()
                .any(|cidr| **cidr == *route.destination)
        };
        match &cluster.id {
            _ if tag.is_empty() => false,
            _ if tag == OwnerTags::cluster(cluster) => true,
            Some(_) => {
                *tag == cluster.name && (matches!(route.target, Target::Gone(_)) || node.is_some())
            }
            // The tag may hold our ID if the route leads to a Node from its own Pod CIDR. Other routes wait for the ID.
            None => node.is_some_and(is_its_node),
        }
    }
}

#[cfg(test)]
mod tests;
