//! Targets of load balancers: selection of Nodes, and the address families that they permit.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{AddressType, Error, Node, Result};
use provider_kit::load_balancers::{Targets, machine_ids};

use super::object::LoadBalancer;
use crate::annotations as key;
use crate::annotations::{Network, NetworkStack};
use crate::config::LoadBalancerType;
use crate::droplets::IDS;

/// The targets, and the address families.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// Targets; `None` if they are not known.
    pub(super) targets: Option<Targets>,
    pub(super) stack: NetworkStack,
}

/// The address families of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeFamilies {
    V4,
    V6,
    Dual,
    None,
}

fn class(node: &Node, allows_private: bool) -> NodeFamilies {
    let ips = |kind: AddressType| {
        let of_kind = node
            .addresses
            .iter()
            .filter(move |address| address.kind == kind);
        of_kind.filter_map(|address| address.address.parse::<IpAddr>().ok())
    };
    let has = |kind: AddressType, is_v4: bool| ips(kind).any(|ip| ip.is_ipv4() == is_v4);
    match (
        has(AddressType::ExternalIP, true),
        has(AddressType::ExternalIP, false),
    ) {
        (true, true) => NodeFamilies::Dual,
        (true, false) => NodeFamilies::V4,
        (false, true) => NodeFamilies::V6,
        (false, false) if allows_private && has(AddressType::InternalIP, true) => NodeFamilies::V4,
        (false, false) => NodeFamilies::None,
    }
}

/// Returns the targets among the Nodes, and the address families that these support.
///
/// # Errors
/// *Invalid*, if the Nodes cannot be targets of such a load balancer at all.
pub(super) fn choose(nodes: &[Arc<Node>], wanted: &LoadBalancer) -> Result<Selection> {
    let is_internal = wanted.network == Network::Internal;
    let is_passing = wanted.kind == LoadBalancerType::RegionalNetwork && !is_internal;
    let is_usable = |class: NodeFamilies| match class {
        NodeFamilies::V4 | NodeFamilies::Dual => true,
        NodeFamilies::V6 => is_internal,
        NodeFamilies::None => !is_passing,
    };
    let (usable, unusable): (Vec<_>, Vec<_>) = nodes
        .iter()
        .cloned()
        .partition(|node| is_usable(class(node, !is_passing)));
    if usable.is_empty()
        && is_passing
        && unusable
            .iter()
            .any(|node| class(node, false) == NodeFamilies::None)
    {
        return Err(Error::invalid(format!(
            "no Node has a public address, which external load balancers of type REGIONAL_NETWORK need; set annotation {}: \
             REGIONAL or {}: INTERNAL",
            key::TYPE.key(),
            key::NETWORK.key()
        )));
    }
    let single: Vec<&str> = usable
        .iter()
        .filter(|node| class(node, false) != NodeFamilies::Dual)
        .map(|node| &*node.name)
        .collect();
    let stack = match wanted.network_stack {
        Some(NetworkStack::Dualstack) if is_passing && !single.is_empty() => {
            return Err(Error::invalid(format!(
                "annotation {}: DUALSTACK needs Nodes with public addresses of both families; these have none of IPv6: {}",
                key::NETWORK_STACK.key(),
                single[..single.len().min(3)].join(", ")
            )));
        }
        Some(stack) => stack,
        None if is_internal => NetworkStack::Ipv4,
        None if is_passing && (usable.is_empty() || !single.is_empty()) => NetworkStack::Ipv4,
        None => NetworkStack::Dualstack,
    };
    let targets = if usable.is_empty() && !nodes.is_empty() {
        Some(Targets::default())
    } else {
        machine_ids(&usable, &IDS)
    };
    Ok(Selection { targets, stack })
}
