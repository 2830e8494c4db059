//! The Kubernetes objects that the provider keeps: the ID of the cluster, finalizers of Services, and fields of Nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, Error, Result, Service};
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use serde_json::json;

use crate::config::Config;
use crate::load_balancers::Spec;

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const CONFIG_MAP: &str = "ingress-uid";
/// Writes of an object that another client changes at the same time.
const ATTEMPTS: usize = 3;
/// Longest age of the ID of the cluster.
const ID_AGE: Duration = Duration::from_secs(600);
/// Interval of the look at Services.
const SERVICE_INTERVAL: Duration = Duration::from_secs(5);
/// Condition of a Service whose ports a load balancer cannot have.
const PORTS_CONDITION: &str = "LoadBalancerPortsError";
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

    /// Returns the ID of the cluster in names of shared objects, from ConfigMap `kube-system/ingress-uid`.
    pub(crate) async fn cluster_id(&self) -> Result<Arc<String>> {
        Ok(self.id.get(ID_AGE, async || self.read_id().await).await?.0)
    }

    async fn read_id(&self) -> Result<String> {
        let odd = |text: String| Error::other(format!("ConfigMap kube-system/{CONFIG_MAP}: {text}"));
        for _ in 0..ATTEMPTS {
            let (status, found) = self.cluster.get(&format!("{CONFIG_MAPS}/{CONFIG_MAP}")).await?;
            let text = |key: &str| found["data"][key].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
            match (status.as_u16(), text("provider-uid").or(text("uid"))) {
                (200, Some(id)) => return Ok(id),
                (200, None) => return Err(odd("it has neither provider-uid nor uid; add one".to_owned())),
                (404, _) => {}
                (status, _) => return Err(odd(format!("the read was answered with {status}"))),
            }
            let id = format!("{:016x}", fastrand::u64(..));
            let body = json!({"metadata": {"name": CONFIG_MAP}, "data": {"uid": id, "provider-uid": id}});
            match self.cluster.create(CONFIG_MAPS, &body).await?.as_u16() {
                201 => return Ok(id),
                // Another program created the map.
                409 => {}
                status => return Err(odd(format!("the creation was answered with {status}"))),
            }
        }
        Err(odd("it was created and deleted again".to_owned()))
    }

    /// Adds the finalizer of the Go program to a Service, so that it leaves the Service to its own kind after a migration back.
    pub(crate) async fn add_finalizer(&self, service: &Service, is_internal: bool) -> Result<()> {
        let (finalizer, mut known) = (FINALIZERS[usize::from(is_internal)], service.clone());
        for _ in 0..ATTEMPTS {
            let all: Vec<_> = finalizers(&known).chain([finalizer]).map(str::to_owned).collect();
            if finalizers(&known).any(|it| it == finalizer) || self.set_finalizers(&known, &all).await? {
                return Ok(());
            }
            // The Service has changed since the cache showed it.
            let (status, shown) = self.cluster.get(&path(service)).await?;
            known = serde_json::from_value(shown)
                .map_err(|_| Error::conflict(format!("the Service was read again, and the answer was {status}")))?;
        }
        Err(Error::conflict(format!("the Service changed {ATTEMPTS} times while finalizer {finalizer} was added")))
    }

    async fn set_finalizers(&self, service: &Service, all: &[String]) -> Result<bool> {
        let patch = json!({"metadata": {"resourceVersion": service.metadata.resource_version, "finalizers": all}});
        self.cluster.patch(&path(service), &patch).await
    }

    /// Removes the finalizers of the Go program from Services whose load balancer the framework has deleted, and sets the
    /// condition of Services with several protocols.
    pub(crate) async fn tend_services(self, caches: Arc<dyn Caches>, config: Arc<Config>) {
        loop {
            tokio::time::sleep(SERVICE_INTERVAL).await;
            for service in caches.services() {
                if let Err(error) = self.tend(&service, &config).await {
                    tracing::warn!(%error, service = service.metadata.name, "Service not updated");
                }
            }
        }
    }

    async fn tend(&self, service: &Service, config: &Config) -> Result<()> {
        if is_done(service) {
            let rest: Vec<_> = finalizers(service).filter(|it| !FINALIZERS.contains(it)).map(str::to_owned).collect();
            self.set_finalizers(service, &rest).await?;
        }
        let Some(status) = ports_condition(service).filter(|_| !Spec::of(service, config).spec.is_elsewhere) else {
            return Ok(());
        };
        let (reason, message) = match status {
            "True" => ("LoadBalancerMixedProtocolNotSupported", "TCP and UDP in one Service are not supported"),
            _ => ("LoadBalancerPortsSupported", "all ports have the same protocol"),
        };
        let condition = json!({"type": PORTS_CONDITION, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": jiff::Timestamp::now().to_string()});
        self.cluster.patch_conditions(&path(service), &[condition]).await.map(drop)
    }
}

/// Returns the path of a Service.
fn path(service: &Service) -> String {
    let [namespace, name] =
        [&service.metadata.namespace, &service.metadata.name].map(|it| it.as_deref().unwrap_or_default());
    format!("/api/v1/namespaces/{namespace}/services/{name}")
}

/// Returns the status that the condition about ports should have; `None` if nothing needs to be written.
fn ports_condition(service: &Service) -> Option<&'static str> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("LoadBalancer"))?;
    let protocols: BTreeSet<_> =
        spec.ports.iter().flatten().map(|it| it.protocol.as_deref().unwrap_or("TCP")).collect();
    let conditions = service.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let before = conditions.filter(|it| it.type_ == PORTS_CONDITION).map(|it| &*it.status).next();
    let status = if protocols.len() > 1 { "True" } else { "False" };
    (before.unwrap_or("False") != status).then_some(status)
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
