//! Update strategies: the main endpoint does not change the status, and the status endpoint does not change the spec.

use serde_json::{Value, json};

use crate::defaults::items_mut;
use crate::resources::Resource;

/// Moves `stringData`, which is write-only, to `data`.
pub(crate) fn write_only_strings(secret: &mut Value) {
    use base64::Engine as _;
    let Some(map) = secret.as_object_mut() else {
        return;
    };
    let Some(Value::Object(strings)) = map.remove("stringData") else {
        return;
    };
    let data = map.entry("data").or_insert_with(|| json!({}));
    for (key, value) in strings {
        data[key] = json!(
            base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default())
        );
    }
}

/// Prepares a new object.
pub(crate) fn create(resource: &Resource, object: &mut Value, now: &str) {
    match resource.plural {
        "services" => {
            object["status"] = json!({"loadBalancer": {}});
            drop_type_dependent(object, None);
        }
        "namespaces" => {
            object["status"] = json!({"phase": "Active"});
            object["spec"] = json!({"finalizers": ["kubernetes"]});
        }
        "persistentvolumes" => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        "endpointslices" => object["metadata"]["generation"] = json!(1),
        _ => {}
    }
}

/// Prepares a new version of an object.
pub(crate) fn update(resource: &Resource, subresource: &str, new: &mut Value, old: &Value) {
    if resource.plural == "endpointslices" {
        let same = ["addressType", "endpoints", "ports"]
            .iter()
            .all(|field| new[*field] == old[*field]);
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
        new["metadata"]["generation"] = json!(if same { generation } else { generation + 1 });
    }
    if !resource.has_status {
        return;
    }
    match subresource {
        "" => {
            copy(new, old, "status");
            if resource.plural == "namespaces" {
                copy(new, old, "spec");
            }
            if resource.plural == "services" {
                keep_allocated(new, old);
                drop_type_dependent(new, Some(old));
            }
        }
        "finalize" => copy(new, old, "status"),
        _ => copy(new, old, "spec"),
    }
}

fn copy(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => {
            if let Some(map) = new.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

/// Keeps the values that were allocated for a Service, also if the writer omits them.
fn keep_allocated(new: &mut Value, old: &Value) {
    let kind = |service: &Value| {
        service["spec"]["type"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let before = kind(old);
    let after = kind(new);
    let old = &old["spec"];
    let spec = &mut new["spec"];
    if before != "ExternalName" && after != "ExternalName" && old["clusterIP"].is_string() {
        for field in ["clusterIP", "clusterIPs"] {
            if spec[field].is_null() {
                spec[field] = old[field].clone();
            }
        }
    }
    let has_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if has_ports(&before) && has_ports(&after) {
        let old_ports: Vec<Value> = old["ports"].as_array().cloned().unwrap_or_default();
        let listed = |spec: &Value, port: &Value| {
            spec["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|other| other["nodePort"] == *port)
        };
        let kept: Vec<&Value> = old_ports
            .iter()
            .filter(|port| !listed(spec, &port["nodePort"]))
            .collect();
        let mut free: Vec<(Value, Value)> = kept
            .iter()
            .map(|p| (p["name"].clone(), p["nodePort"].clone()))
            .collect();
        for port in items_mut(spec, "ports").filter(|port| port["nodePort"].is_null()) {
            let name = &port["name"];
            if let Some(index) = free
                .iter()
                .position(|(of, number)| of == name && !number.is_null())
            {
                port["nodePort"] = free.remove(index).1;
            }
        }
    }
    let checks = |kind: &str, spec: &Value| {
        kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
    };
    if checks(&before, old) && checks(&after, spec) && spec["healthCheckNodePort"].is_null() {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
    if let Some(map) = spec.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
}

/// Removes the fields of a Service's old type that the new type lacks, unless the writer set them again.
fn drop_type_dependent(new: &mut Value, old: Option<&Value>) {
    let kind = new["spec"]["type"].as_str().unwrap_or_default().to_owned();
    let Some(old) = old else { return };
    let before = old["spec"]["type"].as_str().unwrap_or_default().to_owned();
    let spec = &mut new["spec"];
    let remove = |spec: &mut Value, field: &str| {
        if let Some(map) = spec.as_object_mut()
            && map.get(field) == old["spec"].get(field)
        {
            map.remove(field);
        }
    };
    let has_node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if kind == "ExternalName" && before != "ExternalName" {
        for field in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ] {
            remove(spec, field);
        }
    }
    if has_node_ports(&before) && !has_node_ports(&kind) {
        let old_ports: Vec<Value> = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for port in items_mut(spec, "ports") {
            let same = old_ports.iter().any(|o| o["nodePort"] == port["nodePort"]);
            if same && let Some(map) = port.as_object_mut() {
                map.remove("nodePort");
            }
        }
    }
    let needs_check = |service_type: &str, spec: &Value| {
        service_type == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
    };
    if needs_check(&before, &old["spec"]) && !needs_check(&kind, spec) {
        remove(spec, "healthCheckNodePort");
    }
    if before == "LoadBalancer" && kind != "LoadBalancer" {
        remove(spec, "allocateLoadBalancerNodePorts");
        remove(spec, "loadBalancerClass");
        new["status"]["loadBalancer"] = json!({});
    }
    let spec = &mut new["spec"];
    let external = spec["externalIPs"]
        .as_array()
        .is_some_and(|ips| !ips.is_empty());
    if has_node_ports(&before) && !has_node_ports(&kind) && !external {
        remove(spec, "externalTrafficPolicy");
    }
    if kind != "ExternalName" && before == "ExternalName" {
        remove(spec, "externalName");
    }
}
