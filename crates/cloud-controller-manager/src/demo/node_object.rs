//! The Node object that a kubelet registers for a machine.

use cloud_provider::names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED};
use jiff::Timestamp;
use provider_simulated::cloud::Machine;
use serde_json::{Value, json};

/// Number of images in a Node's status. Kubelets report up to 50, which are most of a Node's size.
const IMAGES: usize = 25;

/// Returns the Node with the uninitialized taint that `--cloud-provider=external` adds, and with no address except the
/// host name.
pub(super) fn node_object(machine: &Machine, now: Timestamp) -> Value {
    let name = &machine.name;
    let resources = json!({
        "cpu": "4", "memory": "16384Mi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "0",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "amd64",
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"taints": [{"key": TAINT_UNINITIALIZED, "value": "true", "effect": EFFECT_NO_SCHEDULE}]},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions(true, now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": machine.id, "systemUUID": machine.id, "bootID": machine.id,
                "kernelVersion": "6.12.0-simulated", "osImage": "Simulated Linux",
                "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.37.2",
                "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
            },
            "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
        },
    })
}

/// Returns an image with its two names, about as long as real ones.
fn image(number: usize) -> Value {
    let repository = format!("registry.example.com/platform/component-{number:02}");
    // A placeholder with the 64 hexadecimal digits of a digest.
    let digest = format!("{number:02x}").repeat(32);
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{number}.0")],
        "sizeBytes": 20_000_000 + number * 1_000_000,
    })
}

/// Returns the conditions that a healthy kubelet reports, or that kube-controller-manager sets when the kubelet stops
/// reporting.
pub(super) fn conditions(ready: bool, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        let mut condition = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        // The kubelet's condition, which kube-controller-manager does not change.
        if ready {
            condition["lastHeartbeatTime"] = json!(now);
        }
        condition
    };
    let healthy = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        (
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        ),
    ];
    let conditions = healthy.map(|(kind, status, reason, message)| match ready {
        true => condition(kind, status, reason, message),
        false => condition(
            kind,
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
        ),
    });
    json!(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_registers_as_a_kubelet_with_an_external_cloud_registers_it() {
        let cloud = provider_simulated::cloud::Cloud::default();
        cloud.create_machines("n", 1);
        let object = node_object(&cloud.machines()[0], Timestamp::UNIX_EPOCH);
        let node: cloud_provider::Node = serde_json::from_value(object.clone()).unwrap();
        assert!(node.is_uninitialized() && node.provider_id().is_none());
        assert_eq!(node.addresses.len(), 1, "the host name alone");
        assert_eq!(object["status"]["images"].as_array().unwrap().len(), IMAGES);
    }

    #[test]
    fn a_silent_kubelet_leaves_all_conditions_unknown() {
        let conditions = conditions(false, Timestamp::UNIX_EPOCH);
        assert!(
            conditions
                .as_array()
                .unwrap()
                .iter()
                .all(|condition| condition["status"] == "Unknown")
        );
    }
}
