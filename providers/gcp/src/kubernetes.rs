//! The Kubernetes objects that the provider keeps: the ID of the cluster, finalizers of Services, and fields of Nodes.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, Error, Result, Service};
use http::Request;
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const CONFIG_MAP: &str = "ingress-uid";
/// Longest age of the ID of the cluster.
const ID_AGE: Duration = Duration::from_secs(600);
const FINALIZER_AGE: Duration = Duration::from_secs(5);
/// The finalizer that the framework removes when the load balancer is deleted.
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The finalizers of the Go program: of external and of internal load balancers.
pub(crate) const FINALIZERS: [&str; 2] = ["gke.networking.io/l4-netlb-v1", "gke.networking.io/l4-ilb-v1"];

/// Reads and changes Kubernetes objects.
#[derive(Clone)]
pub(crate) struct Kubernetes {
    pub(crate) cluster: ClusterView,
    id: Arc<Cached<String>>,
}

impl Kubernetes {
    pub(crate) fn new(cluster: ClusterView) -> Self {
        Self { cluster, id: Arc::default() }
    }

    async fn send(&self, request: http::request::Builder, body: Option<Value>) -> Result<(u16, Value)> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(|error| Error::other(error.to_string()))?;
        let answer = self.cluster.api()?.send(request).await?;
        Ok((answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or_default()))
    }

    /// Sends a merge patch; `false`: the object has changed meanwhile, or does not exist any more.
    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Result<bool> {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        match self.send(request, Some(patch)).await?.0 {
            200..300 => Ok(true),
            404 | 409 | 422 => Ok(false),
            status => Err(Error::other(format!("patch of {path} answered {status}"))),
        }
    }

    /// Merges conditions by their types into the status of an object.
    pub(crate) async fn patch_status(&self, path: &str, patch: Value) -> Result<()> {
        let request = Request::patch(format!("{path}/status"));
        let request = request.header("content-type", "application/strategic-merge-patch+json");
        self.send(request, Some(patch)).await.map(drop)
    }

    /// Returns the ID of the cluster in names of shared objects, from ConfigMap `kube-system/ingress-uid`.
    pub(crate) async fn cluster_id(&self) -> Result<Arc<String>> {
        Ok(self.id.get(ID_AGE, async || self.read_id().await).await?.0)
    }

    async fn read_id(&self) -> Result<String> {
        for _ in 0..3 {
            let (status, found) = self.send(Request::get(format!("{CONFIG_MAPS}/{CONFIG_MAP}")), None).await?;
            let text = |key: &str| found["data"][key].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
            match (status, text("provider-uid").or(text("uid"))) {
                (200, Some(id)) => return Ok(id),
                (200, None) => {
                    return Err(Error::invalid(format!(
                        "ConfigMap kube-system/{CONFIG_MAP} has neither provider-uid nor uid"
                    )));
                }
                (404, _) => {
                    let id = format!("{:016x}", fastrand::u64(..));
                    let body = json!({"metadata": {"name": CONFIG_MAP}, "data": {"uid": id, "provider-uid": id}});
                    let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
                    match self.send(request, Some(body)).await?.0 {
                        201 => return Ok(id),
                        // Another program was faster.
                        409 => {}
                        status => {
                            return Err(Error::other(format!("creation of ConfigMap {CONFIG_MAP} answered {status}")));
                        }
                    }
                }
                (status, _) => return Err(Error::other(format!("read of ConfigMap {CONFIG_MAP} answered {status}"))),
            }
        }
        Err(Error::other(format!("ConfigMap kube-system/{CONFIG_MAP} does not stay")))
    }

    /// Adds the finalizer of the Go program to a Service, so that it leaves the Service to its own kind after a migration back.
    pub(crate) async fn add_finalizer(&self, service: &Service, is_internal: bool) -> Result<()> {
        let finalizer = FINALIZERS[usize::from(is_internal)];
        if finalizers(service).any(|it| it == finalizer) {
            return Ok(());
        }
        let all: Vec<_> = finalizers(service).chain([finalizer]).map(str::to_owned).collect();
        self.set_finalizers(service, &all).await.map(drop)
    }

    async fn set_finalizers(&self, service: &Service, all: &[String]) -> Result<bool> {
        let meta = &service.metadata;
        let [namespace, name] = [&meta.namespace, &meta.name].map(|it| it.as_deref().unwrap_or_default());
        let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": all}});
        self.patch(&format!("/api/v1/namespaces/{namespace}/services/{name}"), patch).await
    }

    /// Removes the finalizers of the Go program from Services whose load balancer the framework has deleted.
    pub(crate) async fn remove_finalizers(self, caches: Arc<dyn Caches>) {
        loop {
            tokio::time::sleep(FINALIZER_AGE).await;
            for service in caches.services().iter().filter(|service| is_done(service)) {
                let rest: Vec<_> =
                    finalizers(service).filter(|it| !FINALIZERS.contains(it)).map(str::to_owned).collect();
                if let Err(error) = self.set_finalizers(service, &rest).await {
                    tracing::warn!(%error, "finalizers of a Service are not removed");
                }
            }
        }
    }
}

fn finalizers(service: &Service) -> impl Iterator<Item = &str> {
    service.metadata.finalizers.iter().flatten().map(String::as_str)
}

/// Returns `true` if a Service has a finalizer of the Go program, and no load balancer any more.
fn is_done(service: &Service) -> bool {
    let is_other = service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() != Some("LoadBalancer"));
    (is_other || service.metadata.deletion_timestamp.is_some())
        && finalizers(service).any(|it| FINALIZERS.contains(&it))
        && !finalizers(service).any(|it| it == CLEANUP)
}
