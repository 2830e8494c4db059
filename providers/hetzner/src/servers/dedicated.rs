//! Dedicated servers: the fields that are kept, and the metadata of their Nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cloud_provider::AddressType::InternalIP;
use cloud_provider::{EventSubject, InstanceMetadata, Node, NodeAddress};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::events::EventWriter;
use provider_kit::inventory::Machine;
use serde::Deserialize;

use crate::id::{MachineId, PROVIDED_BY, first_address};

/// A dedicated server, as far as a Node or a load balancer needs it.
#[derive(Debug, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct DedicatedServer {
    id: Box<str>,
    pub(crate) number: u64,
    pub(crate) name: Box<str>,
    pub(crate) ipv4: Option<Ipv4Addr>,
    /// The first address of its IPv6 network.
    pub(crate) ipv6: Option<Ipv6Addr>,
    pub(crate) product: Box<str>,
    pub(crate) dc: Box<str>,
}

#[derive(Deserialize)]
struct Wire {
    server_number: u64,
    // Any field may be null, so that one incomplete server does not fail the whole list.
    server_name: Option<Box<str>>,
    server_ip: Option<Box<str>>,
    server_ipv6_net: Option<Box<str>>,
    product: Option<Box<str>>,
    dc: Option<Box<str>>,
}

impl From<Wire> for DedicatedServer {
    fn from(wire: Wire) -> Self {
        Self {
            id: wire.server_number.to_string().into(),
            number: wire.server_number,
            name: wire.server_name.unwrap_or_default(),
            ipv4: wire.server_ip.and_then(|ip| ip.parse().ok()),
            ipv6: wire
                .server_ipv6_net
                .and_then(|net| net.parse().ok())
                .map(first_address),
            product: wire.product.unwrap_or_default(),
            dc: wire.dc.unwrap_or_default(),
        }
    }
}

impl Machine for DedicatedServer {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    /// Returns `false`, because the list lacks the power state: see `Robot::is_shut_down`.
    fn is_shut_down(&self) -> bool {
        false
    }
}

/// The settings of the metadata of dedicated servers' Nodes.
#[derive(Clone, Debug)]
pub(crate) struct DedicatedMetadata {
    pub(crate) address_family: AddressFamily,
    pub(crate) forward_internal_ips: bool,
    pub(crate) events: EventWriter,
}

impl DedicatedMetadata {
    pub(crate) fn metadata(&self, server: &DedicatedServer, node: &Node) -> InstanceMetadata {
        let zone = server.dc.to_lowercase();
        InstanceMetadata {
            provider_id: MachineId::Robot(server.number).to_string(),
            instance_type: instance_type(&server.product),
            region: zone.split('-').next().unwrap_or_default().to_owned(),
            zone,
            node_addresses: self.addresses(server, node),
            additional_labels: [(PROVIDED_BY.to_owned(), "robot".to_owned())].into(),
        }
    }

    fn addresses(&self, server: &DedicatedServer, node: &Node) -> Vec<NodeAddress> {
        let public = [server.ipv6.map(IpAddr::V6), server.ipv4.map(IpAddr::V4)]
            .into_iter()
            .flatten();
        let mut addresses = Addresses::of(&server.name)
            .external(public, self.address_family)
            .build();
        if self.forward_internal_ips {
            for address in node
                .addresses
                .iter()
                .filter(|address| address.kind == InternalIP)
            {
                match self.misconfigured(address, &addresses) {
                    None => addresses.push(address.clone()),
                    Some(why) => {
                        let message = format!("InternalIP {} is not kept: {why}", address.address);
                        self.events.warning(
                            EventSubject::Node(node),
                            "MisconfiguredInternalIP",
                            message,
                        );
                    }
                }
            }
        }
        addresses
    }

    /// Returns the reason why an InternalIP that the kubelet reports is not kept.
    fn misconfigured(&self, address: &NodeAddress, before: &[NodeAddress]) -> Option<&'static str> {
        if before
            .iter()
            .any(|other_address| other_address.address == address.address)
        {
            return Some(
                "it is one of the node's other addresses already; give the kubelet another --node-ip",
            );
        }
        match (address.address.parse::<IpAddr>(), self.address_family) {
            (Err(_), _) => Some("it is no IP address"),
            (Ok(IpAddr::V4(_)), AddressFamily::Ipv6) => {
                Some("it is IPv4, and HCLOUD_INSTANCES_ADDRESS_FAMILY is ipv6")
            }
            (Ok(IpAddr::V6(_)), AddressFamily::Ipv4) => {
                Some("it is IPv6, and HCLOUD_INSTANCES_ADDRESS_FAMILY is ipv4")
            }
            _ => None,
        }
    }
}

/// Returns a product's name as the value of a label.
fn instance_type(product: &str) -> String {
    let valid = |c: &char| c.is_ascii_alphanumeric() || "_.-".contains(*c);
    product
        .chars()
        .map(|c| if c == ' ' { '-' } else { c })
        .filter(valid)
        .collect()
}
