//! The addresses of a Node, in the order in which a provider reports them.

use std::net::IpAddr;

use cloud_provider::{AddressType, NodeAddress, add_addresses};

use crate::declared::{Kind, Value};

/// The IP families that a provider reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFamily {
    /// Only IPv4 addresses count.
    #[default]
    Ipv4,
    /// Only IPv6 addresses count.
    Ipv6,
    /// IPv4 and IPv6 addresses count.
    Dualstack,
}

impl AddressFamily {
    /// Returns `true` if an address is of this family.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
            Self::Dualstack => true,
        }
    }
}

impl Value for AddressFamily {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("dualstack", Self::Dualstack),
    ]);
}

/// A builder of the list of a Node's addresses. Other components depend on which type comes first and on the order
/// within a type, so the order of the calls is kept; each address is listed once per type.
///
/// ```
/// use cloud_provider::{AddressType::*, NodeAddress};
/// use provider_kit::addresses::{Addresses, AddressFamily};
///
/// let public = ["203.0.113.7", "2001:db8::1"].map(|ip| ip.parse().unwrap());
/// let list = Addresses::of("node-1").external(public, AddressFamily::Ipv4).internal(["10.0.0.2".parse().unwrap()]).build();
/// assert_eq!(list, [
///     NodeAddress::new(Hostname, "node-1"),
///     NodeAddress::new(ExternalIP, "203.0.113.7"),
///     NodeAddress::new(InternalIP, "10.0.0.2"),
/// ]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Addresses(Vec<NodeAddress>);

impl Addresses {
    /// Returns a list with the machine's name as `Hostname`, unless the name is empty.
    #[must_use]
    pub fn of(hostname: &str) -> Self {
        let name =
            (!hostname.is_empty()).then(|| NodeAddress::new(AddressType::Hostname, hostname));
        Self(name.into_iter().collect())
    }

    /// Adds public addresses of the given family.
    #[must_use]
    pub fn external(self, ips: impl IntoIterator<Item = IpAddr>, family: AddressFamily) -> Self {
        self.add(
            &AddressType::ExternalIP,
            ips.into_iter().filter(|ip| family.has(*ip)),
        )
    }

    /// Adds private addresses to the list.
    #[must_use]
    pub fn internal(self, ips: impl IntoIterator<Item = IpAddr>) -> Self {
        self.add(&AddressType::InternalIP, ips)
    }

    fn add(mut self, kind: &AddressType, ips: impl IntoIterator<Item = IpAddr>) -> Self {
        add_addresses(
            &mut self.0,
            ips.into_iter()
                .map(|ip| NodeAddress::new(kind.clone(), &ip.to_string())),
        );
        self
    }

    /// Returns the finished list of addresses.
    #[must_use]
    pub fn build(self) -> Vec<NodeAddress> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_addresses_of_the_family_are_public_ones() {
        let table = [
            (AddressFamily::Ipv4, vec!["203.0.113.7"]),
            (AddressFamily::Ipv6, vec!["2001:db8::1"]),
            (AddressFamily::Dualstack, vec!["2001:db8::1", "203.0.113.7"]),
        ];
        for (family, expected) in table {
            let list = Addresses::of("")
                .external(ips(&["2001:db8::1", "203.0.113.7"]), family)
                .build();
            assert_eq!(
                list.iter()
                    .map(|address| &*address.address)
                    .collect::<Vec<_>>(),
                expected,
                "{family:?}"
            );
        }
    }

    #[test]
    fn an_address_is_listed_once_in_its_type() {
        let twice = ips(&["10.0.0.2", "10.0.0.3", "10.0.0.2"]);
        let list = Addresses::of("n")
            .internal(twice.clone())
            .external(twice, AddressFamily::Ipv4)
            .build();
        let shown: Vec<_> = list
            .iter()
            .map(|address| format!("{} {}", address.kind.as_str(), address.address))
            .collect();
        assert_eq!(
            shown,
            [
                "Hostname n",
                "InternalIP 10.0.0.2",
                "InternalIP 10.0.0.3",
                "ExternalIP 10.0.0.2",
                "ExternalIP 10.0.0.3"
            ]
        );
    }
}
