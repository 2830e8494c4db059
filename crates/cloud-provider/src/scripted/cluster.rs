//! A cluster in memory, for tests of a provider: the objects that the provider reads, and a record of its writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::{
    Caches, ClientBuilder, Cluster, Context, EventKind, EventSubject, Events, KubernetesApi, Node,
    Plan, Result, Service, SyncCallbacks,
};

/// An event that a provider wrote. Its text form is `reason: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Source of the event.
    pub component: String,
    /// Name of the Node or Service.
    pub object: String,
    /// Severity of the event.
    pub kind: EventKind,
    /// Reason of the event, in `UpperCamelCase`.
    pub reason: String,
    /// Message that operators read.
    pub message: String,
}

impl fmt::Display for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

#[derive(Debug, Default)]
struct Objects {
    nodes: Vec<Arc<Node>>,
    services: Vec<Arc<Service>>,
    events: Vec<RecordedEvent>,
    documents: BTreeMap<String, String>,
    patches: Vec<(String, Vec<u8>)>,
}

/// A cluster in memory: the caches, the events and the Kubernetes API that a provider under test is given. Clones share the
/// same objects.
///
/// ```
/// use cloud_provider::scripted::ScriptedCluster;
/// use cloud_provider::{Caches, Node};
///
/// let cluster = ScriptedCluster::default();
/// cluster.set_node(Node { name: "worker-1".into(), ..Node::default() });
/// assert_eq!(&*cluster.node("worker-1").unwrap().name, "worker-1");
/// assert!(cluster.take_events().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScriptedCluster(Arc<Mutex<Objects>>);

impl ScriptedCluster {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock()
    }

    /// Adds a Node, or replaces the one of the same name.
    pub fn set_node(&self, node: Node) {
        let nodes = &mut self.objects().nodes;
        nodes.retain(|known| known.name != node.name);
        nodes.push(Arc::new(node));
    }

    /// Deletes the Node of this name.
    pub fn remove_node(&self, name: &str) {
        self.objects().nodes.retain(|node| &*node.name != name);
    }

    /// Replaces all Services of the cache.
    pub fn set_services(&self, services: impl IntoIterator<Item = Service>) {
        self.objects().services = services.into_iter().map(Arc::new).collect();
    }

    /// Sets the answer to `GET path` of the Kubernetes API, such as a Secret. Other paths are answered 404.
    pub fn set_document(&self, path: &str, json: String) {
        self.objects().documents.insert(path.to_owned(), json);
    }

    /// Removes the document at `path`: `GET path` is answered 404 again.
    pub fn remove_document(&self, path: &str) {
        self.objects().documents.remove(path);
    }

    /// Returns the events since the last call.
    pub fn take_events(&self) -> Vec<RecordedEvent> {
        std::mem::take(&mut self.objects().events)
    }

    /// Returns the `PATCH` requests since the last call, as path and body.
    pub fn take_patches(&self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.objects().patches)
    }

    /// Returns the context to start a provider with, for a cluster with this name and UID.
    #[must_use]
    pub fn context(&self, cluster: Cluster) -> Context {
        Context {
            cluster,
            cluster_cidrs: Vec::new(),
            clients: Arc::new(self.clone()),
            events: Arc::new(self.clone()),
            shutdown: CancellationToken::new(),
        }
    }
}

impl Caches for ScriptedCluster {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.objects().nodes.clone()
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.objects()
            .nodes
            .iter()
            .find(|node| &*node.name == name)
            .cloned()
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.objects().services.clone()
    }
}

impl Events for ScriptedCluster {
    fn record(
        &self,
        component: &str,
        subject: EventSubject<'_>,
        kind: EventKind,
        reason: &str,
        message: &str,
    ) {
        let object = match subject {
            EventSubject::Node(node) => node.name.to_string(),
            EventSubject::Service(service) => service.metadata.name.clone().unwrap_or_default(),
        };
        let [component, reason, message] = [component, reason, message].map(str::to_owned);
        self.objects().events.push(RecordedEvent {
            component,
            object,
            kind,
            reason,
            message,
        });
    }
}

impl ClientBuilder for ScriptedCluster {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl KubernetesApi for ScriptedCluster {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let path = request.uri().path().to_owned();
        if request.method() == http::Method::PATCH {
            self.objects().patches.push((path, request.into_body()));
            return Ok(http::Response::new(b"{}".to_vec()));
        }
        let document = self.objects().documents.get(&path).cloned();
        let mut response = http::Response::new(Vec::new());
        match document {
            Some(json) => *response.body_mut() = json.into_bytes(),
            None => *response.status_mut() = http::StatusCode::NOT_FOUND,
        }
        Ok(response)
    }
}

/// The annotations that a provider requests while it syncs a Service.
#[derive(Debug, Default)]
pub struct RecordedAnnotations(Mutex<Vec<(&'static str, Option<String>)>>);

impl RecordedAnnotations {
    /// Writes the annotations to the Service, as the service controller does.
    pub fn apply_to(self, service: &mut Service) {
        let annotations = service.metadata.annotations.get_or_insert_default();
        for (key, value) in self.0.into_inner() {
            match value {
                Some(value) => drop(annotations.insert(key.to_owned(), value)),
                None => drop(annotations.remove(key)),
            }
        }
    }
}

impl SyncCallbacks for RecordedAnnotations {
    fn on_plan(&self, _plan: &Plan) {}

    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.0.lock().push((key, value));
    }
}
