//! State of a cluster and its cloud, comparable between runs: generated values (UIDs, IDs, addresses, times) are
//! replaced by names of what they identify.

use std::collections::BTreeMap;

use cloud_provider::names::ANNOTATION_LOAD_BALANCER_ID;
use serde_json::{Value, json};

use crate::harness::Harness;

/// Objects by a descriptive name; the second of its kind has a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndState(BTreeMap<String, String>);

/// Returns the fields of a Node or Service that the program manages.
fn kept(kind: &str, object: &Value) -> Value {
    let conditions: Vec<Value> = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| json!({"type": condition["type"], "status": condition["status"], "reason": condition["reason"]}))
        .collect();
    let metadata = &object["metadata"];
    let status = match kind {
        "node" => json!({"addresses": object["status"]["addresses"]}),
        _ => json!({"loadBalancer": object["status"]["loadBalancer"]}),
    };
    // All controllers of load balancers share a finalizer, and all programs of this project share the annotation: on a
    // Service with a class they may belong to another controller.
    let mut annotations = metadata["annotations"].clone();
    let is_foreign = !object["spec"]["loadBalancerClass"].is_null();
    let finalizers = if is_foreign {
        &Value::Null
    } else {
        &metadata["finalizers"]
    };
    if let Some(annotations) = annotations.as_object_mut().filter(|_| is_foreign) {
        annotations.remove(ANNOTATION_LOAD_BALANCER_ID);
    }
    if annotations
        .as_object()
        .is_some_and(serde_json::Map::is_empty)
    {
        annotations = Value::Null;
    }
    json!({
        "labels": metadata["labels"], "annotations": annotations, "finalizers": finalizers,
        "deleting": !metadata["deletionTimestamp"].is_null(), "spec": object["spec"], "status": status, "conditions": conditions,
    })
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("timeAdded");
            map.values_mut().for_each(without_times);
        }
        Value::Array(list) => list.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// Returns the names that replace values which the API server generates.
fn api_aliases(harness: &Harness) -> Vec<(String, String)> {
    let mut aliases = Vec::new();
    for kind in ["services", "nodes", "namespaces"] {
        for object in harness.api.list(kind) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            aliases.push((uid.to_owned(), format!("<uid of {kind} {name}>")));
            let balancer: String = std::iter::once('a')
                .chain(uid.chars().filter(|character| *character != '-'))
                .take(32)
                .collect();
            aliases.push((balancer, format!("<name for {name}>")));
            for port in object["spec"]["ports"].as_array().into_iter().flatten() {
                if let Some(number) = port["nodePort"].as_u64() {
                    aliases.push((
                        number.to_string(),
                        format!("<node port of {name} for {}>", port["port"]),
                    ));
                }
            }
            if let Some(address) = object["spec"]["clusterIP"]
                .as_str()
                .filter(|cluster_ip| *cluster_ip != "None")
            {
                aliases.push((address.to_owned(), format!("<cluster IP of {name}>")));
            }
        }
    }
    aliases
}

impl EndState {
    /// Reads the current state.
    #[must_use]
    pub fn of(harness: &Harness) -> Self {
        let mut aliases = api_aliases(harness);
        aliases.extend(harness.cloud.aliases());
        // The longest first: one value may be the beginning of another.
        aliases.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let read = |mut value: Value| {
            without_times(&mut value);
            let mut text = value.to_string();
            // Twice, because an alias may contain a generated name.
            for _ in 0..2 {
                for (value, alias) in &aliases {
                    if text.contains(value.as_str()) {
                        text = text.replace(value.as_str(), alias);
                    }
                }
            }
            text
        };
        let mut objects = BTreeMap::new();
        for (plural, kind) in [("services", "service"), ("nodes", "node")] {
            for object in harness.api.list(plural) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                objects.insert(format!("{kind} {name}"), read(kept(kind, &object)));
            }
        }
        let mut in_cloud: Vec<String> = harness.cloud.objects().into_iter().map(read).collect();
        in_cloud.sort();
        for (number, text) in in_cloud.into_iter().enumerate() {
            objects.insert(format!("cloud object {number:03}"), text);
        }
        Self(objects)
    }

    /// Returns the differences of `other` in words; empty if there are none.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, wanted) in &self.0 {
            match other.0.get(name) {
                Some(actual) if actual == wanted => {}
                Some(actual) => {
                    let (wanted, actual) = where_they_part(wanted, actual);
                    found.push(format!("{name}:\n    wanted {wanted}\n    is     {actual}"));
                }
                None => found.push(format!("{name} is missing: {wanted}")),
            }
        }
        let more = other
            .0
            .iter()
            .filter(|(name, _)| !self.0.contains_key(*name));
        found.extend(more.map(|(name, actual)| format!("{name} is too many: {actual}")));
        found
    }
}

/// Returns both texts from shortly before the first difference on.
fn where_they_part<'a>(one: &'a str, other: &'a str) -> (&'a str, &'a str) {
    let same = one
        .bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    let from = (0..=same.saturating_sub(100))
        .rev()
        .find(|at| one.is_char_boundary(*at))
        .unwrap_or_default();
    let cut = |text: &'a str| {
        let end = (from..=text.len().min(from + 400))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(from);
        &text[from..end]
    };
    (cut(one), cut(other))
}
