//! The Nodes on which Services have endpoints, for load balancers that send traffic to no other Nodes, and the endpoints
//! themselves, for load balancers that send traffic to Pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{Error, Fence, Result, Service};
use http::{Request, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cluster::ClusterView;
use crate::signing::sha256_hex;

/// The annotation that is written when the endpoints of a Service have changed: a digest of them.
const CHANGED: &str = "ccm-rs/endpoint-nodes";
const SLICES: &str = "/apis/discovery.k8s.io/v1";
const SERVICE: &str = "kubernetes.io/service-name";
/// Seconds for which changes are collected.
const SECONDS: u64 = 5;
/// Pause after a watch that ended early, and after one that failed.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// A Service by namespace and name.
type ServiceName = (String, String);

/// The part of a Service's EndpointSlices that a caller follows.
#[derive(Clone, Copy)]
enum Followed {
    Nodes,
    Everything,
}

/// A view of the Nodes on which Services have endpoints, ready or not. Clones share the view.
///
/// The service controller watches Services and Nodes. A task of the view watches the EndpointSlices of the Services that
/// were asked for, and writes an annotation to each Service whose Nodes (or, with [`slices`](Self::slices), endpoints)
/// have changed, which makes the controller sync it. The ServiceAccount needs `get`, `list` and `watch` of
/// `endpointslices`.
///
/// ```
/// use cloud_provider::Fence;
/// use provider_kit::cluster::ClusterView;
/// use provider_kit::endpoint_nodes::EndpointNodes;
///
/// # async fn example(service: &cloud_provider::Service) -> cloud_provider::Result<()> {
/// let endpoint_nodes = EndpointNodes::new(ClusterView::new("acme-cloud-controller-manager"), Fence::open());
/// if let Some(names) = endpoint_nodes.of(service).await? {
///     assert!(names.contains("worker-1"));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EndpointNodes(Arc<Inner>);

struct Inner {
    cluster: ClusterView,
    fence: Fence,
    /// Digests of the followed parts of Services as they were last asked for.
    known: Mutex<BTreeMap<ServiceName, (Followed, String)>>,
    task: OnceLock<()>,
}

impl EndpointNodes {
    /// Returns a view that watches nothing yet. Nothing is watched or written while `fence` is closed.
    #[must_use]
    pub fn new(cluster: ClusterView, fence: Fence) -> Self {
        Self(Arc::new(Inner {
            cluster,
            fence,
            known: Mutex::default(),
            task: OnceLock::new(),
        }))
    }

    /// Returns the names of the Nodes on which a Service has endpoints, and has the Service synced when they change.
    /// `None` if the Service has no EndpointSlices, or if the process has no access to Kubernetes.
    ///
    /// # Errors
    /// Each failed read, so that targets stay as they are; *unauthorized* if the ServiceAccount may not read
    /// EndpointSlices.
    pub async fn of(&self, service: &Service) -> Result<Option<BTreeSet<String>>> {
        Ok(self
            .read(service, Followed::Nodes)
            .await?
            .as_deref()
            .map(nodes))
    }

    /// Returns the EndpointSlices of a Service, and has the Service synced when its endpoints or their ports change.
    /// `None` if the Service has no EndpointSlices, or if the process has no access to Kubernetes.
    ///
    /// # Errors
    /// Each failed read, so that targets stay as they are.
    pub async fn slices(&self, service: &Service) -> Result<Option<Vec<Value>>> {
        self.read(service, Followed::Everything).await
    }

    async fn read(&self, service: &Service, followed: Followed) -> Result<Option<Vec<Value>>> {
        if self.0.cluster.api().is_err() {
            return Ok(None);
        }
        let metadata = &service.metadata;
        let name = (
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        );
        let slices = self.0.read(&name).await?;
        if self.0.fence.is_open() {
            let digest = digest(slices.as_deref().unwrap_or_default(), followed);
            self.0.known.lock().insert(name, (followed, digest));
            self.0
                .task
                .get_or_init(|| drop(tokio::spawn(follow(Arc::clone(&self.0)))));
        }
        Ok(slices)
    }
}

/// Returns the names of the Nodes of all endpoints.
fn nodes(slices: &[Value]) -> BTreeSet<String> {
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints
        .filter_map(|endpoint| endpoint["nodeName"].as_str().map(str::to_owned))
        .collect()
}

/// Returns a text that changes when the followed part of EndpointSlices does.
fn digest(slices: &[Value], followed: Followed) -> String {
    let parts: BTreeSet<_> = match followed {
        Followed::Nodes => nodes(slices),
        Followed::Everything => slices
            .iter()
            .map(|object| json!([object["endpoints"], object["ports"]]).to_string())
            .collect(),
    };
    let text = parts
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n");
    sha256_hex(text.as_bytes())[..16].to_owned()
}

/// Follows the EndpointSlices until the process ends. A failed watch begins again.
async fn follow(view: Arc<Inner>) {
    let mut version: Option<String> = None;
    loop {
        let outcome = match &version {
            Some(version) => view.changes(version).await,
            None => view.begin().await,
        };
        version = outcome
            .inspect_err(|error| tracing::warn!(%error, "cannot watch EndpointSlices"))
            .ok();
        if version.is_none() {
            sleep(LONG_PAUSE).await;
        }
    }
}

impl Inner {
    async fn read(&self, (namespace, name): &ServiceName) -> Result<Option<Vec<Value>>> {
        let path = format!(
            "{SLICES}/namespaces/{namespace}/endpointslices?labelSelector={SERVICE}%3D{name}"
        );
        let (status, mut list) = self.cluster.get(&path).await?;
        if !status.is_success() && status != StatusCode::NOT_FOUND {
            let text = format!(
                "cannot read EndpointSlices of Service {namespace}/{name}: status {}",
                status.as_u16()
            );
            let text = format!("{text}; allow get, list and watch of endpointslices");
            return Err(if status == StatusCode::FORBIDDEN {
                Error::unauthorized(text)
            } else {
                Error::other(text)
            });
        }
        match crate::json_path::take(&mut list, &["items"]) {
            Value::Array(slices) if !slices.is_empty() => Ok(Some(slices)),
            _ => Ok(None),
        }
    }

    /// Returns the version to watch from. Changes before it may have been missed.
    async fn begin(&self) -> Result<String> {
        let (status, list) = self
            .cluster
            .get(&format!("{SLICES}/endpointslices?limit=1"))
            .await?;
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .filter(|resource_version| !resource_version.is_empty());
        let version = version
            .ok_or_else(|| Error::other(format!("the list was answered {status}")))?
            .to_owned();
        let known: Vec<_> = self.known.lock().keys().cloned().collect();
        for name in &known {
            self.check(name).await?;
        }
        Ok(version)
    }

    /// Collects changes for some seconds, and returns the version to go on from.
    async fn changes(&self, version: &str) -> Result<String> {
        let path = format!(
            "{SLICES}/endpointslices?watch=1&timeoutSeconds={SECONDS}&resourceVersion={version}"
        );
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(|error| Error::other(error.to_string()))?;
        let began = Instant::now();
        let answer = self.cluster.api()?.send(request).await?;
        if !answer.status().is_success() {
            return Err(Error::other(format!(
                "the watch was answered {}",
                answer.status()
            )));
        }
        let mut changed = BTreeSet::new();
        let mut newest = version.to_owned();
        for event in serde_json::Deserializer::from_slice(answer.body())
            .into_iter::<Value>()
            .map_while(Result::ok)
        {
            if event["type"] == "ERROR" {
                return Err(Error::other(format!(
                    "the watch ended: {}",
                    event["object"]["message"]
                )));
            }
            let metadata = &event["object"]["metadata"];
            let text = |object: &Value| object.as_str().unwrap_or_default().to_owned();
            newest = text(&metadata["resourceVersion"]);
            changed.insert((
                text(&metadata["namespace"]),
                text(&metadata["labels"][SERVICE]),
            ));
        }
        for name in &changed {
            self.check(name).await?;
        }
        if began.elapsed() < Duration::from_secs(SECONDS) {
            sleep(PAUSE).await;
        }
        Ok(newest)
    }

    /// Has a Service synced if the followed part differs from what was last asked for. A Service that does not exist any
    /// more is forgotten.
    async fn check(&self, name: &ServiceName) -> Result<()> {
        let Some((followed, known)) = self.known.lock().get(name).cloned() else {
            return Ok(());
        };
        let digest = digest(&self.read(name).await?.unwrap_or_default(), followed);
        if digest == known || !self.fence.is_open() {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {CHANGED: digest}}});
        let path = format!("/api/v1/namespaces/{}/services/{}", name.0, name.1);
        if !self.cluster.patch_status(&path, &patch).await? {
            self.known.lock().remove(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use cloud_provider::scripted::{AnsweringStatus, ScriptedCluster};
    use cloud_provider::{Cluster, Context};

    use super::*;

    const OF_SERVICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    const ALL: &str = "/apis/discovery.k8s.io/v1/endpointslices";

    fn set_nodes(cluster: &ScriptedCluster, nodes: &[&str]) {
        let endpoints: Vec<_> = nodes.iter().map(|node| json!({"nodeName": node})).collect();
        cluster.set_document(
            OF_SERVICE,
            json!({"items": [{"endpoints": endpoints}, {}]}).to_string(),
        );
    }

    fn view(cluster: &ScriptedCluster, fence: Fence) -> EndpointNodes {
        let view = ClusterView::new("test");
        view.connect(&cluster.context(Cluster {
            name: "kubernetes".into(),
            id: None,
        }));
        EndpointNodes::new(view, fence)
    }

    fn service() -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}}))
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn service_is_synced_when_its_nodes_change_and_only_then() {
        let cluster = ScriptedCluster::default();
        let nodes = view(&cluster, Fence::open());
        assert_eq!(
            nodes.of(&service()).await.unwrap(),
            None,
            "no EndpointSlices"
        );
        // The answer to the list and to the watch: a change of the Service's slice.
        let metadata =
            json!({"namespace": "default", "labels": {SERVICE: "web"}, "resourceVersion": "8"});
        let event = json!({"metadata": {"resourceVersion": "7"}, "type": "MODIFIED", "object": {"metadata": metadata}});
        cluster.set_document(ALL, event.to_string());
        for (names, expected) in [
            (&["a", "b"][..], true),
            (&["b", "a"], false),
            (&["b"], true),
            (&[], true),
        ] {
            set_nodes(&cluster, names);
            sleep(Duration::from_secs(15)).await;
            let patches = cluster.take_patches();
            assert_eq!(!patches.is_empty(), expected, "{names:?}: {patches:?}");
            let found = nodes.of(&service()).await.unwrap().unwrap();
            let names: BTreeSet<_> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(found, names);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn service_whose_slices_were_read_is_synced_when_an_endpoint_changes() {
        let cluster = ScriptedCluster::default();
        let view = view(&cluster, Fence::open());
        let metadata =
            json!({"namespace": "default", "labels": {SERVICE: "web"}, "resourceVersion": "8"});
        let event = json!({"metadata": {"resourceVersion": "7"}, "type": "MODIFIED", "object": {"metadata": metadata}});
        cluster.set_document(ALL, event.to_string());
        let endpoints =
            |is_ready: bool| json!([{"nodeName": "a", "conditions": {"ready": is_ready}}]);
        let set = |is_ready| {
            cluster.set_document(
                OF_SERVICE,
                json!({"items": [{"endpoints": endpoints(is_ready)}]}).to_string(),
            );
        };
        set(true);
        assert_eq!(
            view.slices(&service()).await.unwrap().unwrap()[0]["endpoints"],
            endpoints(true)
        );
        for (is_ready, expected) in [(true, false), (false, true)] {
            set(is_ready);
            sleep(Duration::from_secs(15)).await;
            assert_eq!(
                !cluster.take_patches().is_empty(),
                expected,
                "ready: {is_ready}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn closed_fence_lets_nothing_be_written() {
        let cluster = ScriptedCluster::default();
        let leads = Arc::new(AtomicBool::new(true));
        let is_leader = Arc::clone(&leads);
        let nodes = view(
            &cluster,
            Fence::new(move || is_leader.load(Ordering::Relaxed)),
        );
        set_nodes(&cluster, &["a"]);
        nodes.of(&service()).await.unwrap();
        leads.store(false, Ordering::Relaxed);
        set_nodes(&cluster, &["b"]);
        cluster.set_document(
            ALL,
            json!({"metadata": {"resourceVersion": "7"}}).to_string(),
        );
        sleep(Duration::from_secs(60)).await;
        assert!(cluster.take_patches().is_empty());
    }

    #[tokio::test]
    async fn service_without_slices_and_process_without_kubernetes_have_no_nodes() {
        let cluster = ScriptedCluster::default();
        cluster.set_document(OF_SERVICE, "{}".to_owned());
        assert_eq!(
            view(&cluster, Fence::open()).of(&service()).await.unwrap(),
            None
        );
        assert_eq!(
            EndpointNodes::new(ClusterView::new("test"), Fence::open())
                .of(&service())
                .await
                .unwrap(),
            None
        );
    }

    #[tokio::test]
    async fn failed_read_is_an_error_that_names_the_permission() {
        let view = ClusterView::new("test");
        let context = ScriptedCluster::default().context(Cluster {
            name: "kubernetes".into(),
            id: None,
        });
        view.connect(&Context {
            clients: Arc::new(AnsweringStatus(StatusCode::FORBIDDEN)),
            ..context
        });
        let error = EndpointNodes::new(view, Fence::open())
            .of(&service())
            .await
            .unwrap_err();
        assert!(error.is_unauthorized(), "{error}");
        assert!(
            error
                .to_string()
                .contains("403; allow get, list and watch of endpointslices"),
            "{error}"
        );
    }
}
