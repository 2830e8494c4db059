//! Finalizers and labels that the Go program has written to Services, and that end with their load balancers.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::names::ANNOTATION_ABANDON_LOAD_BALANCER;
use cloud_provider::{Caches, Cluster, Fence, LoadBalancerRequest, LoadBalancers, Service};
use provider_kit::cluster::ClusterView;
use provider_kit::load_balancers::LoadBalancerEngine;
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

/// Removes finalizers and labels of the Go program from Services that need no load balancer any more.
///
/// The framework deletes load balancers of Services with its own finalizer only. A Service that was deleted before the
/// first sync has none and cannot get one: its load balancer is deleted here.
pub(crate) async fn clean_up(
    cluster: ClusterView,
    load_balancers: Arc<LoadBalancerEngine>,
    cluster_name: Cluster,
    caches: Arc<dyn Caches>,
    fence: Fence,
) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for service in caches.services().iter().filter(|_| fence.is_open()) {
            let Some(patch) = patch(service) else { continue };
            let [namespace, name] =
                [&service.metadata.namespace, &service.metadata.name].map(|it| it.as_deref().unwrap_or_default());
            let path = format!("/api/v1/namespaces/{namespace}/services/{name}");
            let outcome = async {
                if !is_abandoned(service) {
                    let request = LoadBalancerRequest { cluster: &cluster_name, service, nodes: &[], callbacks: &() };
                    load_balancers.delete(request).await?;
                }
                // The process may have stopped leading while the load balancer was deleted.
                if fence.is_open() { cluster.patch_status(&path, &patch).await.map(drop) } else { Ok(()) }
            };
            if let Err(error) = outcome.await {
                let service = format!("{namespace}/{name}");
                tracing::warn!(%error, service, "cannot remove finalizers of the Go cloud controller manager");
            }
        }
    }
}

/// Returns `true` if the load balancer stays although its Service is deleted, as an annotation asks.
fn is_abandoned(service: &Service) -> bool {
    let metadata = &service.metadata;
    let asked = metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_ABANDON_LOAD_BALANCER));
    metadata.deletion_timestamp.is_some() && asked.is_some_and(|value| value == "true")
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
