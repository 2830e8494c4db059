//! Judgement of the expectations about routes.

use std::collections::HashMap;

use cloud_provider::{AddressType, ConditionStatus, Node};
use provider_simulated::cloud::CloudRoute;

use super::super::changes::leads_to;
use super::super::observed::Observed;
use super::ExpectationVerdict;

/// Returns the machine's ID, the part of a provider ID that the cloud knows.
pub(super) fn machine_id(node: &Node) -> Option<&str> {
    node.provider_id()?.rsplit('/').next()
}

/// Judges whether the cloud has exactly the routes of the Nodes with a provider ID, and whether the Nodes' conditions
/// report them.
pub(super) fn routed(now: &Observed, nodes: usize) -> ExpectationVerdict {
    let mut routes: HashMap<&str, &CloudRoute> = HashMap::with_capacity(now.cloud.routes.len());
    for route in &now.cloud.routes {
        if routes.insert(&route.route.destination, route).is_some() {
            return ExpectationVerdict::Broken(format!(
                "two routes to {}",
                route.route.destination
            ));
        }
    }
    let mut done = 0;
    let mut wanted = 0;
    let mut other = None;
    for node in now.nodes.iter().filter(|node| node.provider_id().is_some()) {
        wanted += node.pod_cidrs.len().max(1);
        match problem(node, &routes) {
            None => done += 1,
            Some(problem) => _ = other.get_or_insert(problem),
        }
    }
    if other.is_none() && routes.len() > wanted {
        let is_of_a_node = |range: &str| {
            now.nodes
                .iter()
                .any(|node| node.pod_cidrs.iter().any(|own_range| &**own_range == range))
        };
        other = routes
            .iter()
            .find(|(range, _)| !is_of_a_node(range))
            .map(|(_, route)| format!("{} is left", describe(route)));
    }
    if done == nodes && other.is_none() {
        return ExpectationVerdict::Happened(Vec::new());
    }
    let other = other.map(|other| format!("; {other}")).unwrap_or_default();
    ExpectationVerdict::Waiting {
        done,
        of: nodes,
        seen: format!(
            "{done} of {nodes} Nodes are so, {} routes{other}",
            routes.len()
        ),
    }
}

fn describe(route: &CloudRoute) -> String {
    format!("route {} {}", route.route.destination, leads_to(route))
}

/// Returns the problem of a Node's routes, if there is one.
fn problem(node: &Node, routes: &HashMap<&str, &CloudRoute>) -> Option<String> {
    let name = &node.name;
    if node.pod_cidrs.is_empty() {
        return Some(format!("Node {name} has no Pod range"));
    }
    let address = |hop: &String| {
        node.addresses.iter().any(|own_address| {
            own_address.kind == AddressType::InternalIP && *own_address.address == **hop
        })
    };
    for range in &node.pod_cidrs {
        let Some(route) = routes.get(&**range) else {
            return Some(format!("no route {range} of Node {name}"));
        };
        let leads_there = !route.blackhole
            && machine_id(node) == Some(&*route.route.machine)
            && !route.route.next_hop.is_empty()
            && route.route.next_hop.iter().all(address);
        if !leads_there {
            return Some(format!("Node {name} has {}", describe(route)));
        }
    }
    match &node.network_unavailable {
        Some(condition)
            if condition.status == ConditionStatus::False
                && &*condition.reason == "RouteCreated" =>
        {
            None
        }
        Some(condition) => Some(format!(
            "Node {name} says NetworkUnavailable={:?}/{}",
            condition.status, condition.reason
        )),
        None => Some(format!("Node {name} does not say NetworkUnavailable")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::demo::observed::CloudState;
    use cloud_provider::{NetworkCondition, NodeAddress};

    fn node(number: usize) -> Node {
        Node {
            name: format!("n{number}").into(),
            provider_id: format!("simulated://m-{number}").into(),
            pod_cidrs: [format!("10.128.{number}.0/24").into()].into(),
            addresses: [NodeAddress::new(
                AddressType::InternalIP,
                &format!("10.0.0.{number}"),
            )]
            .into(),
            network_unavailable: Some(NetworkCondition {
                status: ConditionStatus::False,
                reason: "RouteCreated".into(),
            }),
            ..Node::default()
        }
    }

    fn route(number: usize) -> CloudRoute {
        let route = serde_json::json!({
            "id": format!("r-{number}"),
            "machine_name": format!("n{number}"),
            "blackhole": false,
            "protected": false,
            "destination": format!("10.128.{number}.0/24"),
            "machine": format!("m-{number}"),
            "next_hop": [format!("10.0.0.{number}")],
        });
        serde_json::from_value(route).unwrap()
    }

    fn seen(nodes: Vec<Node>, routes: Vec<CloudRoute>) -> Observed {
        let cloud = Arc::new(CloudState {
            balancers: Vec::new(),
            routes,
        });
        Observed {
            nodes: nodes.into_iter().map(Arc::new).collect(),
            cloud,
            ..Observed::default()
        }
    }

    fn waits_for(verdict: ExpectationVerdict) -> String {
        match verdict {
            ExpectationVerdict::Waiting { seen, .. } => seen,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_node_has_the_route_of_its_pod_range_and_says_so() {
        let now = seen(vec![node(1), node(2)], vec![route(1), route(2)]);
        assert_eq!(routed(&now, 2), ExpectationVerdict::Happened(vec![]));
    }

    #[test]
    fn missing_leftover_and_misdirected_routes_are_named() {
        let one = |spoil: fn(&mut Node), routes| {
            let mut node = node(1);
            spoil(&mut node);
            waits_for(routed(&seen(vec![node], routes), 1))
        };
        assert_eq!(
            one(|_| {}, vec![]),
            "0 of 1 Nodes are so, 0 routes; no route 10.128.1.0/24 of Node n1"
        );
        let left = one(|_| {}, vec![route(1), route(7)]);
        assert_eq!(
            left,
            "1 of 1 Nodes are so, 2 routes; route 10.128.7.0/24 to n7 (10.0.0.7) is left"
        );
        assert!(
            one(|node| node.pod_cidrs = [].into(), vec![]).ends_with("Node n1 has no Pod range")
        );
        assert!(
            one(|node| node.network_unavailable = None, vec![route(1)])
                .ends_with("does not say NetworkUnavailable")
        );
        let moved = one(|node| node.addresses = [].into(), vec![route(1)]);
        assert!(
            moved.ends_with("Node n1 has route 10.128.1.0/24 to n1 (10.0.0.1)"),
            "{moved}"
        );
        let gone = one(
            |_| {},
            vec![CloudRoute {
                blackhole: true,
                ..route(1)
            }],
        );
        assert!(gone.contains("to a machine that is gone"), "{gone}");
    }

    #[test]
    fn a_node_that_the_cloud_does_not_know_yet_needs_no_route() {
        let new = Node {
            provider_id: "".into(),
            network_unavailable: None,
            ..node(3)
        };
        assert!(matches!(
            routed(&seen(vec![node(1), new], vec![route(1)]), 1),
            ExpectationVerdict::Happened(_)
        ));
    }

    #[test]
    fn two_routes_to_one_range_never_heal() {
        let now = seen(
            vec![node(1)],
            vec![
                route(1),
                CloudRoute {
                    id: "r-9".to_owned(),
                    ..route(1)
                },
            ],
        );
        assert_eq!(
            routed(&now, 1),
            ExpectationVerdict::Broken("two routes to 10.128.1.0/24".to_owned())
        );
    }
}
