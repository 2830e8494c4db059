//! The Kubernetes objects that the provider keeps: the ID of the cluster, finalizers of Services, and fields of Nodes.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, CloudMetrics, Error, Result, Service};
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use serde_json::json;

use crate::config::Config;
use crate::load_balancers::Spec;
use crate::metrics::{LoadBalancerCounts, report_feature_gates};

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const CONFIG_MAP: &str = "ingress-uid";
/// Attempts to create an object that another client creates or deletes at the same time.
const ATTEMPTS: usize = 3;
/// Longest age of the ID of the cluster.
const ID_AGE: Duration = Duration::from_secs(600);
/// Interval between two passes over the Services.
const SERVICE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of passes for one count of load balancers.
const PASSES_OF_A_COUNT: u64 = 12;
/// Condition by which the Go program refuses a Service with TCP and UDP ports.
const PORTS_CONDITION: &str = "LoadBalancerPortsError";
/// The finalizer that the framework removes when the load balancer is deleted.
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The finalizers of the Go program: of external and of internal load balancers.
pub(crate) const FINALIZERS: [&str; 2] = [
    "gke.networking.io/l4-netlb-v1",
    "gke.networking.io/l4-ilb-v1",
];

/// Reads and changes Kubernetes objects.
#[derive(Clone)]
pub(crate) struct Kubernetes {
    pub(crate) cluster: ClusterView,
    id: Arc<Cached<String>>,
}

impl Kubernetes {
    pub(crate) fn new(cluster: ClusterView) -> Self {
        Self {
            cluster,
            id: Arc::default(),
        }
    }

    /// Returns the ID of the cluster in names of shared objects, from ConfigMap `kube-system/ingress-uid`.
    pub(crate) async fn cluster_id(&self) -> Result<Arc<String>> {
        Ok(self.id.get(ID_AGE, async || self.read_id().await).await?.0)
    }

    async fn read_id(&self) -> Result<String> {
        let odd =
            |text: String| Error::other(format!("ConfigMap kube-system/{CONFIG_MAP}: {text}"));
        for _ in 0..ATTEMPTS {
            let (status, found) = self
                .cluster
                .get(&format!("{CONFIG_MAPS}/{CONFIG_MAP}"))
                .await?;
            let text = |key: &str| {
                found["data"][key]
                    .as_str()
                    .filter(|id| !id.is_empty())
                    .map(str::to_owned)
            };
            match (status.as_u16(), text("provider-uid").or(text("uid"))) {
                (200, Some(id)) => return Ok(id),
                (200, None) => {
                    return Err(odd(
                        "it has neither provider-uid nor uid; add one".to_owned()
                    ));
                }
                (404, _) => {}
                (status, _) => return Err(odd(format!("the read was answered with {status}"))),
            }
            let id = format!("{:016x}", fastrand::u64(..));
            let body =
                json!({"metadata": {"name": CONFIG_MAP}, "data": {"uid": id, "provider-uid": id}});
            match self.cluster.create(CONFIG_MAPS, &body).await?.0.as_u16() {
                201 => return Ok(id),
                // Another program created the map.
                409 => {}
                status => return Err(odd(format!("the creation was answered with {status}"))),
            }
        }
        Err(odd("it was created and deleted again".to_owned()))
    }

    /// Adds the finalizer of the Go program to a Service, so that the Go program handles the Service
    /// after a migration back.
    pub(crate) async fn add_finalizer(&self, service: &Service, is_internal: bool) -> Result<()> {
        let finalizer = FINALIZERS[usize::from(is_internal)];
        if finalizers(service).any(|other_finalizer| other_finalizer == finalizer)
            || self
                .patch_finalizers(service, "finalizers", &[finalizer])
                .await?
        {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the Service no longer exists: finalizer {finalizer} was not added"
        )))
    }

    /// Adds or deletes finalizers by a directive of a strategic merge patch, so that the writes of others survive.
    async fn patch_finalizers(
        &self,
        service: &Service,
        directive: &str,
        values: &[&str],
    ) -> Result<bool> {
        let patch = json!({"metadata": {"uid": service.metadata.uid, (directive): values}});
        self.cluster.patch_status(&path(service), &patch).await
    }

    /// Removes the finalizers of the Go program from Services whose load balancer the framework has deleted, and takes back
    /// its condition about Services with TCP and UDP ports.
    pub(crate) async fn update_services(
        self,
        caches: Arc<dyn Caches>,
        config: Arc<Config>,
        metrics: Arc<dyn CloudMetrics>,
    ) {
        let mut counts = LoadBalancerCounts::default();
        report_feature_gates(&config, &*metrics);
        for pass in 0.. {
            tokio::time::sleep(SERVICE_INTERVAL).await;
            let services = caches.services();
            if pass % PASSES_OF_A_COUNT == 0 {
                counts.report(&services, &config, &*metrics);
            }
            for service in services {
                if let Err(error) = self.update_service(&service, &config).await {
                    tracing::warn!(%error, service = service.metadata.name, "Service not updated");
                }
            }
        }
    }

    async fn update_service(&self, service: &Service, config: &Config) -> Result<()> {
        if is_done(service) {
            self.patch_finalizers(service, "$deleteFromPrimitiveList/finalizers", &FINALIZERS)
                .await?;
        }
        let conditions = service
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let is_refused = conditions
            .into_iter()
            .any(|condition| condition.type_ == PORTS_CONDITION && condition.status == "True");
        if !is_refused || Spec::of(service, config).spec.is_elsewhere {
            return Ok(());
        }
        let condition = json!({
            "type": PORTS_CONDITION, "status": "False", "reason": "LoadBalancerPortsSupported",
            "message": "TCP and UDP ports are served", "lastTransitionTime": jiff::Timestamp::now().to_string(),
        });
        let patch = json!({"status": {"conditions": [condition]}});
        self.cluster
            .patch_status(&path(service), &patch)
            .await
            .map(drop)
    }
}

/// Returns the path of a Service.
fn path(service: &Service) -> String {
    let [namespace, name] = [&service.metadata.namespace, &service.metadata.name]
        .map(|entry| entry.as_deref().unwrap_or_default());
    format!("/api/v1/namespaces/{namespace}/services/{name}")
}

fn finalizers(service: &Service) -> impl Iterator<Item = &str> {
    service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .map(String::as_str)
}

/// Returns `true` if the framework has not confirmed yet that a Service's load balancer is deleted.
pub(crate) fn is_cleaned_up_later(service: &Service) -> bool {
    finalizers(service).any(|finalizer| finalizer == CLEANUP)
}

/// Returns `true` if a Service has a finalizer of the Go program, and no load balancer any more.
fn is_done(service: &Service) -> bool {
    let is_other = service
        .spec
        .as_ref()
        .is_some_and(|spec| spec.type_.as_deref() != Some("LoadBalancer"));
    (is_other || service.metadata.deletion_timestamp.is_some())
        && finalizers(service).any(|finalizer| FINALIZERS.contains(&finalizer))
        && !is_cleaned_up_later(service)
}
