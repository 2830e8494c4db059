//! Dedicated servers: what becomes of them on a Node (§2.2, §2.3).

use std::net::IpAddr;

use cloud_provider::AddressType::InternalIP;
use cloud_provider::{About, InstanceMetadata, Node, NodeAddress};
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::events::EventWriter;

use super::PROVIDED_BY;
use crate::id::MachineId;
use crate::robot::DedicatedServer;

/// What a Node is told of dedicated servers.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    pub(crate) address_family: AddressFamily,
    pub(crate) forward_internal_ips: bool,
    pub(crate) events: EventWriter,
}

impl Telling {
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
        let public = [server.ipv6.map(IpAddr::V6), server.ipv4.map(IpAddr::V4)].into_iter().flatten();
        let mut addresses = Addresses::of(&server.name).external(public, self.address_family).build();
        if self.forward_internal_ips {
            for address in node.addresses.iter().filter(|it| it.kind == InternalIP) {
                match self.misconfigured(address, &addresses) {
                    None => addresses.push(address.clone()),
                    Some(why) => {
                        let message = format!("InternalIP {} is not kept: {why}", address.address);
                        self.events.warning(About::Node(node), "MisconfiguredInternalIP", message);
                    }
                }
            }
        }
        addresses
    }

    /// Why an InternalIP that the kubelet reports is not one of the Node's addresses.
    fn misconfigured(&self, address: &NodeAddress, before: &[NodeAddress]) -> Option<&'static str> {
        if before.iter().any(|it| it.address == address.address) {
            return Some("it is one of the node's other addresses already; give the kubelet another --node-ip");
        }
        match (address.address.parse::<IpAddr>(), self.address_family) {
            (Err(_), _) => Some("it is no IP address"),
            (Ok(IpAddr::V4(_)), AddressFamily::Ipv6) => Some("it is IPv4, and HCLOUD_INSTANCES_ADDRESS_FAMILY is ipv6"),
            (Ok(IpAddr::V6(_)), AddressFamily::Ipv4) => Some("it is IPv6, and HCLOUD_INSTANCES_ADDRESS_FAMILY is ipv4"),
            _ => None,
        }
    }
}

/// A product's name as the value of a label.
fn instance_type(product: &str) -> String {
    let valid = |c: &char| c.is_ascii_alphanumeric() || "_.-".contains(*c);
    product.chars().map(|c| if c == ' ' { '-' } else { c }).filter(valid).collect()
}
