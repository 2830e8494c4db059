//! Pods behind a Service: targets that are Pods, or Nodes with Pods.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_provider::{Caches, Error, Result, Service};
use provider_kit::cluster::ClusterView;
use provider_kit::signing::sha256_hex;
use serde::Deserialize;
use serde_json::json;

use crate::annotations as key;

/// Time between two looks at the Pods.
const INTERVAL: Duration = Duration::from_secs(5);

/// Rules by which the targets of a Service follow its Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pods {
    /// If set, targets are Pods.
    pub(crate) is_direct: bool,
    /// If set, terminating Pods stay targets with weight 0.
    pub(crate) keeps_terminating: bool,
    /// If set, the weight of a Node is its number of ready Pods.
    pub(crate) has_weights: bool,
}

/// The endpoints of a Service.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Endpoints {
    items: Vec<Slice>,
}

#[derive(Debug, Deserialize)]
struct Slice {
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<SlicePort>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Conditions,
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct SlicePort {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<u16>,
}

impl Endpoint {
    fn is_ready(&self) -> bool {
        self.conditions.ready != Some(false)
    }
}

impl Endpoints {
    /// Reads the endpoints of a Service.
    ///
    /// # Errors
    /// The answer of the API server, with the permission that is missing.
    pub(crate) async fn read(cluster: &ClusterView, service: &Service) -> Result<Self> {
        let metadata = &service.metadata;
        let [namespace, name] =
            [metadata.namespace.as_deref().unwrap_or("default"), metadata.name.as_deref().unwrap_or_default()];
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{name}"
        );
        let (status, list) = cluster.get(&path).await?;
        match status.as_u16() {
            200 => serde_json::from_value(list)
                .map_err(|error| Error::other(format!("EndpointSlices of Service {namespace}/{name}: {error}"))),
            403 => Err(Error::unauthorized(format!(
                "EndpointSlices of Service {namespace}/{name} cannot be listed; allow the controller to list endpointslices.discovery.k8s.io"
            ))),
            status => Err(Error::other(format!(
                "EndpointSlices of Service {namespace}/{name}: the API server answered {status}"
            ))),
        }
    }

    fn endpoints(&self) -> impl Iterator<Item = (&Slice, &Endpoint)> {
        self.items.iter().flat_map(|slice| slice.endpoints.iter().flatten().map(move |it| (slice, it)))
    }

    /// Returns the number of ready Pods on a Node.
    pub(crate) fn on_node(&self, node: &str) -> u32 {
        let is_there = |it: &Endpoint| it.is_ready() && it.node_name.as_deref() == Some(node);
        u32::try_from(self.endpoints().filter(|(_, it)| is_there(it)).count()).unwrap_or(u32::MAX)
    }

    /// Returns the addresses and ports of the Pods behind a port of the Service, with their weights.
    pub(crate) fn of_port(
        &self,
        name: &str,
        protocol: &str,
        keeps_terminating: bool,
        weight: u32,
    ) -> Vec<(String, u16, u32)> {
        let is_it = |it: &&SlicePort| {
            it.name.as_deref().unwrap_or_default() == name && it.protocol.as_deref().unwrap_or("TCP") == protocol
        };
        let mut found = BTreeMap::new();
        for (slice, endpoint) in self.endpoints() {
            let port = slice.ports.iter().flatten().find(is_it).and_then(|it| it.port);
            let weight = match endpoint.is_ready() {
                true => weight,
                false if keeps_terminating && endpoint.conditions.terminating == Some(true) => 0,
                false => continue,
            };
            if let (Some(port), Some(ip)) = (port, endpoint.addresses.first()) {
                let known = found.entry((ip.clone(), port)).or_insert(weight);
                *known = weight.max(*known);
            }
        }
        found.into_iter().map(|((ip, port), weight)| (ip, port, weight)).collect()
    }

    /// Returns a text that changes when targets do.
    fn digest(&self) -> String {
        let mut all: Vec<_> = self
            .endpoints()
            .map(|(slice, it)| {
                let ports: Vec<_> = slice.ports.iter().flatten().map(|it| (&it.name, it.port)).collect();
                format!(
                    "{:?} {:?} {:?} {:?} {ports:?}",
                    it.addresses,
                    it.is_ready(),
                    it.conditions.terminating,
                    it.node_name
                )
            })
            .collect();
        all.sort_unstable();
        sha256_hex(all.join("\n").as_bytes())[..16].to_owned()
    }
}

/// Returns `true` if the targets of a Service follow its Pods.
fn follows_pods(service: &Service) -> bool {
    let is_on = |annotation: Option<&str>| annotation.is_some_and(|it| it.trim() == "true");
    let is_balancer = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
    is_balancer
        && service.metadata.deletion_timestamp.is_none()
        && (is_on(key::DIRECT.text_on(service)) || is_on(key::LOCAL_NODES.text_on(service)))
}

/// Writes a digest of the Pods to an annotation of each Service whose targets follow its Pods. A change of the
/// annotation leads to a sync of the Service, as any other change does. Runs until the process ends.
pub(crate) async fn follow(cluster: ClusterView, caches: std::sync::Arc<dyn Caches>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for service in caches.services().iter().filter(|it| follows_pods(it)) {
            if let Err(error) = note(&cluster, service).await {
                let name = service.metadata.name.as_deref().unwrap_or_default();
                tracing::warn!(service = name, %error, "cannot follow the Pods of a Service");
            }
        }
    }
}

async fn note(cluster: &ClusterView, service: &Service) -> Result<()> {
    let digest = Endpoints::read(cluster, service).await?.digest();
    if key::PODS.text_on(service) == Some(&*digest) {
        return Ok(());
    }
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (part(&service.metadata.namespace), part(&service.metadata.name));
    let patch = json!({"metadata": {"annotations": {(key::PODS.key()): digest}}});
    cluster.patch_status(&format!("/api/v1/namespaces/{namespace}/services/{name}"), &patch).await.map(drop)
}
