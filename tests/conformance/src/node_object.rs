//! Nodes as kubelets with `--cloud-provider=external` register them.

use cloud_provider::names::TAINT_UNINITIALIZED;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Returns a Node that registers itself: the start-up taint, the labels of a kubelet and of a distribution, its
/// capacity, its conditions, and `images` container images (each with a digest and a tag, most of a Node's size).
#[must_use]
pub fn registration(name: &str, images: usize, is_ready: bool) -> Value {
    let resources = json!({"cpu": "8", "memory": "32654340Ki", "pods": "110", "ephemeral-storage": "101430960Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
                "node.kubernetes.io/role": "worker", "example.com/pool": "general-purpose", "example.com/generation": "2024-06",
                "example.com/team": "platform", "example.com/billing": "on-demand",
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"taints": [{"key": TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": conditions(is_ready),
            "addresses": [{"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": (0..images).map(image).collect::<Vec<_>>(),
            "nodeInfo": {
                "machineID": format!("{:032x}", hash(name)), "systemUUID": format!("{:032x}", hash(name)), "bootID": format!("{:032x}", !hash(name)),
                "kernelVersion": "6.8.0-45-generic", "osImage": "Debian GNU/Linux 12 (bookworm)",
                "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.37.2", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

/// Returns a status patch (strategic merge) with which a kubelet, or the node lifecycle controller for it, reports its
/// readiness.
#[must_use]
pub fn readiness(is_ready: bool) -> Value {
    json!({"status": {"conditions": [ready_condition(is_ready)]}})
}

fn ready_condition(is_ready: bool) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (status, reason, message) = match is_ready {
        true => ("True", "KubeletReady", "kubelet is posting ready status"),
        false => ("False", "KubeletNotReady", "node is shutting down"),
    };
    json!({"type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now})
}

fn conditions(is_ready: bool) -> Vec<Value> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let fine = [
        (
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
    ];
    let fine = fine.map(|(kind, reason, message)| {
        json!({"type": kind, "status": "False", "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    });
    fine.into_iter()
        .chain([ready_condition(is_ready)])
        .collect()
}

fn image(number: usize) -> Value {
    json!({"sizeBytes": (number + 1) << 20, "names": [
        format!("registry.example.com/platform/service-{number:02}@sha256:{number:064x}"),
        format!("registry.example.com/platform/service-{number:02}:v1.{number}.0"),
    ]})
}

/// Returns a number that differs from name to name.
fn hash(name: &str) -> u128 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
