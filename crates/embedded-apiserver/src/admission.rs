//! Admission: changes that the real server's admission plugins make to requests.

use serde_json::{Value, json};

use crate::resources::Resource;
use crate::server::Options;

const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Changes a new object.
pub(crate) fn create(options: &Options, resource: &Resource, object: &mut Value) {
    if resource.plural == "nodes" && options.taint_new_nodes {
        // TaintNodesByCondition: nothing is scheduled before the node lifecycle controller has seen the Node.
        let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        let taints = object["spec"]["taints"].take();
        let mut taints = taints.as_array().cloned().unwrap_or_default();
        let existing_taints = taints
            .iter()
            .any(|t| t["key"] == taint["key"] && t["effect"] == taint["effect"]);
        if !existing_taints {
            taints.push(taint);
        }
        object["spec"]["taints"] = Value::Array(taints);
    }
    if resource.plural == "persistentvolumes" {
        // StorageObjectInUseProtection: a volume that is deleted waits until no claim uses it.
        let finalizers = object["metadata"]["finalizers"].take();
        let mut finalizers = finalizers.as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|name| name == VOLUME_PROTECTION) {
            finalizers.push(json!(VOLUME_PROTECTION));
        }
        object["metadata"]["finalizers"] = Value::Array(finalizers);
    }
}
