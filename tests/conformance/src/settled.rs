//! Convergence check: compares Nodes, Services, load balancers and routes with the objects' specs, for every proof that
//! waits for convergence.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::names::{
    FINALIZER_LOAD_BALANCER, LABEL_EXCLUDE_BALANCER, TAINT_SHUTDOWN, TAINT_UNINITIALIZED,
};
use serde_json::Value;

use crate::harness::Harness;
use crate::profile::{LoadBalancerFacts, Machine};

/// Returns the outstanding work in words; empty if everything has settled.
#[must_use]
pub fn unsettled(harness: &Harness) -> Vec<String> {
    let nodes = harness.api.list("nodes");
    let mut found = Vec::new();
    nodes_unsettled(&nodes, &harness.cloud.machines(), &mut found);
    services_unsettled(harness, &nodes, &mut found);
    found.extend(harness.cloud.leftovers());
    if harness.has_routes() {
        routes_unsettled(harness, &nodes, &mut found);
    }
    found
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn name_of(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// Returns `true` if a Node has a condition with this status.
pub(crate) fn has_condition(node: &Value, kind: &str, status: &str) -> bool {
    list(&node["status"]["conditions"])
        .any(|condition| condition["type"] == kind && condition["status"] == status)
}

fn has_taint(node: &Value, key: &str) -> bool {
    list(&node["spec"]["taints"]).any(|taint| taint["key"] == key)
}

fn nodes_unsettled(nodes: &[Value], machines: &[Machine], found: &mut Vec<String>) {
    for node in nodes {
        let name = name_of(node);
        let id = text(&node["spec"]["providerID"]);
        let is_ready = has_condition(node, "Ready", "True");
        let machine = machines.iter().find(|machine| {
            if id.is_empty() {
                machine.name == name
            } else {
                machine.provider_id == id
            }
        });
        match machine {
            None if !is_ready => found.push(format!("Node {name} is there, its machine is not")),
            None => {}
            Some(machine) => {
                if id.is_empty() || has_taint(node, TAINT_UNINITIALIZED) {
                    found.push(format!("Node {name} is not initialised"));
                } else if list(&node["status"]["addresses"]).count() < 2 {
                    found.push(format!("Node {name} lacks addresses"));
                }
                let wanted = machine.is_stopped && !is_ready;
                if has_taint(node, TAINT_SHUTDOWN) != wanted {
                    let lacks = if wanted { "lacks the" } else { "has a" };
                    found.push(format!("Node {name} {lacks} shutdown taint"));
                }
            }
        }
    }
}

/// Returns the provider IDs of the Nodes that receive traffic (SVC-60, SVC-61).
fn targets(nodes: &[Value]) -> BTreeSet<String> {
    let is_included = |node: &&Value| {
        let excluded = text(&node["metadata"]["labels"][LABEL_EXCLUDE_BALANCER]);
        node["metadata"]["labels"][LABEL_EXCLUDE_BALANCER].is_null() || excluded == "false"
    };
    let alive = nodes
        .iter()
        .filter(|node| node["metadata"]["deletionTimestamp"].is_null())
        .filter(is_included);
    alive
        .map(|node| text(&node["spec"]["providerID"]).to_owned())
        .filter(|id| !id.is_empty())
        .collect()
}

/// Returns the provider IDs of machines that may be missing among the targets.
fn optional_targets(harness: &Harness) -> BTreeSet<String> {
    let machines = if harness.cloud.refuses_stopped_targets() {
        harness.cloud.machines()
    } else {
        Vec::new()
    };
    machines
        .into_iter()
        .filter(|machine| machine.is_stopped)
        .map(|machine| machine.provider_id)
        .collect()
}

fn wants_balancer(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "LoadBalancer"
        && spec["loadBalancerClass"].is_null()
        && service["metadata"]["deletionTimestamp"].is_null()
}

/// Returns `true` if the Service has a class: all controllers of load balancers share one finalizer, which may then
/// belong to another one.
fn is_another_controllers(service: &Value) -> bool {
    !service["spec"]["loadBalancerClass"].is_null()
}

fn services_unsettled(harness: &Harness, nodes: &[Value], found: &mut Vec<String>) {
    let mut marked: BTreeMap<String, Vec<LoadBalancerFacts>> = BTreeMap::new();
    for balancer in harness.cloud.load_balancers() {
        if let Some(uid) = balancer.service_uid.clone() {
            marked.entry(uid).or_default().push(balancer);
        }
    }
    let targets = targets(nodes);
    let optional = optional_targets(harness);
    for service in harness.api.list("services") {
        let name = name_of(&service);
        let balancers = marked
            .remove(text(&service["metadata"]["uid"]))
            .unwrap_or_default();
        let has_finalizer = list(&service["metadata"]["finalizers"])
            .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER);
        let ingress = &service["status"]["loadBalancer"]["ingress"][0];
        let address = text(if ingress["ip"].is_null() {
            &ingress["hostname"]
        } else {
            &ingress["ip"]
        });
        if !service["metadata"]["deletionTimestamp"].is_null() {
            found.push(format!("Service {name} is still being deleted"));
        } else if harness.is_hopeless(name) && wants_balancer(&service) {
            if !(balancers.is_empty() && has_finalizer && address.is_empty()) {
                found.push(format!("Service {name}, which cannot have a load balancer, is not waiting: {balancers:?}"));
            }
        } else if wants_balancer(&service) {
            let problem = match balancers.as_slice() {
                [] => Some("no load balancer".to_owned()),
                [_, _, ..] => Some(format!("{} load balancers", balancers.len())),
                [balancer] => {
                    balancer_unsettled(&service, balancer, (&targets, &optional), address)
                }
            };
            let problem = problem.or_else(|| (!has_finalizer).then(|| "no finalizer".to_owned()));
            found.extend(problem.map(|problem| format!("Service {name} has {problem}")));
        } else if (has_finalizer && !is_another_controllers(&service))
            || !address.is_empty()
            || !balancers.is_empty()
        {
            found.push(format!("Service {name} wants nothing, but: finalizer {has_finalizer}, address {address:?}, in the cloud {balancers:?}"));
        }
    }
    found.extend(
        marked
            .into_values()
            .map(|leaked| format!("leaked: {leaked:?}")),
    );
}

fn balancer_unsettled(
    service: &Value,
    balancer: &LoadBalancerFacts,
    (targets, optional): (&BTreeSet<String>, &BTreeSet<String>),
    address: &str,
) -> Option<String> {
    let number =
        |value: &Value| u16::try_from(value.as_u64().unwrap_or_default()).unwrap_or_default();
    let keeps_ports =
        !balancer.ports.is_empty() && balancer.ports.iter().all(|(.., node_port)| *node_port == 0);
    let ports: BTreeSet<_> = list(&service["spec"]["ports"])
        .map(|ports| {
            let node_port = if keeps_ports {
                0
            } else {
                number(&ports["nodePort"])
            };
            (
                number(&ports["port"]),
                text(&ports["protocol"]).to_owned(),
                node_port,
            )
        })
        .collect();
    if ports != balancer.ports {
        return Some(format!(
            "ports {:?} in the cloud, not {ports:?}",
            balancer.ports
        ));
    }
    if !targets
        .symmetric_difference(&balancer.targets)
        .all(|text| targets.contains(text) && optional.contains(text))
    {
        return Some(format!(
            "targets {:?} in the cloud, not {targets:?}",
            balancer.targets
        ));
    }
    if address.is_empty() || balancer.address.as_deref() != Some(address) {
        return Some(format!(
            "address {address:?} in its status, {:?} in the cloud",
            balancer.address
        ));
    }
    None
}

fn routes_unsettled(harness: &Harness, nodes: &[Value], found: &mut Vec<String>) {
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for node in nodes {
        let id = text(&node["spec"]["providerID"]);
        for cidr in list(&node["spec"]["podCIDRs"]) {
            wanted.insert((text(cidr).to_owned(), id.to_owned()));
            if !has_condition(node, "NetworkUnavailable", "False") {
                found.push(format!(
                    "Node {} is not said to have a network",
                    name_of(node)
                ));
            }
        }
    }
    let actual: Vec<(String, String)> = harness
        .cloud
        .routes()
        .into_iter()
        .filter(|facts| facts.is_ours)
        .map(|facts| (facts.destination, facts.target))
        .collect();
    for route in &wanted {
        if !actual.contains(route) {
            found.push(format!("no route {route:?}"));
        }
    }
    for route in &actual {
        if !wanted.contains(route) {
            found.push(format!("leaked: route {route:?}"));
        }
    }
    if actual.len() > wanted.len() {
        found.push(format!(
            "{} routes for {} ranges",
            actual.len(),
            wanted.len()
        ));
    }
}
