//! Adoption by name of load balancers that were not created by a cloud controller manager. Users choose the name in an
//! annotation, so the name alone does not prove that a load balancer was created for the Service.
//!
//! Listeners and targets that an adopted load balancer had before stay. Labels record them: a listener of the API has no
//! owner, so that nothing else tells those of its creator from those of the Service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cloud_provider::default_load_balancer_name;
use provider_kit::declared::{Kind, Value};
use provider_kit::load_balancers::{
    Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, ResourceKey, Targets,
};

use super::wire::{POOL, machine};

/// The label of a load balancer that was adopted by its name. It is written together with the owner labels, and removed
/// together with them, so that a process that is killed in between cannot mistake an adopted load balancer for one that
/// was created for its Service.
pub(super) const ADOPTED: &str = "ccm-rs/adopted";

/// The label with the machines that were targets of an adopted load balancer before.
const TARGETS: &str = "ccm-rs/adopted-targets";
/// The value of a record of nothing.
const NOTHING: &str = "true";
/// The most characters of a label's value.
const MOST: usize = 63;

/// Writes a record as labels: `KEY`, `KEY-2` and so on, because a value has room for a few items only.
fn write(labels: &mut BTreeMap<String, String>, key: &str, items: impl Iterator<Item = String>) {
    let mut values = vec![String::new()];
    for item in items {
        let last = values.last().map_or(0, String::len);
        if last > 0 && last + 1 + item.len() > MOST {
            values.push(String::new());
        }
        if let Some(value) = values.last_mut() {
            *value = if value.is_empty() {
                item
            } else {
                format!("{value}_{item}")
            };
        }
    }
    for (number, value) in values.into_iter().enumerate() {
        let key = if number == 0 {
            key.to_owned()
        } else {
            format!("{key}-{}", number + 1)
        };
        labels.insert(
            key,
            if value.is_empty() {
                NOTHING.to_owned()
            } else {
                value
            },
        );
    }
}

/// Returns the items of a record.
fn items<'a>(labels: &'a BTreeMap<String, String>, key: &'a str) -> impl Iterator<Item = &'a str> {
    let is_its_label = move |label: &str| {
        let rest = label.strip_prefix(key);
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest
                    .strip_prefix('-')
                    .is_some_and(|text| text.parse::<u32>().is_ok())
        })
    };
    let values = labels
        .iter()
        .filter(move |(label, value)| is_its_label(label) && *value != NOTHING);
    values.flat_map(|(_, value)| value.split('_'))
}

/// Returns `true` for a label that records an adoption.
pub(super) fn is_record(label: &str) -> bool {
    label == ADOPTED || label.starts_with("ccm-rs/adopted-")
}

/// Returns the ports of listeners that the load balancer had before its adoption. All listeners of a load balancer that no
/// cloud controller manager has created or adopted are such listeners.
fn ports_of_others(actual: &ObservedLoadBalancer) -> BTreeSet<u16> {
    if is_of_nobody(actual) {
        return actual
            .graph
            .iter()
            .flat_map(ResourceGraph::listeners)
            .map(|(port, _)| port.number)
            .collect();
    }
    items(&actual.labels, ADOPTED)
        .filter_map(|text| text.parse().ok())
        .collect()
}

/// Returns the targets that the load balancer had before its adoption, as they are now.
pub(super) fn targets_of_others(actual: &ObservedLoadBalancer) -> Targets {
    let all = actual
        .graph
        .as_ref()
        .map(|graph| graph.targets_of(POOL))
        .unwrap_or_default();
    if is_of_nobody(actual) {
        return all;
    }
    let recorded: BTreeSet<&str> = items(&actual.labels, TARGETS).collect();
    all.iter()
        .filter(|text| recorded.contains(&*label_of(text)))
        .collect()
}

/// Returns `true` if nothing shows that a cloud controller manager has created or adopted the load balancer.
fn is_of_nobody(actual: &ObservedLoadBalancer) -> bool {
    let is_generated = |name: &str| {
        let uid = name.strip_prefix('a').unwrap_or_default();
        uid.len() == 31 && uid.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_unmarked = actual.owner_tags == OwnerTags::default()
        && actual.legacy_owner.is_none()
        && !actual.adopted;
    is_unmarked && !is_generated(&actual.name)
}

/// Returns a target in the form of a label's value, which has neither colons nor the way by which the target is reached.
fn label_of(target: &str) -> String {
    match machine(target).split_once(':') {
        Some(("server", id)) => format!("s{id}"),
        Some((_, ip)) => ip.replace(':', "-"),
        None => target.to_owned(),
    }
}

/// Records the adoption of a load balancer in its labels.
pub(super) fn record(labels: &mut BTreeMap<String, String>, actual: &ObservedLoadBalancer) {
    let ports = actual.foreign.keys().filter_map(|resource| match resource {
        ResourceKey::Listener(port) => Some(port.number.to_string()),
        _ => None,
    });
    write(labels, ADOPTED, ports);
    let targets = targets_of_others(actual);
    if !targets.is_empty() {
        write(labels, TARGETS, targets.iter().map(label_of));
    }
}

/// Takes listeners of others out of the graph, which is that of the Service.
pub(super) fn without_others(mut actual: ObservedLoadBalancer) -> ObservedLoadBalancer {
    let ports = ports_of_others(&actual);
    if let Some(graph) = &mut actual.graph {
        let is_of_others = |resource: &ResourceKey| matches!(resource, ResourceKey::Listener(port) if ports.contains(&port.number));
        let others = graph
            .resources
            .keys()
            .filter(|resource| is_of_others(resource))
            .cloned();
        let whose = "one that the load balancer had before (its creator can delete it)";
        actual.foreign = others
            .map(|resource| (resource, whose.to_owned()))
            .collect();
        graph
            .resources
            .retain(|resource, _| !is_of_others(resource));
    }
    actual
}

/// Adds the targets that the load balancer had before to those of the Service. A machine that the Service reaches in another
/// way counts as the Service's.
pub(super) fn with_targets_of_others(
    mut desired: ResourceGraph,
    actual: &ObservedLoadBalancer,
) -> ResourceGraph {
    if let Some(wanted) = desired.targets.get(POOL).cloned() {
        let machines: BTreeSet<&str> = wanted.iter().map(machine).collect();
        let others = targets_of_others(actual);
        let others: Targets = others
            .iter()
            .filter(|text| !machines.contains(machine(text)))
            .collect();
        desired
            .targets
            .insert(POOL.to_owned(), wanted.with(&others));
    }
    desired
}

/// A label that a load balancer must have to be adopted by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptionLabel {
    key: String,
    /// Required value; `None` accepts any value.
    value: Option<String>,
}

impl AdoptionLabel {
    /// Returns `true` if a load balancer carries the label, or was created for its Service and needs none.
    pub(super) fn allows(&self, actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> bool {
        self.is_on(&actual.labels) || !is_adoption(actual, identity)
    }

    /// Returns the end of an error that tells the user how to have the load balancer adopted.
    pub(super) fn hint(&self) -> String {
        format!("or give it the label {self}, which HCLOUD_LOAD_BALANCERS_ADOPTION_LABEL requires")
    }

    fn is_on(&self, labels: &BTreeMap<String, String>) -> bool {
        labels
            .get(&self.key)
            .is_some_and(|its| self.value.as_ref().is_none_or(|value| its == value))
    }
}

impl Value for AdoptionLabel {
    const KIND: Kind<Self> = Kind::of("a label KEY or KEY=VALUE, such as adoptable=true", |text| {
        let (key, value) = text
            .split_once('=')
            .map_or((text, None), |(key, value)| (key, Some(value)));
        let is_plain = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        };
        let is_label = !key.is_empty() && is_plain(key) && value.is_none_or(is_plain);
        is_label.then(|| Self {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        })
    });
}

impl fmt::Display for AdoptionLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// Returns `true` if the Service would adopt the load balancer, because it was not created for the Service: it has no
/// owner labels of the Service, and its name does not contain the Service's UID, as the names that cloud controller
/// managers choose do.
pub(super) fn is_adoption(actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> bool {
    let is_unmarked = actual.owner_tags == OwnerTags::default()
        && (actual.legacy_owner.is_none() || actual.legacy_owner != identity.legacy_owner);
    actual.adopted || is_unmarked && actual.name != default_load_balancer_name(identity.service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_room_for_all_ports_in_labels_of_63_characters() {
        for count in [0_u16, 1, 10, 30, 200] {
            let mut labels = BTreeMap::new();
            let ports = (0..count).map(|number| 65_535 - number);
            write(
                &mut labels,
                ADOPTED,
                ports.clone().map(|port| port.to_string()),
            );
            write(
                &mut labels,
                TARGETS,
                ["s123".to_owned(), "10.0.0.1".to_owned()].into_iter(),
            );
            assert!(
                labels.values().all(|value| value.len() <= MOST),
                "{labels:?}"
            );
            let read: BTreeSet<String> = items(&labels, ADOPTED).map(str::to_owned).collect();
            assert_eq!(
                read,
                ports.map(|port| port.to_string()).collect(),
                "{count}"
            );
            assert_eq!(
                items(&labels, TARGETS).collect::<Vec<_>>(),
                ["s123", "10.0.0.1"]
            );
            assert!(labels.keys().all(|label| is_record(label)));
        }
        let former = [(ADOPTED.to_owned(), "true".to_owned())].into();
        assert_eq!(
            items(&former, ADOPTED).count(),
            0,
            "a record of a former version has no ports"
        );
    }

    #[test]
    fn a_required_label_is_a_key_or_a_key_and_its_value() {
        let labels: BTreeMap<String, String> = [("team".to_owned(), "blue".to_owned())].into();
        for (text, expected) in [
            ("team", true),
            ("team=blue", true),
            ("team=red", false),
            ("team=", false),
            ("other", false),
        ] {
            let label = AdoptionLabel::KIND.parse(text).unwrap();
            assert_eq!(
                (label.is_on(&labels), label.to_string().as_str()),
                (expected, text)
            );
        }
        for text in ["", "=blue", "a b", "team=blue,red"] {
            assert_eq!(AdoptionLabel::KIND.parse(text), None, "{text}");
        }
    }
}
