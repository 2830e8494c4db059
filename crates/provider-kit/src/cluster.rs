//! The provider's view of the cluster: Nodes, Pod CIDRs of `--cluster-cidr`, the Kubernetes API, and the recorder of
//! events.

use std::sync::{Arc, OnceLock};

use cloud_provider::{Caches, ClientBuilder, Context, Error, KubernetesApi, Node, Result, Service};
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, request};
use ipnet::IpNet;
use serde_json::Value;

use crate::events::EventWriter;

/// A view of the cluster that all parts of a provider share. Created with the provider, empty until
/// [`connect`](Self::connect) and [`set_caches`](Self::set_caches) are called; clones share their state.
///
/// ```
/// use provider_kit::cluster::ClusterView;
///
/// let cluster = ClusterView::new("acme-cloud-controller-manager");
/// // In `CloudProvider::initialize`: cluster.connect(context);
/// // In `CloudProvider::set_caches`: cluster.set_caches(caches);
/// cluster.set_pod_cidrs(&["10.244.0.0/16".to_owned()]);
/// assert!(cluster.owns_route("10.244.7.0/24", None));
/// assert!(!cluster.owns_route("0.0.0.0/0", None));
/// ```
#[derive(Clone)]
pub struct ClusterView {
    events: EventWriter,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    pod_cidrs: Arc<OnceLock<Vec<IpNet>>>,
    clients: Arc<OnceLock<Arc<dyn ClientBuilder>>>,
    /// Client of the Kubernetes API, built when it is first needed: most providers never use it.
    api: Arc<OnceLock<Arc<dyn KubernetesApi>>>,
}

impl ClusterView {
    /// Returns an empty view. `component` is the source of events.
    #[must_use]
    pub fn new(component: &'static str) -> Self {
        let caches = Arc::default();
        let pod_cidrs = Arc::default();
        Self {
            events: EventWriter::new(component),
            caches,
            pod_cidrs,
            clients: Arc::default(),
            api: Arc::default(),
        }
    }

    /// Connects the view to the process: from now on, events are recorded, and the Pod CIDRs and the Kubernetes API are
    /// available. Call it from [`CloudProvider::initialize`](cloud_provider::CloudProvider::initialize).
    pub fn connect(&self, context: &Context) {
        self.events.connect(&context.events);
        self.set_pod_cidrs(&context.cluster_cidrs);
        self.clients.get_or_init(|| Arc::clone(&context.clients));
    }

    /// Returns access to the Kubernetes API.
    ///
    /// # Errors
    /// *Other*, before [`connect`](Self::connect) was called; the error of building the client.
    pub fn api(&self) -> Result<&dyn KubernetesApi> {
        if let Some(api) = self.api.get() {
            return Ok(&**api);
        }
        let missing = || Error::other("no access to the Kubernetes API yet");
        let api = self
            .clients
            .get()
            .ok_or_else(missing)?
            .client(self.events.component())?;
        Ok(&**self.api.get_or_init(|| api))
    }

    /// Sends a merge patch of a Node. `false`: the Node has changed meanwhile, or does not exist any more.
    ///
    /// # Errors
    /// *Other*, with the status, for every other refusal; the errors of [`api`](Self::api).
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<bool> {
        self.patch(
            "application/merge-patch+json",
            &format!("/api/v1/nodes/{name}"),
            patch,
        )
        .await
    }

    /// Sends a strategic merge patch to the status of the object at `path`, which merges conditions by their types, and
    /// finalizers by their values. Returns `false` as [`patch_node`](Self::patch_node) does.
    ///
    /// # Errors
    /// As for [`patch_node`](Self::patch_node).
    pub async fn patch_status(&self, path: &str, patch: &Value) -> Result<bool> {
        self.patch(
            "application/strategic-merge-patch+json",
            &format!("{path}/status"),
            patch,
        )
        .await
    }

    async fn patch(&self, form: &'static str, path: &str, patch: &Value) -> Result<bool> {
        let request = Request::patch(path).header(CONTENT_TYPE, form);
        match self.send(request, patch.to_string().into_bytes()).await?.0 {
            status if status.is_success() => Ok(true),
            status if [404, 409, 422].contains(&status.as_u16()) => Ok(false),
            status => Err(Error::other(format!(
                "patch of {path} was answered {status}"
            ))),
        }
    }

    /// Returns the object at `path`, and its status.
    ///
    /// # Errors
    /// The errors of [`api`](Self::api).
    pub async fn get(&self, path: &str) -> Result<(StatusCode, Value)> {
        self.send(Request::get(path), Vec::new()).await
    }

    /// Returns the objects of the collection at `path`.
    ///
    /// # Errors
    /// *Other*, with the status, for a refusal; the errors of [`api`](Self::api).
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let (status, mut answer) = self.get(path).await?;
        match crate::json_path::take(&mut answer, &["items"]) {
            Value::Array(items) if status.is_success() => Ok(items),
            _ => Err(Error::other(format!(
                "GET {path} was answered {status}: allow the account to list these objects"
            ))),
        }
    }

    /// Creates an object in the collection at `path`. Returns the answer, and its status.
    ///
    /// # Errors
    /// The errors of [`api`](Self::api).
    pub async fn create(&self, path: &str, object: &Value) -> Result<(StatusCode, Value)> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        self.send(request, object.to_string().into_bytes()).await
    }

    /// Replaces the object at `path`, if it still has the resource version of `object`. Returns the answer, and its status.
    ///
    /// # Errors
    /// The errors of [`api`](Self::api).
    pub async fn replace(&self, path: &str, object: &Value) -> Result<(StatusCode, Value)> {
        let request = Request::put(path).header(CONTENT_TYPE, "application/json");
        self.send(request, object.to_string().into_bytes()).await
    }

    async fn send(&self, request: request::Builder, body: Vec<u8>) -> Result<(StatusCode, Value)> {
        let request = request
            .body(body)
            .map_err(|error| Error::other(error.to_string()))?;
        let answer = self.api()?.send(request).await?;
        Ok((
            answer.status(),
            serde_json::from_slice(answer.body()).unwrap_or_default(),
        ))
    }

    /// Sets the ranges of Pods; texts that are not ranges are ignored.
    pub fn set_pod_cidrs(&self, cluster_cidrs: &[String]) {
        self.pod_cidrs.get_or_init(|| {
            cluster_cidrs
                .iter()
                .filter_map(|range| range.parse().ok())
                .collect()
        });
    }

    /// Sets the caches, from which Nodes are read. Call it from
    /// [`CloudProvider::set_caches`](cloud_provider::CloudProvider::set_caches).
    pub fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.caches.get_or_init(|| caches);
    }

    /// Returns the recorder of events.
    #[must_use]
    pub fn events(&self) -> &EventWriter {
        &self.events
    }

    /// Returns all Nodes; `None` before [`set_caches`](Self::set_caches), when the Nodes are unknown. An empty list
    /// means that the cluster has none.
    #[must_use]
    pub fn nodes(&self) -> Option<Vec<Arc<Node>>> {
        self.caches.get().map(|caches| caches.nodes())
    }

    /// Returns all Services; `None` before [`set_caches`](Self::set_caches), when the Services are unknown: commands such
    /// as `orphans` have no caches, and [`list`](Self::list) them.
    #[must_use]
    pub fn services(&self) -> Option<Vec<Arc<Service>>> {
        self.caches.get().map(|caches| caches.services())
    }

    /// Returns the Node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.caches.get()?.node(name)
    }

    /// Returns the ranges of Pods (`--cluster-cidr`); empty while they are not known.
    #[must_use]
    pub fn pod_cidrs(&self) -> &[IpNet] {
        self.pod_cidrs.get().map_or(&[], Vec::as_slice)
    }

    /// Returns `true` if a route to `destination` belongs to the cluster, and not to another user of the same network:
    /// the destination begins or ends in a range of Pods, or is the Pod CIDR of the Node (`target`) that the route
    /// leads to.
    #[must_use]
    pub fn owns_route(&self, destination: &str, target: Option<&Node>) -> bool {
        let Ok(destination) = destination.parse::<IpNet>() else {
            return false;
        };
        let begins_or_ends = |range: &IpNet| {
            range.contains(&destination.network()) || range.contains(&destination.broadcast())
        };
        let is_its_node = |node: &Node| {
            node.pod_cidrs
                .iter()
                .any(|cidr| cidr.parse() == Ok(destination))
        };
        self.pod_cidrs().iter().any(begins_or_ends) || target.is_some_and(is_its_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> ClusterView {
        ClusterView::new("test")
    }

    #[test]
    fn route_is_owned_by_the_pod_ranges_or_by_its_target_node() {
        let cluster = view();
        let node = Node {
            pod_cidrs: ["10.9.0.0/24".into()].into(),
            ..Node::default()
        };
        let before = cluster.clone();
        assert!(
            !cluster.owns_route("10.244.7.0/24", None),
            "nothing is known yet"
        );
        cluster.set_pod_cidrs(&["10.244.0.0/16".to_owned(), "odd".to_owned()]);
        let table = [
            ("10.244.7.0/24", None, true),
            ("10.244.0.0/15", None, true),
            ("10.243.0.0/16", None, false),
            ("0.0.0.0/0", None, false),
            ("10.9.0.0/24", None, false),
            ("10.9.0.0/24", Some(&node), true),
            ("10.9.1.0/24", Some(&node), false),
            ("odd", Some(&node), false),
        ];
        for (destination, target, is_ours) in table {
            assert_eq!(
                before.owns_route(destination, target),
                is_ours,
                "{destination}"
            );
        }
        cluster.set_pod_cidrs(&["10.0.0.0/8".to_owned()]);
        assert_eq!(
            cluster.pod_cidrs().len(),
            1,
            "they do not change while the program runs"
        );
    }

    /// Answers each request with one status and body.
    struct Answering(u16, &'static str);

    #[cloud_provider::async_trait]
    impl KubernetesApi for Answering {
        async fn send(&self, _request: Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
            let answer = http::Response::builder().status(self.0).body(self.1.into());
            answer.map_err(|error| Error::other(error.to_string()))
        }
    }

    #[tokio::test]
    async fn refused_list_is_an_error_and_no_empty_list() {
        for (status, body, expected) in [
            (200, r#"{"items": [{"kind": "Service"}]}"#, Ok(1)),
            (200, r#"{"items": []}"#, Ok(0)),
            (
                403,
                r#"{"kind": "Status"}"#,
                Err("GET /api/v1/services was answered 403 Forbidden"),
            ),
        ] {
            let cluster = view();
            cluster
                .api
                .get_or_init(|| Arc::new(Answering(status, body)));
            match (cluster.list("/api/v1/services").await, expected) {
                (found, Ok(count)) => assert_eq!(found.unwrap().len(), count),
                (found, Err(text)) => assert!(found.unwrap_err().to_string().contains(text)),
            }
        }
    }

    #[test]
    fn unknown_nodes_differ_from_no_nodes() {
        assert!(
            view().nodes().is_none()
                && view().node("worker-1").is_none()
                && view().services().is_none()
        );
    }
}
