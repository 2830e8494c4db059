//! Random operations of users, kubelets and machines.

use serde_json::{Value, json};

use crate::harness::Harness;
use crate::settled::has_condition;

/// Services have these names, so that names come again.
const SERVICES: [&str; 7] = ["web", "mail", "api", "dns", "git", "shop", "chat"];
/// A Node that always stays, as a control read for the others (D-2).
const ANCHOR: &str = "worker-1";
/// Maximum number of Nodes.
const MOST_NODES: usize = 7;
/// The class of another controller.
const OTHER_CLASS: &str = "example.com/other";

/// Performs a random operation and describes it; returns nothing if the chosen operation is impossible now.
pub(super) async fn operate(
    harness: &Harness,
    dice: &mut fastrand::Rng,
    serial: usize,
) -> Option<String> {
    match dice.u8(0..20) {
        0..=3 => create_service(harness, dice).await,
        4..=9 => change_service(harness, dice).await,
        10..=11 => delete_service(harness, dice).await,
        12..=13 => join(harness, dice, serial).await,
        14..=16 => change_node(harness, dice).await,
        17 => terminate(harness, dice).await,
        18 => leave(harness, dice).await,
        _ => exclude(harness, dice).await,
    }
}

fn one<'a, T>(dice: &mut fastrand::Rng, all: &'a [T]) -> Option<&'a T> {
    if all.is_empty() {
        None
    } else {
        all.get(dice.usize(..all.len()))
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn ports(dice: &mut fastrand::Rng) -> Vec<u16> {
    let all = [80, 443, 8080, 8443, 9000];
    let mut ports: Vec<u16> = all.into_iter().filter(|_| dice.bool()).collect();
    if ports.is_empty() {
        ports.push(80);
    }
    ports
}

async fn create_service(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let taken: Vec<String> = harness.api.list("services").iter().map(name).collect();
    let free: Vec<&str> = SERVICES
        .into_iter()
        .filter(|name| !taken.iter().any(|text| text == name))
        .collect();
    let name = *one(dice, &free)?;
    let ports = ports(dice);
    harness.user.create_service(name, &ports).await;
    Some(format!("Service {name} is created with ports {ports:?}"))
}

/// Services that are there and not being deleted.
fn services(harness: &Harness) -> Vec<Value> {
    let all = harness.api.list("services").into_iter();
    all.filter(|object| object["metadata"]["deletionTimestamp"].is_null())
        .collect()
}

async fn change_service(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let services = services(harness);
    let service = one(dice, &services)?;
    let name = name(service);
    let is_balanced = service["spec"]["type"] == "LoadBalancer";
    let patch = match dice.u8(0..6) {
        0 | 1 => {
            let ports = ports(dice);
            harness.user.set_ports(&name, &ports).await;
            return Some(format!("Service {name} has ports {ports:?}"));
        }
        2 => json!({"metadata": {"annotations": {"example.com/note": dice.u32(..).to_string()}}}),
        3 if is_balanced => {
            let policy = if service["spec"]["externalTrafficPolicy"] == "Local" {
                "Cluster"
            } else {
                "Local"
            };
            json!({"spec": {"externalTrafficPolicy": policy}})
        }
        4 if is_balanced => json!({"spec": {"type": "ClusterIP"}}),
        4 => json!({"spec": {"type": "LoadBalancer"}}),
        // Also before its clean-up is done.
        5 if !is_balanced => {
            json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": OTHER_CLASS}})
        }
        _ => {
            let is_sticky = dice.bool() && harness.cloud.has_session_affinity();
            json!({"spec": {"sessionAffinity": if is_sticky { "ClientIP" } else { "None" }}})
        }
    };
    harness.user.patch_service(&name, &patch).await;
    Some(format!("Service {name} is patched: {patch}"))
}

async fn delete_service(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let services = services(harness);
    let name = name(one(dice, &services)?);
    harness.user.delete_service(&name).await;
    Some(format!("Service {name} is deleted"))
}

/// Creates a machine and its Node; the Node may come first, or much later.
async fn join(harness: &Harness, dice: &mut fastrand::Rng, serial: usize) -> Option<String> {
    if harness.api.list("nodes").len() >= MOST_NODES {
        return None;
    }
    let name = format!("late-{serial}");
    harness.cloud.add_machine(&name);
    if dice.u8(0..4) == 0 {
        return Some(format!("machine {name} is there, its kubelet is not yet"));
    }
    register(harness, &name).await;
    Some(format!("Node {name} joins"))
}

/// Registers the Node of a machine, with a Pod CIDR that no other Node has.
pub(super) async fn register(harness: &Harness, name: &str) {
    let taken: Vec<Value> = harness
        .api
        .list("nodes")
        .iter()
        .map(|node| node["spec"]["podCIDR"].clone())
        .collect();
    let cidr = (1..=250)
        .map(|number| format!("10.244.{number}.0/24"))
        .find(|text| !taken.contains(&json!(text)));
    harness
        .user
        .register_node(name, &cidr.into_iter().collect::<Vec<_>>())
        .await;
}

/// Nodes but the one that stays.
fn nodes(harness: &Harness) -> Vec<Value> {
    harness
        .api
        .list("nodes")
        .into_iter()
        .filter(|node| name(node) != ANCHOR)
        .collect()
}

async fn change_node(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let nodes = nodes(harness);
    let node = one(dice, &nodes)?;
    let name = name(node);
    let machine = harness
        .cloud
        .machines()
        .into_iter()
        .find(|machine| machine.name == name)?;
    if machine.is_stopped {
        harness.cloud.start(&name);
        harness.user.set_ready(&name, true).await;
        return Some(format!("machine {name} starts"));
    }
    let is_ready = has_condition(node, "Ready", "True");
    if is_ready && dice.bool() {
        harness.cloud.stop(&name);
        harness.user.set_ready(&name, false).await;
        return Some(format!("machine {name} stops"));
    }
    harness.user.set_ready(&name, !is_ready).await;
    Some(format!(
        "Node {name} is {}",
        if is_ready { "not ready" } else { "ready" }
    ))
}

async fn terminate(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let machines: Vec<_> = harness
        .cloud
        .machines()
        .into_iter()
        .filter(|machine| machine.name != ANCHOR)
        .collect();
    let name = &one(dice, &machines)?.name;
    harness.cloud.terminate(name);
    harness.user.set_ready(name, false).await;
    Some(format!("machine {name} is terminated"))
}

/// Deletes a Node; its kubelet may register it again.
async fn leave(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let nodes = nodes(harness);
    let name = name(one(dice, &nodes)?);
    harness.user.delete_node(&name).await;
    let runs = harness
        .cloud
        .machines()
        .iter()
        .any(|machine| machine.name == name && !machine.is_stopped);
    if runs && dice.bool() {
        register(harness, &name).await;
        return Some(format!("Node {name} is deleted and registers again"));
    }
    Some(format!("Node {name} is deleted"))
}

async fn exclude(harness: &Harness, dice: &mut fastrand::Rng) -> Option<String> {
    let nodes = nodes(harness);
    let node = one(dice, &nodes)?;
    let name = name(node);
    let label = cloud_provider::names::LABEL_EXCLUDE_BALANCER;
    let value = if node["metadata"]["labels"][label].is_null() {
        json!("true")
    } else {
        Value::Null
    };
    harness
        .user
        .patch_node(&name, &json!({"metadata": {"labels": {label: value}}}))
        .await;
    Some(format!("Node {name} has label {label}: {value}"))
}

/// Ends the faults: kubelets of running machines run and are ready, those of others are not.
pub(super) async fn heal(harness: &Harness) {
    for machine in harness.cloud.machines() {
        if harness.api.get("nodes", None, &machine.name).is_none() && !machine.is_stopped {
            register(harness, &machine.name).await;
        }
        harness
            .user
            .set_ready(&machine.name, !machine.is_stopped)
            .await;
    }
}
