use super::*;

fn node(name: &str, addresses: &[(AddressType, &str)], pod_cidrs: &[&str]) -> Arc<Node> {
    let addresses: Vec<_> = addresses.iter().map(|(kind, ip)| NodeAddress::new(kind.clone(), ip)).collect();
    Arc::new(Node {
        name: name.into(),
        addresses: addresses.into(),
        pod_cidrs: pod_cidrs.iter().map(|cidr| (*cidr).into()).collect(),
        ..Node::default()
    })
}

fn gateway(destination: &str, nexthop: &str) -> Gateway {
    Gateway { destination: destination.to_owned(), nexthop: nexthop.to_owned() }
}

/// A route as `target`, whether it leads nowhere, and whether it is ours.
fn judged(nodes: &[Arc<Node>], range: &str, route: &Gateway) -> (String, bool, bool) {
    let cluster = ClusterView::new(crate::EVENT_SOURCE);
    cluster.learn_ranges(&[range.to_owned()]);
    let route = Targets::new(nodes, &cluster).route(route);
    (route.target_node, route.blackhole, route.owned.unwrap())
}

use AddressType::{ExternalIP, Hostname, InternalIP};

#[test]
fn a_route_leads_to_the_node_that_has_the_next_hop_among_its_addresses() {
    let nodes = [node("a", &[(Hostname, "a"), (InternalIP, "10.0.0.1"), (ExternalIP, "192.0.2.1")], &[])];
    for hop in ["10.0.0.1", "192.0.2.1"] {
        assert_eq!(judged(&nodes, "10.244.0.0/16", &gateway("10.244.1.0/24", hop)), ("a".into(), false, true));
    }
    let nowhere = ("10.0.0.9".into(), true, true);
    assert_eq!(judged(&nodes, "10.244.0.0/16", &gateway("10.244.1.0/24", "10.0.0.9")), nowhere);
}

#[test]
fn a_route_outside_the_pod_network_is_somebody_elses_unless_it_is_its_nodes_own_range() {
    let nodes = [node("a", &[(InternalIP, "10.0.0.1")], &["10.9.1.0/24"])];
    assert!(!judged(&nodes, "10.244.0.0/16", &gateway("0.0.0.0/0", "10.0.0.1")).2);
    assert!(!judged(&nodes, "10.244.0.0/16", &gateway("10.9.2.0/24", "10.0.0.1")).2);
    assert!(judged(&nodes, "10.244.0.0/16", &gateway("10.9.1.0/24", "10.0.0.1")).2);
    assert!(!judged(&nodes, "10.244.0.0/16", &gateway("10.9.1.0/24", "10.0.0.2")).2, "it leads to somebody else");
    assert!(!judged(&nodes, "", &gateway("10.244.1.0/24", "10.0.0.2")).2);
}

/// An address is given to the next server while the Node of the one before is still there.
#[test]
fn of_two_nodes_with_an_address_the_route_leads_to_the_one_whose_range_it_is_for() {
    let old = node("a", &[(InternalIP, "10.0.0.1")], &["10.244.1.0/24"]);
    let new = node("b", &[(InternalIP, "10.0.0.1")], &["10.244.2.0/24"]);
    for nodes in [[Arc::clone(&old), Arc::clone(&new)], [new, old]] {
        for (range, name) in [("10.244.1.0/24", "a"), ("10.244.2.0/24", "b")] {
            let expected = (name.to_owned(), false, true);
            assert_eq!(judged(&nodes, "10.244.0.0/16", &gateway(range, "10.0.0.1")), expected);
        }
    }
}

#[test]
fn a_node_without_addresses_keeps_the_route_of_its_range() {
    let nodes = [node("a", &[(Hostname, "a")], &["10.244.1.0/24"])];
    let route = gateway("10.244.1.0/24", "10.0.0.1");
    assert_eq!(judged(&nodes, "10.244.0.0/16", &route), ("a".into(), false, true));
    // With addresses its next hop is told to be another one.
    let nodes = [node("a", &[(InternalIP, "10.0.0.2")], &["10.244.1.0/24"])];
    assert_eq!(judged(&nodes, "10.244.0.0/16", &route), ("10.0.0.1".into(), true, true));
}

/// §8.60.
#[test]
fn the_next_hop_is_the_first_internal_address_of_the_ranges_family() {
    let addresses =
        [(ExternalIP, "192.0.2.1"), (InternalIP, "fd00::1"), (InternalIP, "10.0.0.1"), (InternalIP, "10.0.0.2")];
    let node = node("a", &addresses, &[]);
    let hop = |range: &str| next_hop(&node.addresses, range.parse().unwrap()).map(|ip| ip.to_string());
    assert_eq!(hop("10.244.1.0/24").as_deref(), Some("10.0.0.1"));
    assert_eq!(hop("fd00:244::/64").as_deref(), Some("fd00::1"));
    assert_eq!(next_hop(&node.addresses[..1], "10.244.1.0/24".parse().unwrap()), None);
}
