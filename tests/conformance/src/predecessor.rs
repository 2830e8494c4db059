//! The Service for which a cloud's own controller manager left a load balancer, in tests that take over from it.

use serde_json::{Map, Value, json};

/// UID of the Service.
pub const UID: &str = "6e1f0000-0000-4000-8000-00000000abcd";
/// Ports of the Service: port and node port.
pub const PORTS: [(u16, u16); 2] = [(80, 30_080), (443, 30_443)];

/// Returns the Service `web` as its user wrote it, with these annotations, its ports over `protocol`.
#[must_use]
pub fn service(annotations: &Map<String, Value>, protocol: &str) -> Value {
    let ports = PORTS.map(|(port, node_port)| {
        json!({"name": format!("p{port}"), "port": port, "protocol": protocol, "targetPort": 8080, "nodePort": node_port})
    });
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "uid": UID, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports, "clusterIP": "10.96.0.7",
            "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None", "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "allocateLoadBalancerNodePorts": true}})
}

/// Returns the Service as the Go cloud-controller-manager left it, with this `ingress` in its status.
#[must_use]
pub fn served(mut service: Value, ingress: &Value) -> Value {
    service["metadata"]["finalizers"] = json!(["service.kubernetes.io/load-balancer-cleanup"]);
    service["status"] = json!({"loadBalancer": {"ingress": ingress}});
    service
}

/// Sets in `into` what `from` has.
pub fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}
