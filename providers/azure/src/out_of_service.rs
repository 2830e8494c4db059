//! The out-of-service taint: lets Kubernetes move the Pods and volumes of a Node whose machine is shut down.

use std::time::Duration;

use cloud_provider::names::TAINT_SHUTDOWN;
use cloud_provider::{ConditionStatus, Node};
use provider_kit::cluster::ClusterView;
use serde_json::{Value, json};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const INTERVAL: Duration = Duration::from_secs(5);

/// Returns the taints that a Node is to have; `None` if they are right. The taint of the machine's state is that of this
/// program, which has proven it.
fn wanted(node: &Node) -> Option<Vec<Value>> {
    let has = |key: &str| node.taints.iter().any(|taint| &*taint.key == key);
    let is_ready = node.ready == ConditionStatus::True;
    let kept = node
        .taints
        .iter()
        .filter(|taint| &*taint.key != OUT_OF_SERVICE);
    let mut taints: Vec<Value> = kept.map(|taint| json!(taint)).collect();
    match (has(OUT_OF_SERVICE), is_ready) {
        (true, true) => Some(taints),
        (false, false) if has(TAINT_SHUTDOWN) => {
            taints.push(
                json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}),
            );
            Some(taints)
        }
        _ => None,
    }
}

/// Taints Nodes whose machines are shut down, and removes the taint from those that are ready again.
pub(crate) async fn follow_shutdowns(cluster: ClusterView) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for node in cluster.nodes().unwrap_or_default() {
            let Some(taints) = wanted(&node) else {
                continue;
            };
            // A Node that changed meanwhile is looked at again.
            let patch = json!({
                "metadata": {"uid": node.uid, "resourceVersion": node.resource_version}, "spec": {"taints": taints},
            });
            match cluster.patch_node(&node.name, &patch).await {
                Ok(is_written) => tracing::info!(
                    node = &*node.name,
                    is_written,
                    "out-of-service taint changed"
                ),
                Err(error) => {
                    tracing::warn!(node = &*node.name, %error, "cannot change the out-of-service taint");
                }
            }
        }
    }
}
