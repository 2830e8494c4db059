//! The cells of each kind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::age::since;
use crate::resources::Resource;

pub(super) fn cells(resource: &Resource, object: &Value, now: i64) -> Vec<Value> {
    let name = json!(text(&object["metadata"]["name"]));
    let age = json!(since(&object["metadata"]["creationTimestamp"], now));
    let middle = match resource.plural {
        "nodes" => return node(object, name, age),
        "services" => return service(object, name, age),
        "events" => return event(&crate::events::to_core(object), name, now),
        "persistentvolumes" => return volume(object, name, age),
        "namespaces" => vec![json!(text(&object["status"]["phase"]))],
        "leases" => vec![json!(text(&object["spec"]["holderIdentity"]))],
        "configmaps" => vec![json!(count(&object["data"]) + count(&object["binaryData"]))],
        "secrets" => vec![json!(text(&object["type"])), json!(count(&object["data"]))],
        "endpoints" => vec![json!(endpoints(object))],
        "endpointslices" => {
            vec![
                json!(text(&object["addressType"])),
                json!(slice_ports(object)),
                json!(slice_addresses(object)),
            ]
        }
        _ => Vec::new(),
    };
    [name].into_iter().chain(middle).chain([age]).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    Some(text(value))
        .filter(|text| !text.is_empty())
        .unwrap_or(otherwise)
}

fn count(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let status = &object["status"];
    let ready = list(&status["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut states = vec![match ready {
        None => "Unknown",
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
    }];
    if object["spec"]["unschedulable"] == true {
        states.push("SchedulingDisabled");
    }
    let address = |kind: &str| {
        let of_kind = list(&status["addresses"]).find(|address| address["type"] == kind);
        json!(of_kind.map_or("<none>", |address| text(&address["address"])))
    };
    let info = |field: &str| json!(or(&status["nodeInfo"][field], "<unknown>"));
    vec![
        name,
        json!(states.join(",")),
        json!(roles(&object["metadata"]["labels"])),
        age,
        json!(text(&status["nodeInfo"]["kubeletVersion"])),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn roles(labels: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(role) = key
            .strip_prefix("node-role.kubernetes.io/")
            .filter(|role| !role.is_empty())
        {
            roles.insert(role);
        } else if key == "kubernetes.io/role" && !text(value).is_empty() {
            roles.insert(text(value));
        }
    }
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.into_iter().collect::<Vec<_>>().join(",")
    }
}

fn service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let ports: Vec<String> = list(&spec["ports"])
        .map(
            |port| match port["nodePort"].as_i64().filter(|port| *port > 0) {
                Some(node_port) => {
                    format!("{}:{node_port}/{}", port["port"], text(&port["protocol"]))
                }
                None => format!("{}/{}", port["port"], text(&port["protocol"])),
            },
        )
        .collect();
    let selector: Vec<String> = spec["selector"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    let joined = |parts: Vec<String>| {
        if parts.is_empty() {
            "<none>".to_owned()
        } else {
            parts.join(",")
        }
    };
    vec![
        name,
        json!(text(&spec["type"])),
        json!(or(&spec["clusterIP"], "<none>")),
        json!(external_address(object)),
        json!(joined(ports)),
        age,
        json!(joined(selector)),
    ]
}

fn external_address(service: &Value) -> String {
    let spec = &service["spec"];
    let external: Vec<&str> = list(&spec["externalIPs"]).map(text).collect();
    match text(&spec["type"]) {
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        "LoadBalancer" => {
            let given: Vec<&str> = list(&service["status"]["loadBalancer"]["ingress"])
                .map(|ingress| or(&ingress["ip"], text(&ingress["hostname"])))
                .filter(|address| !address.is_empty())
                .collect();
            if given.is_empty() && external.is_empty() {
                return "<pending>".to_owned();
            }
            let given: Vec<&str> = given.into_iter().chain(external).collect();
            given.join(",")
        }
        _ if external.is_empty() => "<none>".to_owned(),
        _ => external.join(","),
    }
}

fn event(event: &Value, name: Value, now: i64) -> Vec<Value> {
    let event_time = since(&event["eventTime"], now);
    let first = if event["firstTimestamp"].is_null() {
        event_time
    } else {
        since(&event["firstTimestamp"], now)
    };
    let mut last = if event["lastTimestamp"].is_null() {
        first.clone()
    } else {
        since(&event["lastTimestamp"], now)
    };
    let mut times = event["count"].as_i64().unwrap_or(0);
    if event["series"].is_object() {
        last = since(&event["series"]["lastObservedTime"], now);
        times = event["series"]["count"].as_i64().unwrap_or(0);
    } else if times == 0 {
        times = 1;
    }
    let object = &event["involvedObject"];
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        json!(last),
        json!(text(&event["type"])),
        json!(text(&event["reason"])),
        json!(target),
        json!(text(&object["fieldPath"])),
        json!(source(event)),
        json!(text(&event["message"]).trim()),
        json!(first),
        json!(times),
        name,
    ]
}

fn source(event: &Value) -> String {
    let source = &event["source"];
    let (component, instance) = if text(&source["component"]).is_empty() {
        (
            text(&event["reportingComponent"]),
            text(&event["reportingInstance"]),
        )
    } else {
        (text(&source["component"]), text(&source["host"]))
    };
    if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    }
}

fn volume(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let modes: Vec<&str> = list(&spec["accessModes"])
        .map(|mode| match text(mode) {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    let claim = &spec["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    let terminating = !object["metadata"]["deletionTimestamp"].is_null();
    vec![
        name,
        json!(text(&spec["capacity"]["storage"])),
        json!(modes.join(",")),
        json!(text(&spec["persistentVolumeReclaimPolicy"])),
        json!(if terminating {
            "Terminating"
        } else {
            text(&object["status"]["phase"])
        }),
        json!(claim),
        json!(text(&spec["storageClassName"])),
        json!(or(&spec["volumeAttributesClassName"], "<unset>")),
        json!(text(&object["status"]["reason"])),
        age,
        json!(or(&spec["volumeMode"], "<unset>")),
    ]
}

/// Returns at most three entries, and how many more there are.
fn shortened(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        1..=3 => all.join(","),
        count => format!("{} + {} more...", all[..3].join(","), count - 3),
    }
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(&object["subsets"]) {
        let ports: Vec<&Value> = list(&subset["ports"]).collect();
        for address in list(&subset["addresses"]) {
            let ip = text(&address["ip"]);
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            for port in &ports {
                let number = &port["port"];
                all.push(if ip.contains(':') {
                    format!("[{ip}]:{number}")
                } else {
                    format!("{ip}:{number}")
                });
            }
        }
    }
    shortened(&all, "<none>")
}

fn slice_ports(object: &Value) -> String {
    let port = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => or(&port["name"], "*").to_owned(),
    };
    shortened(
        &list(&object["ports"]).map(port).collect::<Vec<_>>(),
        "<unset>",
    )
}

fn slice_addresses(object: &Value) -> String {
    let addresses = list(&object["endpoints"]).flat_map(|endpoint| list(&endpoint["addresses"]));
    shortened(
        &addresses
            .map(|address| text(address).to_owned())
            .collect::<Vec<_>>(),
        "<unset>",
    )
}
