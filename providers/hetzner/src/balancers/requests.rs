//! The action for each operation.

use std::collections::{HashSet, VecDeque};

use ipnet::IpNet;
use provider_kit::load_balancers::{Attributes, Operation, Part, Targets, Tree};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::wire::{NETWORK, machine, to_add, to_remove, to_service};

/// Sets a state, so it may be sent again: what is there or gone already is refused in words that say so.
macro_rules! action {
    ($id:expr, $name:literal) => {
        Call::post(concat!("/load_balancers/{id}/actions/", $name), &[$id]).repeatable()
    };
}

/// A request, and the target that it adds.
pub(super) struct Request {
    pub(super) call: Call,
    pub(super) adds: Option<String>,
    /// What came before it must have ended, and what comes after it waits: one needs the other.
    pub(super) is_alone: bool,
}

/// Makes the requests that change one load balancer.
pub(super) struct Requests<'a> {
    id: &'a str,
    actual: &'a Tree,
    /// In which subnet of the network it gets its address.
    subnet: Option<IpNet>,
    list: VecDeque<Request>,
    /// Whether it gets more before it has less: then a larger type is needed first, and else a smaller one is possible last.
    grows: bool,
    late: Vec<Call>,
}

impl<'a> Requests<'a> {
    /// Those for `operations`, in order.
    pub(super) fn of(
        id: &'a str,
        actual: &'a Tree,
        operations: &[Operation],
        subnet: Option<IpNet>,
    ) -> VecDeque<Request> {
        let grows = |it: &Operation| matches!(it, Operation::AddTargets { .. } | Operation::Create { .. });
        let grows = operations.iter().any(grows);
        let mut requests = Self { id, actual, subnet, list: VecDeque::new(), grows, late: Vec::new() };
        let removed = operations.iter().filter_map(|it| match it {
            Operation::RemoveTargets { targets, .. } => Some(targets),
            _ => None,
        });
        let removed: HashSet<&str> = removed.flat_map(Targets::iter).collect();
        let added = operations.iter().filter_map(|it| match it {
            Operation::AddTargets { targets, .. } => Some(targets),
            _ => None,
        });
        let added: HashSet<&str> = added.flat_map(Targets::iter).map(machine).collect();
        let mut gone = HashSet::new();
        for operation in operations {
            match operation {
                Operation::Create { part, attributes } => requests.create(part, attributes),
                Operation::Update { part: Part::Balancer, changes, .. } => {
                    changes.iter().for_each(|it| requests.set(&it.key, &it.to));
                }
                Operation::Update { part, attributes, .. } => requests.update(part, attributes),
                Operation::Delete { part } => requests.delete(part),
                Operation::AddTargets { targets, .. } => {
                    for target in targets.iter() {
                        // The same machine, reached in another way: it cannot be there twice.
                        let other = removed.iter().find(|it| machine(it) == machine(target) && !gone.contains(**it));
                        if let Some(other) = other {
                            requests.push(action!(id, "remove_target").json(&to_remove(other)));
                            gone.insert(*other);
                        }
                        let call = action!(id, "add_target").json(&to_add(target));
                        requests.list.push_back(Request { call, adds: Some(target.to_owned()), is_alone: false });
                    }
                }
                Operation::RemoveTargets { targets, .. } => {
                    // One that is reached in another way goes when it comes again.
                    for target in targets.iter().filter(|target| !added.contains(machine(target))) {
                        requests.push(action!(id, "remove_target").json(&to_remove(target)));
                    }
                }
                // Names and labels are no actions.
                Operation::Mark | Operation::Unmark => {}
            }
        }
        for call in std::mem::take(&mut requests.late) {
            requests.push_alone(call);
        }
        requests.list
    }

    fn push(&mut self, call: Call) {
        self.list.push_back(Request { call, adds: None, is_alone: false });
    }

    fn push_alone(&mut self, call: Call) {
        self.list.push_back(Request { call, adds: None, is_alone: true });
    }

    fn set(&mut self, key: &str, to: &Value) {
        let id = self.id;
        let address = |key| self.actual.balancer_attributes().and_then(|it| it.get(key));
        let call = match key {
            "algorithm" => action!(id, "change_algorithm").json(&json!({"type": to})),
            "type" => action!(id, "change_type").json(&json!({"load_balancer_type": to})),
            "ipv4_rdns" => action!(id, "change_dns_ptr").json(&json!({"ip": address("ipv4"), "dns_ptr": to})),
            "ipv6_rdns" => action!(id, "change_dns_ptr").json(&json!({"ip": address("ipv6"), "dns_ptr": to})),
            "public" if *to == json!(true) => action!(id, "enable_public_interface"),
            "public" => action!(id, "disable_public_interface"),
            _ => return,
        };
        // Targets with public addresses keep the public interface, many targets the large type.
        match key {
            "public" if *to == json!(false) => self.late.push(call),
            "type" if !self.grows => self.late.push(call),
            "public" | "type" => self.push_alone(call),
            _ => self.push(call),
        }
    }

    fn create(&mut self, part: &Part, settings: &Attributes) {
        match part {
            Part::Listener(port) => self.push(action!(self.id, "add_service").json(&to_service(port, settings))),
            part if part.is_of_kind(NETWORK) => {
                let mut body = json!({"network": settings.get("network")});
                let subnet = self.subnet.map(|subnet| json!(subnet.to_string()));
                for (key, value) in [("ip", settings.get("ip")), ("ip_range", subnet.as_ref())] {
                    if let Some(value) = value {
                        body[key] = value.clone();
                    }
                }
                self.push(action!(self.id, "attach_to_network").json(&body));
            }
            _ => {}
        }
    }

    fn update(&mut self, part: &Part, settings: &Attributes) {
        // A certificate that was to be made turned out to be the one that is there.
        let is_same = self.actual.parts.get(part) == Some(settings);
        if let (Part::Listener(port), false) = (part, is_same) {
            self.push(action!(self.id, "update_service").json(&to_service(port, settings)));
        }
    }

    fn delete(&mut self, part: &Part) {
        match part {
            Part::Listener(port) => {
                self.push(action!(self.id, "delete_service").json(&json!({"listen_port": port.number})));
            }
            part if part.is_of_kind(NETWORK) => {
                let network = self.actual.parts.get(part).and_then(|it| it.get("network"));
                self.push(action!(self.id, "detach_from_network").json(&json!({"network": network})));
            }
            _ => {}
        }
    }
}
