//! Defaults that the real server fills in when it decodes an object.

use serde_json::{Value, json};

use crate::resources::Resource;

/// Fills in what the object leaves open.
pub(crate) fn apply(resource: &Resource, object: &mut Value) {
    match resource.plural {
        "services" => service(object),
        "nodes" => node(object),
        "namespaces" => namespace(object),
        "persistentvolumes" => volume(object),
        "secrets" => {
            crate::strategy::write_only_strings(object);
            set(object, "type", "Opaque");
        }
        "endpoints" => endpoints(object),
        "endpointslices" => slice(object),
        _ => {}
    }
}

fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if object[field].is_null() {
        object[field] = value.into();
    }
}

fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    set(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP"
        && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
    }
    set(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        set(port, "protocol", "TCP");
        if port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let external = spec["externalIPs"]
        .as_array()
        .is_some_and(|ips| !ips.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && external) {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
        for ingress in items_mut(&mut object["status"]["loadBalancer"], "ingress") {
            if ingress["ip"].is_string() {
                set(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// Returns the items of the list at a field, to be changed. (Indexing mutably would add the field where it is missing.)
pub(crate) fn items_mut<'a>(
    value: &'a mut Value,
    field: &str,
) -> impl Iterator<Item = &'a mut Value> {
    value
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn node(object: &mut Value) {
    // The single Pod CIDR is the first of the list.
    let spec = &mut object["spec"];
    let single = spec["podCIDR"].as_str().unwrap_or_default().to_owned();
    if !single.is_empty() && spec["podCIDRs"][0] != single {
        spec["podCIDRs"] = json!([single]);
    } else if single.is_empty() && spec["podCIDRs"][0].is_string() {
        spec["podCIDR"] = spec["podCIDRs"][0].clone();
    }
    // A Node's allocatable resources default to its capacity.
    let status = &mut object["status"];
    let capacity = status["capacity"].clone();
    if capacity.is_object() {
        let mut allocatable = status["allocatable"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (name, quantity) in capacity.as_object().into_iter().flatten() {
            allocatable
                .entry(name.clone())
                .or_insert_with(|| quantity.clone());
        }
        status["allocatable"] = Value::Object(allocatable);
    }
}

fn namespace(object: &mut Value) {
    set(&mut object["status"], "phase", "Active");
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if !name.is_empty() {
        let metadata = &mut object["metadata"];
        if metadata["labels"].is_null() {
            metadata["labels"] = json!({});
        }
        set(&mut metadata["labels"], "kubernetes.io/metadata.name", name);
    }
}

fn volume(object: &mut Value) {
    set(&mut object["status"], "phase", "Pending");
    let spec = &mut object["spec"];
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if spec["hostPath"].is_object() && spec["hostPath"]["type"].is_null() {
        spec["hostPath"]["type"] = json!("");
    }
}

fn endpoints(object: &mut Value) {
    for subset in items_mut(object, "subsets") {
        for port in items_mut(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

fn slice(object: &mut Value) {
    for port in items_mut(object, "ports") {
        set(port, "name", "");
        set(port, "protocol", "TCP");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_gets_the_defaults_of_its_type() {
        let services = crate::resources::by_plural("services").unwrap();
        let mut service = json!({"metadata": {}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}});
        apply(services, &mut service);
        assert_eq!(
            service["spec"],
            json!({
                "type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            })
        );
        assert_eq!(
            service["status"]["loadBalancer"]["ingress"],
            json!([{"ip": "1.1.1.1", "ipMode": "VIP"}])
        );
    }
}
