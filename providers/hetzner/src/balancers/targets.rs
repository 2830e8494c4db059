//! Targets of a load balancer, one for each Node.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{AddressType, Error, Node};
use provider_kit::events::PendingEvents;
use provider_kit::load_balancers::Targets;

use super::wire::{ip_target, machine, server_target};
use crate::id::{IdError, MachineId};

const NO_INTERNAL_IP: &str = "InternalIPNotConfigured";

/// Knowledge of dedicated servers.
pub(super) enum Dedicated {
    /// Dedicated servers are no targets.
    Off,
    /// Dedicated servers exist, but there is no credential for Robot.
    NoCredential,
    /// Public addresses of dedicated servers, by number.
    Known(BTreeMap<u64, String>),
}

/// Returns the targets of a Service, and adds events to `pending_events`. `None` if there are Nodes, but the machine of
/// none is known (P-25).
pub(super) fn targets(
    nodes: &[Arc<Node>],
    by_private_ip: bool,
    dedicated: &Dedicated,
    pending_events: &mut PendingEvents,
) -> Option<Targets> {
    let mut found = Vec::new();
    for node in nodes.iter().filter(|node| node.provider_id().is_some()) {
        let mut note = |reason, text: String| {
            // Without the Service's name: one event for all of them.
            pending_events.warn_node(
                node,
                reason,
                format!("as a target of load balancers: {text}"),
            );
        };
        match MachineId::read(&node.provider_id) {
            Ok(MachineId::Cloud(id)) => found.push(server_target(id, by_private_ip)),
            Ok(MachineId::Robot(number)) => {
                found.extend(
                    dedicated_ip(node, number, by_private_ip, dedicated, &mut note)
                        .map(|ip| ip_target(&ip)),
                );
            }
            Err(IdError::UnknownPrefix { id, .. }) => {
                note(
                    "UnknownProviderIDPrefix",
                    format!("provider ID {id:?} is not one of Hetzner's; it is left out"),
                );
            }
            // The Node never was a target, and must not prevent others from becoming targets (INV-6).
            Err(err @ IdError::Malformed { .. }) => {
                note("InvalidProviderID", format!("{err}; it is left out"));
            }
        }
    }
    let targets: Targets = found.iter().collect();
    (nodes.is_empty() || !targets.is_empty()).then_some(targets)
}

fn dedicated_ip(
    node: &Node,
    number: u64,
    by_private_ip: bool,
    dedicated: &Dedicated,
    note: &mut impl FnMut(&'static str, String),
) -> Option<String> {
    let internal = node
        .addresses
        .iter()
        .find(|address| address.kind == AddressType::InternalIP)
        .filter(|_| by_private_ip);
    let internal = internal.map(|address| address.address.to_string());
    let is_missing = by_private_ip && internal.is_none();
    match dedicated {
        Dedicated::Off => None,
        Dedicated::NoCredential if by_private_ip => {
            if is_missing {
                let text = "it has no InternalIP, and there are no Robot credentials to ask for its public one; it is left out";
                note(NO_INTERNAL_IP, text.to_owned());
            }
            internal
        }
        Dedicated::Known(addresses) if addresses.contains_key(&number) => {
            if is_missing {
                note(
                    NO_INTERNAL_IP,
                    "it has no InternalIP; its public address is taken".to_owned(),
                );
            }
            internal.or_else(|| addresses.get(&number).cloned())
        }
        Dedicated::NoCredential | Dedicated::Known(_) => {
            note(
                "ServerNotFound",
                format!("no server with number {number} was found in Robot; it is left out"),
            );
            None
        }
    }
}

/// Returns `true` if all of these targets are machines of these Nodes.
pub(super) fn are_of(targets: &Targets, nodes: &[Arc<Node>]) -> bool {
    let of = |node: &Arc<Node>| match MachineId::read(&node.provider_id) {
        Ok(MachineId::Cloud(id)) => vec![server_target(id, false)],
        _ => node
            .addresses
            .iter()
            .map(|address| ip_target(&address.address))
            .collect(),
    };
    let known: Targets = nodes.iter().flat_map(of).collect();
    targets.iter().all(|target| known.contains(machine(target)))
}

/// Returns `true` if a Node's machine is among these targets.
pub(super) fn is_among(node: &Node, targets: &Targets) -> bool {
    match MachineId::read(&node.provider_id) {
        Ok(MachineId::Cloud(id)) => [false, true]
            .iter()
            .any(|private| targets.contains(&server_target(id, *private))),
        Ok(MachineId::Robot(_)) => node
            .addresses
            .iter()
            .any(|address| targets.contains(&ip_target(&address.address))),
        Err(_) => false,
    }
}

/// Returns `true` if a request was refused for one of the targets in it.
pub(super) fn is_refused_for(err: &Error) -> bool {
    const CODES: [&str; 5] = [
        "server_not_attached_to_network",
        "ip_not_owned",
        "cloud_resource_ip_not_allowed",
        "missing_ipv4",
        "targets_without_use_private_ip",
    ];
    CODES.contains(&err.code())
}

/// Returns the targets for a second attempt to create a load balancer whose creation was refused because of some of
/// `targets`. `known` are the targets whose machines the credential shows. If some of `targets` are not known, these
/// are left out; otherwise the load balancer is created without targets, which are then added one by one.
///
/// `None` if the targets are not the reason, or if none of them is known: then the credential is probably another project's, and
/// would leave an empty load balancer there.
pub(super) fn without_refused(
    refused: &Error,
    targets: &Targets,
    known: &Targets,
) -> Option<Targets> {
    let is_known = |target: &&str| known.contains(machine(target));
    if !targets.iter().any(|target| is_known(&target)) {
        return None;
    }
    let exists = |target: &&str| !target.starts_with("server:") || is_known(target);
    if is_refused_for(refused) {
        return Some(Targets::default());
    }
    (refused.is_not_found() && !targets.iter().all(|target| exists(&target)))
        .then(|| targets.iter().filter(exists).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_balancer_is_created_again_only_without_targets_that_were_refused() {
        let targets =
            |text: &str| -> Targets { text.split_whitespace().map(str::to_owned).collect() };
        let missing = || Error::not_found("server not found").with_code("not_found");
        let private = || Error::invalid("not attached").with_code("server_not_attached_to_network");
        let all = "server:1 server:2:private ip:192.0.2.1";
        for (case, refused, known, expected) in [
            (
                "a server is gone",
                missing(),
                "server:2",
                Some("server:2:private ip:192.0.2.1"),
            ),
            (
                "something else is missing",
                missing(),
                "server:1 server:2",
                None,
            ),
            ("another project", missing(), "", None),
            (
                "one of them is refused",
                private(),
                "server:1 server:2",
                Some(""),
            ),
            (
                "one of them is refused in another project",
                private(),
                "",
                None,
            ),
            (
                "only a dedicated server is known",
                private(),
                "ip:192.0.2.1",
                Some(""),
            ),
            (
                "something else is refused",
                Error::invalid("location").with_code("invalid_input"),
                "server:1",
                None,
            ),
        ] {
            let rest = without_refused(&refused, &targets(all), &targets(known));
            assert_eq!(rest, expected.map(targets), "{case}");
        }
    }
}
