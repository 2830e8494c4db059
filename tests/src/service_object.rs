//! Services as users write them.

use serde_json::{Value, json};

/// Returns a Service of type `LoadBalancer` that serves these ports over TCP.
#[must_use]
pub fn load_balancer(name: &str, ports: &[u16]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": name}},
        "spec": {"type": "LoadBalancer", "selector": {"app.kubernetes.io/name": name}, "ports": tcp(ports)},
    })
}

/// Ports as a Service lists them; each leads to the Pods' port of the same number.
#[must_use]
pub fn tcp(ports: &[u16]) -> Value {
    ports
        .iter()
        .map(|port| json!({"name": format!("tcp-{port}"), "protocol": "TCP", "port": port, "targetPort": port}))
        .collect()
}
