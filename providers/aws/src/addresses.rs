//! The addresses of a Node, in the order of the Go program. Pure.

use std::net::IpAddr;

use cloud_provider::{AddressType, NodeAddress};

use crate::config::Family;
use crate::fargate;
use crate::instances::Instance;

/// A network interface that is in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Interface {
    /// Device index and network card; interfaces without attachment are last.
    pub(crate) order: (u32, u32),
    pub(crate) ipv4: Box<[IpAddr]>,
    /// The first of the IPv6 addresses.
    pub(crate) ipv6: Option<IpAddr>,
}

/// Names and the public address of an instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Named {
    pub(crate) private_dns: Box<str>,
    pub(crate) public_dns: Box<str>,
    pub(crate) public_ip: Option<IpAddr>,
}

/// Returns the addresses of an instance or of a Fargate Pod, by family.
pub(crate) fn addresses(families: &[Family], instance: &Instance) -> Vec<NodeAddress> {
    let Named { private_dns, public_dns, public_ip } = &instance.names;
    let is_fargate = instance.id.starts_with(fargate::PREFIX);
    let mut all = Vec::new();
    let mut add = |kind: AddressType, text: &str| {
        if !text.is_empty() {
            all.push(NodeAddress::new(kind, text));
        }
    };
    for family in families {
        let ips = instance.interfaces.iter().flat_map(|it| match family {
            Family::Ipv4 => it.ipv4.to_vec(),
            Family::Ipv6 => it.ipv6.into_iter().collect(),
        });
        ips.for_each(|ip| add(AddressType::InternalIP, &ip.to_string()));
        match family {
            _ if is_fargate => add(AddressType::InternalDNS, private_dns),
            Family::Ipv4 => {
                add(AddressType::ExternalIP, &public_ip.map(|ip| ip.to_string()).unwrap_or_default());
                add(AddressType::InternalDNS, private_dns);
                add(AddressType::Hostname, private_dns);
                add(AddressType::ExternalDNS, public_dns);
            }
            Family::Ipv6 => {}
        }
    }
    all
}
