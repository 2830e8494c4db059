//! What the Go program has written to Services: its finalizers and labels, which end with their load balancers.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, Fence, Service};
use provider_kit::cluster::ClusterView;
use serde_json::{Value, json};

/// Interval between two passes over the Services.
const INTERVAL: Duration = Duration::from_secs(5);
/// The finalizer that the framework removes when the load balancer is deleted.
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The finalizers of the Go program: of CLBs and of NLBs.
const FINALIZERS: [&str; 2] = ["service.k8s.alibaba/resources", "service.k8s.alibaba/nlb"];
/// The labels of the Go program.
const LABELS: [&str; 3] =
    ["service.beta.kubernetes.io/hash", "service.k8s.alibaba/loadbalancer-id", "service.k8s.alibaba/security-group-id"];

/// Removes finalizers and labels of the Go program from Services whose load balancer the framework has deleted.
pub(crate) async fn clean_up(cluster: ClusterView, caches: Arc<dyn Caches>, fence: Fence) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for service in caches.services().iter().filter(|_| fence.is_open()) {
            let Some(patch) = patch(service) else { continue };
            let [namespace, name] =
                [&service.metadata.namespace, &service.metadata.name].map(|it| it.as_deref().unwrap_or_default());
            let path = format!("/api/v1/namespaces/{namespace}/services/{name}");
            if let Err(error) = cluster.patch_status(&path, &patch).await {
                tracing::warn!(%error, service = format!("{namespace}/{name}"), "finalizers of the Go program stay");
            }
        }
    }
}

/// Returns the patch of a Service that has no load balancer any more, if the Go program has left something.
fn patch(service: &Service) -> Option<Value> {
    let metadata = &service.metadata;
    let has = |finalizer: &str| metadata.finalizers.iter().flatten().any(|it| it == finalizer);
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    let is_leaving = metadata.deletion_timestamp.is_some() || kind != Some("LoadBalancer");
    if !is_leaving || has(CLEANUP) || !FINALIZERS.into_iter().any(has) {
        return None;
    }
    let labels: Value = LABELS.into_iter().map(|label| (label.to_owned(), Value::Null)).collect();
    Some(
        json!({"metadata": {"uid": metadata.uid, "labels": labels, "$deleteFromPrimitiveList/finalizers": FINALIZERS}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_of_the_go_program_end_after_that_of_the_framework() {
        let service = |kind: &str, finalizers: &[&str]| -> Service {
            let it = json!({"metadata": {"name": "web", "finalizers": finalizers}, "spec": {"type": kind}});
            serde_json::from_value(it).unwrap()
        };
        assert_eq!(patch(&service("LoadBalancer", &FINALIZERS)), None, "the load balancer is in use");
        assert_eq!(patch(&service("ClusterIP", &[CLEANUP, FINALIZERS[0]])), None, "the load balancer may be there");
        assert_eq!(patch(&service("ClusterIP", &[])), None);
        let patch = patch(&service("ClusterIP", &FINALIZERS[..1])).unwrap();
        assert_eq!(patch["metadata"]["$deleteFromPrimitiveList/finalizers"], json!(FINALIZERS));
        assert_eq!(patch["metadata"]["labels"][LABELS[0]], Value::Null);
    }
}
