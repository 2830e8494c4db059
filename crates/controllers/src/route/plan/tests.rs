use cloud_provider::names::TAINT_UNINITIALIZED;
use cloud_provider::{AddressType, NetworkCondition, NodeAddress, Taint};
use proptest::prelude::*;

use super::*;

const RANGES: [&str; 2] = ["10.244.0.0/16", "fd00::/48"];
/// Pod CIDRs, the last of which are outside the cluster's.
const PODS: [&str; 6] = [
    "10.244.1.0/24",
    "10.244.2.0/24",
    "fd00:0:0:1::/64",
    "fd00:0:0:2::/64",
    "172.16.0.0/24",
    "2001:db8::/64",
];

fn ranges() -> Vec<IpNet> {
    RANGES.iter().map(|range| range.parse().unwrap()).collect()
}

fn internal(ip: &str) -> NodeAddress {
    NodeAddress::new(AddressType::InternalIP, ip)
}

fn node(name: &str, cidrs: &[&str], ip: &str) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        pod_cidrs: cidrs.iter().map(|cidr| (*cidr).into()).collect(),
        addresses: [internal(ip), NodeAddress::new(AddressType::Hostname, name)].into(),
        ..Node::default()
    })
}

fn route(name: &str, target: &str, cidr: &str, hop: &str) -> Route {
    Route {
        name: name.into(),
        target_node: target.into(),
        destination_cidr: cidr.into(),
        enable_node_addresses: true,
        target_node_addresses: vec![internal(hop)],
        owned: Some(true),
        ..Route::default()
    }
}

/// Formats a plan: `-NAME` for each deletion, `+NODE CIDR` for each creation.
fn words(plan: &Plan) -> Vec<String> {
    let deletes = plan
        .deletes
        .iter()
        .map(|deletion| format!("-{}", deletion.route.name));
    let creates = plan
        .creates
        .iter()
        .map(|c| format!("+{} {}", c.node.name, c.route.destination_cidr));
    deletes.chain(creates).collect()
}

fn all_allowed(_: &Node, _: &Destination) -> NewRoute {
    NewRoute::Allowed
}

#[test]
fn routes_of_others_are_used_but_never_touched() {
    let nodes = [node("a", &[PODS[0]], "10.0.0.1")];
    let foreign = |target: &str, hop: &str| Route {
        owned: Some(false),
        ..route("f", target, PODS[0], hop)
    };
    for (routes, expected) in [
        (vec![foreign("a", "10.0.0.1")], vec![]),
        (vec![foreign("a", "10.0.0.9")], vec!["+a 10.244.1.0/24"]),
        (
            vec![
                foreign("", "10.0.0.9"),
                Route {
                    blackhole: true,
                    ..foreign("a", "10.0.0.1")
                },
            ],
            vec!["+a 10.244.1.0/24"],
        ),
        (
            vec![
                foreign("a", "10.0.0.9"),
                route("r", "a", PODS[0], "10.0.0.1"),
            ],
            vec![],
        ),
        (
            vec![
                foreign("a", "10.0.0.1"),
                route("r", "a", PODS[0], "10.0.0.9"),
            ],
            vec!["-r", "+a 10.244.1.0/24"],
        ),
    ] {
        assert_eq!(
            words(&plan(&nodes, &routes, &ranges(), all_allowed)),
            expected,
            "{routes:?}"
        );
    }
}

#[test]
fn a_changed_next_hop_is_replaced_even_outside_the_ranges_if_the_route_is_ours() {
    let nodes = [node("a", &[PODS[0], PODS[4]], "10.0.0.1")];
    let routes = [
        route("r", "a", PODS[0], "10.0.0.9"),
        route("s", "a", PODS[4], "10.0.0.9"),
    ];
    let made = plan(&nodes, &routes, &ranges(), all_allowed);
    assert_eq!(
        words(&made),
        ["-r", "-s", "+a 10.244.1.0/24", "+a 172.16.0.0/24"]
    );
    assert!(
        made.deletes
            .iter()
            .all(|deletion| deletion.cause == DeletionCause::NextHopChanged)
    );
    assert!(
        !made.creates_wait,
        "each create waits for the delete of its own destination"
    );
    let gone = plan(&[], &routes, &ranges(), all_allowed);
    assert_eq!(
        words(&gone),
        ["-r", "-s"],
        "a route of this cluster goes with its Node, outside the ranges, too (P-32)"
    );
    assert_eq!(gone.deletes[0].cause, DeletionCause::NotAssigned);
    let unknown = routes.map(|route| Route {
        owned: None,
        ..route
    });
    assert_eq!(
        words(&plan(&[], &unknown, &ranges(), all_allowed)),
        ["-r"],
        "the owner of the other one is unknown"
    );
}

#[test]
fn refused_pod_cidr_gets_no_route_and_its_node_no_network() {
    let nodes = [node("a", &[PODS[0], PODS[4]], "10.0.0.1")];
    let new_route =
        |_: &Node, destination: &Destination| match *destination == Destination::new(PODS[4]) {
            true => NewRoute::Refused,
            false => NewRoute::Allowed,
        };
    let made = plan(&nodes, &[], &ranges(), new_route);
    assert_eq!(words(&made), ["+a 10.244.1.0/24"]);
    assert_eq!(made.conditions(&nodes)[0].1, RouteCondition::NotCreated);
    let existing = [route("s", "a", PODS[4], "10.0.0.1")];
    assert_eq!(
        words(&plan(&nodes, &existing, &ranges(), new_route)),
        ["+a 10.244.1.0/24"],
        "an existing route stays"
    );
}

#[test]
fn a_node_that_waits_gets_no_route_and_no_condition_and_keeps_what_may_be_its_own() {
    let nodes = [node("a", &[PODS[0]], "10.0.0.1")];
    let of = |routes: &[Route]| plan(&nodes, routes, &ranges(), |_, _| NewRoute::Deferred);
    let empty = of(&[]);
    assert_eq!(words(&empty), Vec::<String>::new());
    assert_eq!(empty.records["a"].condition(), None);
    assert_eq!(
        words(&of(&[route("r", "", PODS[0], "10.0.0.9")])),
        Vec::<String>::new()
    );
    assert_eq!(
        words(&of(&[route("r", "a", PODS[0], "10.0.0.9")])),
        Vec::<String>::new()
    );
    assert_eq!(
        words(&of(&[Route {
            blackhole: true,
            ..route("r", "", PODS[0], "10.0.0.9")
        }])),
        ["-r"]
    );
    assert_eq!(
        words(&of(&[route("r", "", PODS[1], "10.0.0.9")])),
        ["-r"],
        "not its range"
    );
    let kept = of(&[route("r", "a", PODS[0], "10.0.0.1")]);
    assert_eq!(
        (words(&kept), kept.records["a"].condition()),
        (vec![], Some(RouteCondition::Created))
    );
}

#[test]
fn uninitialized_or_foreign_node_waits_for_its_routes() {
    struct Acme;
    impl CloudProvider for Acme {
        fn name(&self) -> &'static str {
            "acme"
        }
    }
    let with = |provider_id: &str, tainted: bool| Node {
        addresses: [internal("10.0.0.1")].into(),
        provider_id: provider_id.into(),
        taints: tainted
            .then(|| Taint::new(TAINT_UNINITIALIZED, "NoSchedule"))
            .into_iter()
            .collect(),
        ..Node::default()
    };
    for (provider_id, tainted, expected) in [
        ("", true, true),
        ("", false, false),
        ("acme://1", true, false),
        ("acme://1", false, false),
        ("other://1", false, true),
    ] {
        assert_eq!(
            waits(&Acme, &with(provider_id, tainted)),
            expected,
            "{provider_id} {tainted}"
        );
        let without_address = Node {
            addresses: [].into(),
            ..with(provider_id, tainted)
        };
        assert!(waits(&Acme, &without_address), "{provider_id} {tainted}");
    }
}

#[test]
fn a_range_listed_twice_is_one_route() {
    let nodes = [node(
        "a",
        &["fd00:0:0:1::/64", "fd00::1:0:0:0:0/64", PODS[0], PODS[0]],
        "10.0.0.1",
    )];
    let made = plan(&nodes, &[], &ranges(), all_allowed);
    assert_eq!(words(&made), ["+a fd00:0:0:1::/64", "+a 10.244.1.0/24"]);
}

#[test]
fn conditions_are_foretold() {
    let shown = |condition: RouteCondition| NetworkCondition {
        status: condition.status(),
        reason: condition.reason().into(),
    };
    let unchanged = Node {
        network_unavailable: Some(shown(RouteCondition::Created)),
        ..(*node("b", &[PODS[1]], "10.0.0.2")).clone()
    };
    let nodes = [
        node("a", &[PODS[0]], "10.0.0.1"),
        Arc::new(unchanged),
        node("c", &[], "10.0.0.3"),
    ];
    let routes = [route("r", "c", PODS[2], "10.0.0.3")];
    let made = plan(&nodes, &routes, &ranges(), all_allowed);
    let foretold: Vec<_> = made
        .conditions(&nodes)
        .into_iter()
        .map(|(node, v)| (node.name.to_string(), v))
        .collect();
    assert_eq!(
        foretold,
        [
            ("a".into(), RouteCondition::Created),
            ("c".into(), RouteCondition::NotCreated)
        ]
    );
    assert!(!made.is_empty());
}

/// Applies a plan like a cloud does.
fn apply(plan: &Plan, routes: &mut Vec<Route>, owned: Option<bool>) {
    for deletion in &plan.deletes {
        routes.retain(|route| *route != deletion.route);
    }
    for (n, creation) in plan.creates.iter().enumerate() {
        let mut addresses = creation.route.target_node_addresses.clone();
        if owned.is_some() {
            addresses.retain(|address| address.kind == AddressType::InternalIP);
        }
        routes.push(Route {
            name: format!("new-{n}"),
            enable_node_addresses: true,
            target_node_addresses: addresses,
            owned,
            ..creation.route.clone()
        });
    }
}

prop_compose! {
    fn some_node(index: usize)(cidrs in prop::sample::subsequence(PODS.to_vec(), 0..3), ip in 0..2_u8) -> Arc<Node> {
        node(&format!("node-{index}"), &cidrs, &format!("10.0.{index}.{ip}"))
    }
}

prop_compose! {
    fn some_route(owned: Vec<Option<bool>>, pods: usize)(
        number in 0..10_000_u32,
        target in prop::sample::select(vec!["", "gone", "node-0", "node-1", "node-2"]),
        cidr in prop::sample::select(PODS[..pods].to_vec()),
        hop in (0..3_u8, 0..2_u8),
        blackhole in prop::bool::weighted(0.2),
        owned in prop::sample::select(owned),
    ) -> Route {
        let name = format!("r-{number}");
        Route { blackhole, owned, ..route(&name, target, cidr, &format!("10.0.{}.{}", hop.0, hop.1)) }
    }
}

fn some_nodes() -> impl Strategy<Value = Vec<Arc<Node>>> {
    (some_node(0), some_node(1), some_node(2), 0..4_usize)
        .prop_map(|(a, b, c, n)| vec![a, b, c][..n.min(3)].to_vec())
}

proptest! {
    /// INV-7, and: what was done need not be done again.
    #[test]
    fn applying_a_plan_leaves_nothing_to_do_and_routes_of_others_alone(
        nodes in some_nodes(),
        mut routes in prop::collection::vec(some_route(vec![Some(true), Some(false)], 6), 0..10),
        waiting in 0..8_u8,
    ) {
        let waits = |node: &Node| ["node-0", "node-1", "node-2"].iter().enumerate().any(|(n, name)| *node.name == **name && waiting & (1 << n) != 0);
        let foreign = |routes: &[Route]| -> Vec<Route> { routes.iter().filter(|r| r.owned == Some(false)).cloned().collect() };
        let before = foreign(&routes);
        let first = plan(&nodes, &routes, &ranges(), |node, _| if waits(node) { NewRoute::Deferred } else { NewRoute::Allowed });
        prop_assert!(first.deletes.iter().all(|deletion| deletion.route.owned == Some(true)));
        apply(&first, &mut routes, Some(true));
        prop_assert_eq!(foreign(&routes), before);
        let second = plan(&nodes, &routes, &ranges(), |node, _| if waits(node) { NewRoute::Deferred } else { NewRoute::Allowed });
        prop_assert!(second.is_empty(), "{:?}", words(&second));
        for node in &nodes {
            let condition = second.records.get(&node.name).and_then(Record::condition);
            if !node.pod_cidrs.is_empty() && !waits(node) {
                prop_assert_eq!(condition, Some(RouteCondition::Created));
            }
        }
    }

    #[test]
    fn cluster_cidrs_decide_where_ownership_is_unknown(
        nodes in some_nodes(),
        mut routes in prop::collection::vec(some_route(vec![None], 4), 0..10),
        others in prop::collection::vec(some_route(vec![None], 6), 0..6),
    ) {
        let outside = |cidr: &str| PODS[4..].contains(&cidr);
        let nodes: Vec<_> = nodes.into_iter().filter(|node| !node.pod_cidrs.iter().any(|cidr| outside(cidr))).collect();
        routes.extend(others.into_iter().filter(|route| outside(&route.destination_cidr)));
        let first = plan(&nodes, &routes, &ranges(), all_allowed);
        prop_assert!(first.deletes.iter().all(|deletion| !outside(&deletion.route.destination_cidr)));
        apply(&first, &mut routes, None);
        let second = plan(&nodes, &routes, &ranges(), all_allowed);
        prop_assert!(second.is_empty(), "{:?}", words(&second));
    }
}
