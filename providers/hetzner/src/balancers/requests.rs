//! The request for each operation.

use std::collections::{HashMap, HashSet};

use ipnet::IpNet;
use provider_kit::load_balancers::{Operation, ResourceGraph, ResourceKey, Targets};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::wire::{NETWORK, machine, to_add, to_remove, to_service};

/// Builds an action that may be sent again: if it was already applied, the API refuses it with a code that says so.
macro_rules! action {
    ($id:expr, $name:literal) => {
        Call::post(concat!("/load_balancers/{id}/actions/", $name), &[$id]).repeatable()
    };
    ($id:expr, $name:literal, $body:expr) => {
        action!($id, $name).json(&$body)
    };
}

/// A request, and the target that it adds.
pub(super) struct Request {
    pub(super) call: Call,
    pub(super) adds: Option<String>,
    /// If set, the request is sent alone: after the actions before it have ended, and before those after it begin.
    pub(super) is_alone: bool,
}

impl From<Call> for Request {
    fn from(call: Call) -> Self {
        Self {
            call,
            adds: None,
            is_alone: false,
        }
    }
}

/// Returns the requests that carry out `operations` on one load balancer, in order. `subnet`: where it gets its address in a
/// network that it is attached to.
pub(super) fn requests<'a>(
    id: &str,
    actual: &ResourceGraph,
    operations: &'a [Operation],
    subnet: Option<IpNet>,
) -> Vec<Request> {
    let targets_of = |operation: &'a Operation, adds: bool| match operation {
        Operation::AddTargets { targets, .. } if adds => Some(targets),
        Operation::RemoveTargets { targets, .. } if !adds => Some(targets),
        _ => None,
    };
    let machines = |adds| {
        operations
            .iter()
            .filter_map(move |operation| targets_of(operation, adds))
            .flat_map(Targets::iter)
    };
    let added: HashSet<&str> = machines(true).map(machine).collect();
    let mut removed: HashMap<&str, &str> = machines(false)
        .map(|target| (machine(target), target))
        .collect();
    let grows = operations.iter().any(|operation| {
        matches!(
            operation,
            Operation::AddTargets { .. } | Operation::Create { .. }
        )
    });
    let (mut requests, mut late): (Vec<Request>, _) = (Vec::new(), Vec::new());
    for operation in operations {
        match operation {
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } => {
                requests.push(action!(id, "add_service", to_service(port, attributes)).into());
            }
            Operation::Create {
                resource,
                attributes,
            } if resource.is_of_kind(NETWORK) => {
                let range = subnet.map(|subnet| subnet.to_string());
                let body = attributes
                    .clone()
                    .set("ip_range", range)
                    .for_creation()
                    .nested();
                requests.push(action!(id, "attach_to_network", body).into());
            }
            Operation::Update {
                resource: ResourceKey::Balancer,
                changes,
                ..
            } => {
                for change in changes {
                    let Some(call) = set(id, actual, &change.key, &change.to) else {
                        continue;
                    };
                    // The public interface can only be disabled after targets with public addresses are removed. A
                    // larger type must be set before targets are added, and a smaller one after targets are removed.
                    let is_alone = matches!(&*change.key, "public" | "type");
                    let is_late = change.key == "public" && change.to == json!(false)
                        || change.key == "type" && !grows;
                    let requests = if is_late { &mut late } else { &mut requests };
                    requests.push(Request {
                        is_alone,
                        ..call.into()
                    });
                }
            }
            // A certificate that was to be created may have turned out to exist.
            Operation::Update {
                resource: resource @ ResourceKey::Listener(port),
                attributes,
                ..
            } if actual.resources.get(resource) != Some(attributes) => {
                requests.push(action!(id, "update_service", to_service(port, attributes)).into());
            }
            Operation::Delete {
                resource: ResourceKey::Listener(port),
            } => {
                requests.push(
                    action!(id, "delete_service", json!({"listen_port": port.number})).into(),
                );
            }
            Operation::Delete { resource } if resource.is_of_kind(NETWORK) => {
                let network = actual
                    .resources
                    .get(resource)
                    .and_then(|settings| settings.get("network"));
                requests
                    .push(action!(id, "detach_from_network", json!({"network": network})).into());
            }
            Operation::AddTargets { targets, .. } => {
                for target in targets.iter() {
                    // A machine cannot be a target twice, so its old target (by another address) must be removed first.
                    if let Some(other) = removed.remove(machine(target)) {
                        requests.push(action!(id, "remove_target", to_remove(other)).into());
                    }
                    let call = action!(id, "add_target", to_add(target));
                    requests.push(Request {
                        adds: Some(target.to_owned()),
                        ..call.into()
                    });
                }
            }
            Operation::RemoveTargets { targets, .. } => {
                // A target that is reached in another way is removed when its replacement is added.
                for target in targets
                    .iter()
                    .filter(|target| !added.contains(machine(target)))
                {
                    requests.push(action!(id, "remove_target", to_remove(target)).into());
                }
            }
            // Names and labels are no actions.
            _ => {}
        }
    }
    requests.append(&mut late);
    requests
}

/// Returns the action that changes a field of the load balancer.
fn set(id: &str, actual: &ResourceGraph, key: &str, to: &Value) -> Option<Call> {
    let address = |key| {
        actual
            .balancer_attributes()
            .and_then(|settings| settings.get(key))
    };
    Some(match key {
        "algorithm" => action!(id, "change_algorithm", json!({"type": to})),
        "type" => action!(id, "change_type", json!({"load_balancer_type": to})),
        "ipv4_rdns" => action!(
            id,
            "change_dns_ptr",
            json!({"ip": address("ipv4"), "dns_ptr": to})
        ),
        "ipv6_rdns" => action!(
            id,
            "change_dns_ptr",
            json!({"ip": address("ipv6"), "dns_ptr": to})
        ),
        "public" if *to == json!(true) => action!(id, "enable_public_interface"),
        "public" => action!(id, "disable_public_interface"),
        _ => return None,
    })
}
