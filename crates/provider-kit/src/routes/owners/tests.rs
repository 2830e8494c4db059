use cloud_provider::{Result, async_trait};

use super::*;
use crate::routes::Change;

fn node(name: &str, addresses: &[(AddressType, &str)], pod_cidrs: &[&str]) -> Arc<Node> {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|(kind, ip)| NodeAddress::new(kind.clone(), ip))
        .collect();
    Arc::new(Node {
        name: name.into(),
        addresses: addresses.into(),
        pod_cidrs: pod_cidrs.iter().map(|cidr| (*cidr).into()).collect(),
        ..Node::default()
    })
}

fn gateway(destination: &str, next_hop: &str) -> CloudRoute {
    CloudRoute {
        destination: destination.into(),
        next_hops: vec![next_hop.into()],
        ..CloudRoute::default()
    }
}

/// A cloud whose machines have provider IDs that begin with `sim://`.
struct Sim;

#[async_trait]
impl RouteCloud for Sim {
    async fn list(&self) -> Result<Vec<CloudRoute>> {
        Ok(Vec::new())
    }
    async fn change(&self, _: Change, _: &CloudRoute) -> Result<()> {
        Ok(())
    }
    fn machine_id<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        provider_id.strip_prefix("sim://")
    }
}

fn cluster(id: Option<&str>) -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: id.map(str::to_owned),
    }
}

/// Returns the target Node, whether the route is a black hole, and whether it is ours.
fn judged(nodes: &[Arc<Node>], range: &str, route: &CloudRoute) -> (String, bool, bool) {
    let view = ClusterView::new("test");
    view.set_pod_cidrs(&[range.to_owned()]);
    let route = Nodes::new(nodes, &Sim).route(&cluster(None), &view, route);
    (route.target_node, route.blackhole, route.owned.unwrap())
}

use AddressType::{ExternalIP, Hostname, InternalIP};

#[test]
fn a_route_leads_to_the_node_that_has_the_next_hop_among_its_addresses() {
    let nodes = [node(
        "a",
        &[
            (Hostname, "a"),
            (InternalIP, "10.0.0.1"),
            (ExternalIP, "192.0.2.1"),
        ],
        &[],
    )];
    for hop in ["10.0.0.1", "192.0.2.1"] {
        assert_eq!(
            judged(&nodes, "10.244.0.0/16", &gateway("10.244.1.0/24", hop)),
            ("a".into(), false, true)
        );
    }
    let nowhere = ("10.0.0.9".into(), true, true);
    assert_eq!(
        judged(
            &nodes,
            "10.244.0.0/16",
            &gateway("10.244.1.0/24", "10.0.0.9")
        ),
        nowhere
    );
}

#[test]
fn route_outside_the_pod_network_is_foreign_unless_it_is_the_nodes_own() {
    let nodes = [node("a", &[(InternalIP, "10.0.0.1")], &["10.9.1.0/24"])];
    assert!(!judged(&nodes, "10.244.0.0/16", &gateway("0.0.0.0/0", "10.0.0.1")).2);
    assert!(!judged(&nodes, "10.244.0.0/16", &gateway("10.9.2.0/24", "10.0.0.1")).2);
    assert!(judged(&nodes, "10.244.0.0/16", &gateway("10.9.1.0/24", "10.0.0.1")).2);
    assert!(
        !judged(&nodes, "10.244.0.0/16", &gateway("10.9.1.0/24", "10.0.0.2")).2,
        "the route leads to another Node"
    );
    assert!(!judged(&nodes, "", &gateway("10.244.1.0/24", "10.0.0.2")).2);
}

/// Regression: an address is given to the next server while the old server's Node still exists.
#[test]
fn route_to_a_shared_address_leads_to_the_node_with_its_range() {
    let old = node("a", &[(InternalIP, "10.0.0.1")], &["10.244.1.0/24"]);
    let new = node("b", &[(InternalIP, "10.0.0.1")], &["10.244.2.0/24"]);
    for nodes in [[Arc::clone(&old), Arc::clone(&new)], [new, old]] {
        for (range, name) in [("10.244.1.0/24", "a"), ("10.244.2.0/24", "b")] {
            let expected = (name.to_owned(), false, true);
            assert_eq!(
                judged(&nodes, "10.244.0.0/16", &gateway(range, "10.0.0.1")),
                expected
            );
        }
    }
}

#[test]
fn a_node_without_addresses_keeps_the_route_of_its_range() {
    let nodes = [node("a", &[(Hostname, "a")], &["10.244.1.0/24"])];
    let route = gateway("10.244.1.0/24", "10.0.0.1");
    assert_eq!(
        judged(&nodes, "10.244.0.0/16", &route),
        ("a".into(), false, true)
    );
    // With addresses, the Node is known to have another next hop.
    let nodes = [node("a", &[(InternalIP, "10.0.0.2")], &["10.244.1.0/24"])];
    assert_eq!(
        judged(&nodes, "10.244.0.0/16", &route),
        ("10.0.0.1".into(), true, true)
    );
}

#[test]
fn machine_is_matched_by_id_and_by_name_only_to_a_node_without_provider_id() {
    let with_id = |name: &str, id: &str| {
        Arc::new(Node {
            provider_id: id.into(),
            ..Node::clone(&node(name, &[], &[]))
        })
    };
    let nodes = [
        with_id("renamed", "sim://1"),
        with_id("joining", ""),
        with_id("taken", "sim://9"),
    ];
    let judge = |target: Target| {
        judged(
            &nodes,
            "",
            &CloudRoute {
                target,
                ..gateway("10.244.1.0/24", "10.0.0.1")
            },
        )
    };
    let machine = |id: &str, name: &str| Target::Machine {
        id: id.into(),
        name: name.into(),
    };
    let table = [
        (machine("1", "worker-1"), "renamed", false),
        (machine("2", "joining"), "joining", false),
        (machine("3", "taken"), "", false),
        (machine("4", "stranger"), "stranger", false),
        (machine("4", ""), "", false),
        (Target::Gone("1".into()), "renamed", true),
        (Target::Gone(String::new()), "", true),
    ];
    for (target, name, is_blackhole) in table {
        assert_eq!(
            judge(target.clone()),
            (name.to_owned(), is_blackhole, false),
            "{target:?}"
        );
    }
}

#[test]
fn owner_tag_decides_where_routes_have_tags() {
    let ours = Node {
        provider_id: "sim://1".into(),
        ..Node::clone(&node("a", &[], &["10.244.1.0/24"]))
    };
    let nodes = [Arc::new(ours)];
    let view = ClusterView::new("test");
    view.set_pod_cidrs(&["10.244.0.0/16".to_owned()]);
    let machine = |id: &str| Target::Machine {
        id: id.into(),
        name: String::new(),
    };
    let gone = || Target::Gone("7".into());
    // Columns: owner tag, ID of the cluster, target, destination, ours.
    let table = [
        ("", Some("id"), machine("1"), "10.244.1.0/24", false),
        ("id", Some("id"), machine("7"), "10.99.0.0/24", true),
        ("other", Some("id"), machine("1"), "10.244.1.0/24", false),
        // Tagged before the ID could be read.
        (
            "kubernetes",
            Some("id"),
            machine("1"),
            "10.244.9.0/24",
            true,
        ),
        (
            "kubernetes",
            Some("id"),
            machine("7"),
            "10.244.9.0/24",
            false,
        ),
        ("kubernetes", Some("id"), gone(), "10.244.9.0/24", true),
        // Tagged when the ID could be read.
        ("kubernetes", None, machine("7"), "10.244.9.0/24", true),
        ("id", None, machine("1"), "10.244.1.0/24", true),
        ("id", None, machine("1"), "10.244.9.0/24", false),
        ("id", None, gone(), "10.244.1.0/24", false),
    ];
    for (tag, id, target, destination, expected) in table {
        let route = CloudRoute {
            target,
            owner: Some(tag.into()),
            ..gateway(destination, "10.0.0.1")
        };
        assert_eq!(
            Nodes::new(&nodes, &Sim).owns(&cluster(id), &view, &route),
            expected,
            "{id:?} {route:?}"
        );
    }
}
