//! Addresses that no Service may request: those that are special in every network, and those that the cluster uses itself.
//!
//! An address in the status of a Service draws the traffic of the whole cluster for it to the Service's Pods, so that the
//! author of a Service must not choose an address of a Node, of a Pod or of another Service.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Node, Service};
use ipnet::IpNet;

/// Returns the kind of an address that no host can have as its own, such as `a loopback address`.
///
/// ```
/// use provider_kit::reserved_addresses::special;
///
/// assert_eq!(special([127, 0, 0, 1].into()), Some("a loopback address"));
/// assert_eq!(special([192, 0, 2, 1].into()), None);
/// ```
#[must_use]
pub fn special(ip: IpAddr) -> Option<&'static str> {
    let ip = ip.to_canonical();
    let (is_of_this_network, is_reserved, is_link_local) = match ip {
        IpAddr::V4(ip) => (
            ip.octets()[0] == 0,
            ip.octets()[0] >= 240,
            ip.is_link_local(),
        ),
        IpAddr::V6(ip) => (ip.is_unspecified(), false, ip.is_unicast_link_local()),
    };
    match () {
        () if is_of_this_network => Some("an address of no host"),
        () if ip.is_loopback() => Some("a loopback address"),
        () if is_link_local => Some("a link-local address"),
        () if ip.is_multicast() => Some("a multicast address"),
        () if is_reserved => Some("a reserved address"),
        () => None,
    }
}

/// Returns the Node that has an address, or whose Pods can have it, for texts: `Node worker-1`.
#[must_use]
pub fn node_of(ip: IpAddr, nodes: &[Arc<Node>]) -> Option<String> {
    let ip = ip.to_canonical();
    let is_its_node = |node: &&Arc<Node>| {
        node.addresses
            .iter()
            .any(|address| address.address.parse() == Ok(ip))
            || node
                .pod_cidrs
                .iter()
                .filter_map(|pod_cidr| pod_cidr.parse::<IpNet>().ok())
                .any(|range| range.contains(&ip))
    };
    nodes
        .iter()
        .find(is_its_node)
        .map(|node| format!("Node {}", node.name))
}

/// Returns the Service that has a cluster IP, for texts: `Service shop/web`.
#[must_use]
pub fn service_of_cluster_ip(ip: IpAddr, services: &[Arc<Service>]) -> Option<String> {
    let ip = ip.to_canonical();
    services
        .iter()
        .find(|service| cluster_ips(service).any(|address| address == ip))
        .map(|service| {
            let [namespace, name] = [&service.metadata.namespace, &service.metadata.name]
                .map(|entry| entry.as_deref().unwrap_or_default());
            format!("Service {namespace}/{name}")
        })
}

/// Returns the cluster IPs of a Service; none of a headless one.
pub fn cluster_ips(service: &Service) -> impl Iterator<Item = IpAddr> + '_ {
    let spec = service.spec.iter();
    let all = spec.flat_map(|spec| {
        spec.cluster_ips
            .iter()
            .flatten()
            .chain(spec.cluster_ip.as_ref())
    });
    all.filter_map(|entry| entry.parse().ok())
}

#[cfg(test)]
mod tests {
    use cloud_provider::{AddressType, NodeAddress};
    use serde_json::json;

    use super::*;

    #[test]
    fn special_addresses_of_both_families_are_known() {
        let table = [
            ("0.0.0.0", Some("an address of no host")),
            ("0.1.2.3", Some("an address of no host")),
            ("127.0.0.1", Some("a loopback address")),
            ("169.254.169.254", Some("a link-local address")),
            ("224.0.0.18", Some("a multicast address")),
            ("255.255.255.255", Some("a reserved address")),
            ("::", Some("an address of no host")),
            ("::1", Some("a loopback address")),
            ("fe80::1", Some("a link-local address")),
            ("ff02::12", Some("a multicast address")),
            ("::ffff:127.0.0.1", Some("a loopback address")),
            ("10.0.0.1", None),
            ("192.0.2.1", None),
            ("2001:db8::1", None),
        ];
        for (ip, expected) in table {
            assert_eq!(special(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[test]
    fn address_of_a_node_its_pods_and_a_cluster_ip_has_a_user() {
        let node = Node {
            name: "worker-1".into(),
            addresses: [
                NodeAddress::new(AddressType::Hostname, "worker-1"),
                NodeAddress::new(AddressType::ExternalIP, "198.51.100.7"),
            ]
            .into(),
            pod_cidrs: ["10.244.1.0/24".into()].into(),
            ..Node::default()
        };
        let service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"clusterIP": "10.96.0.1"}});
        let nodes = [Arc::new(node)];
        let services = [Arc::new(serde_json::from_value(service).unwrap())];
        let user = |ip: &str| {
            let ip = ip.parse().unwrap();
            node_of(ip, &nodes).or_else(|| service_of_cluster_ip(ip, &services))
        };
        assert_eq!(user("198.51.100.7").as_deref(), Some("Node worker-1"));
        assert_eq!(user("10.244.1.9").as_deref(), Some("Node worker-1"));
        assert_eq!(user("10.96.0.1").as_deref(), Some("Service shop/web"));
        assert_eq!(user("198.51.100.8"), None);
    }
}
