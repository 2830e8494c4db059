//! Labels of Services with the IDs of their load balancers, and finalizers and labels that the Go program has left.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::names::ANNOTATION_ABANDON_LOAD_BALANCER;
use cloud_provider::{Caches, Cluster, Fence, LoadBalancerRequest, LoadBalancers, Result, Service};
use provider_kit::cluster::ClusterView;
use provider_kit::load_balancers::LoadBalancerEngine;
use serde_json::{Value, json};

use crate::annotations::ID_LABEL;
use crate::load_balancers::Ids;

/// Interval between two passes over the Services.
const INTERVAL: Duration = Duration::from_secs(5);
/// The finalizer that the framework removes when the load balancer is deleted.
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The finalizers of the Go program: of CLBs and of NLBs.
const FINALIZERS: [&str; 2] = ["service.k8s.alibaba/resources", "service.k8s.alibaba/nlb"];
/// The labels of the Go program.
const LABELS: [&str; 3] = [
    "service.beta.kubernetes.io/hash",
    ID_LABEL,
    "service.k8s.alibaba/security-group-id",
];

/// A task that keeps the labels and finalizers of the Go program on Services.
pub(crate) struct Labels {
    pub(crate) cluster: ClusterView,
    pub(crate) load_balancers: Arc<LoadBalancerEngine>,
    pub(crate) cluster_name: Cluster,
    pub(crate) fence: Fence,
    pub(crate) ids: Ids,
}

impl Labels {
    /// Writes the label with the ID of the load balancer, and removes what the Go program has left on Services that need
    /// no load balancer any more.
    ///
    /// The framework deletes load balancers of Services with its own finalizer only. A Service that was deleted before
    /// the first sync has none and cannot get one: its load balancer is deleted here.
    pub(crate) async fn run(self, caches: Arc<dyn Caches>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            for service in caches.services().iter().filter(|_| self.fence.is_open()) {
                if let Err(error) = self.update(service).await {
                    let metadata = &service.metadata;
                    let service = [&metadata.namespace, &metadata.name]
                        .map(|entry| entry.as_deref().unwrap_or_default());
                    tracing::warn!(%error, service = service.join("/"), "cannot update labels of the Service");
                }
            }
        }
    }

    async fn update(&self, service: &Service) -> Result<()> {
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let id = self.ids.lock().get(uid).cloned();
        let (patch, is_leaving) = match patch(service) {
            Some(patch) => (patch, true),
            None => match id.and_then(|id| label(service, &id)) {
                Some(patch) => (patch, false),
                None => return Ok(()),
            },
        };
        if is_leaving {
            self.ids.lock().remove(uid);
            if has_finalizer(service) && !is_abandoned(service) {
                let cluster = &self.cluster_name;
                let nodes = &[][..];
                let callbacks = &();
                self.load_balancers
                    .delete(LoadBalancerRequest {
                        cluster,
                        service,
                        nodes,
                        callbacks,
                    })
                    .await?;
            }
        }
        // The process may have stopped leading while the load balancer was deleted.
        if !self.fence.is_open() {
            return Ok(());
        }
        let [namespace, name] = [&service.metadata.namespace, &service.metadata.name]
            .map(|entry| entry.as_deref().unwrap_or_default());
        self.cluster
            .patch_status(
                &format!("/api/v1/namespaces/{namespace}/services/{name}"),
                &patch,
            )
            .await
            .map(drop)
    }
}

fn needs_load_balancer(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    service.metadata.deletion_timestamp.is_none() && kind == Some("LoadBalancer")
}

/// Returns `true` for a Service that the Go program has begun to sync.
pub(crate) fn has_finalizer(service: &Service) -> bool {
    service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| FINALIZERS.contains(&&**finalizer))
}

/// Returns the patch of a Service that does not show the ID of its load balancer.
fn label(service: &Service, id: &str) -> Option<Value> {
    let shown = service
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(ID_LABEL));
    let is_due =
        needs_load_balancer(service) && !id.is_empty() && shown.is_none_or(|entry| entry != id);
    is_due.then(|| json!({"metadata": {"uid": service.metadata.uid, "labels": {ID_LABEL: id}}}))
}

/// Returns `true` if the load balancer stays although its Service is deleted, as an annotation asks.
fn is_abandoned(service: &Service) -> bool {
    let metadata = &service.metadata;
    let asked = metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_ABANDON_LOAD_BALANCER));
    metadata.deletion_timestamp.is_some() && asked.is_some_and(|value| value == "true")
}

/// Returns the patch of a Service that has no load balancer any more, if something of the Go program is left.
fn patch(service: &Service) -> Option<Value> {
    let metadata = &service.metadata;
    let has = |finalizer: &str| {
        metadata
            .finalizers
            .iter()
            .flatten()
            .any(|other_finalizer| other_finalizer == finalizer)
    };
    let has_label = metadata
        .labels
        .as_ref()
        .is_some_and(|labels| LABELS.iter().any(|label| labels.contains_key(*label)));
    if needs_load_balancer(service) || has(CLEANUP) || !has_finalizer(service) && !has_label {
        return None;
    }
    let labels: Value = LABELS
        .into_iter()
        .map(|label| (label.to_owned(), Value::Null))
        .collect();
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
            let entry = json!({"metadata": {"name": "web", "finalizers": finalizers}, "spec": {"type": kind}});
            serde_json::from_value(entry).unwrap()
        };
        assert_eq!(
            patch(&service("LoadBalancer", &FINALIZERS)),
            None,
            "the load balancer is in use"
        );
        assert_eq!(
            patch(&service("ClusterIP", &[CLEANUP, FINALIZERS[0]])),
            None,
            "the load balancer may be there"
        );
        assert_eq!(patch(&service("ClusterIP", &[])), None);
        let labelled = |kind: &str, id: &str| {
            let mut object = service(kind, &[]);
            object.metadata.labels = Some([(ID_LABEL.to_owned(), id.to_owned())].into());
            object
        };
        assert!(
            patch(&labelled("ClusterIP", "lb-1")).is_some(),
            "the label of this program ends, too"
        );
        assert_eq!(label(&labelled("LoadBalancer", "lb-1"), "lb-1"), None);
        let shown = label(&labelled("LoadBalancer", "lb-1"), "lb-2").unwrap();
        assert_eq!(shown["metadata"]["labels"][ID_LABEL], "lb-2");
        let patch = patch(&service("ClusterIP", &FINALIZERS[..1])).unwrap();
        assert_eq!(
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"],
            json!(FINALIZERS)
        );
        assert_eq!(patch["metadata"]["labels"][LABELS[0]], Value::Null);
    }
}
