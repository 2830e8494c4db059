//! A whole world in one process: a Kubernetes API, a cloud, and the controllers of the product between them.
//!
//! The tests open no socket, so that they run under tokio's paused clock: minutes pass at once.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, Node};
use controllers::lifecycle::{CloudOperation, LifecycleMetrics};
use controllers::node::NoNodeMetrics;
use controllers::{ControllerContext, NodeController, NodeLifecycleController, Options};
use embedded_apiserver::ApiServer;
use kube::Client;
use parking_lot::Mutex;
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use provider_simulated::provider::Simulated;
use runtime::cache::Cache;
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::pulse::Pulse;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Returns the start-up taint, as the kubelet sets it.
pub fn start_up_taint() -> Value {
    json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"})
}

/// Counts of the lifecycle controller: its look-ups and passes.
#[derive(Debug, Default)]
pub struct LifecycleCounts {
    /// Operation and result of each look-up, as the labels of its series.
    pub calls: Mutex<Vec<(&'static str, &'static str)>>,
    /// Number of passes that ended.
    pub passes: Mutex<usize>,
}

impl LifecycleMetrics for LifecycleCounts {
    fn pass(&self, _took: Duration, _succeeded: bool) {}
    fn deleted(&self) {}
    fn held(&self, _cause: &'static str) {}
    fn monitored(&self, _took: Duration) {
        *self.passes.lock() += 1;
    }
    fn looked_up(&self, operation: CloudOperation, result: &'static str) {
        self.calls.lock().push((operation.as_str(), result));
    }
}

/// Harness of the Node controllers, an API server and a cloud.
pub struct World {
    /// The embedded Kubernetes API server.
    pub api: ApiServer,
    /// The simulated cloud itself.
    pub cloud: Cloud,
    /// The Nodes as the controllers see them; [`World::refresh`] brings them up to date.
    pub nodes: Cache<Node>,
    /// The node controller under test.
    pub node_controller: NodeController,
    /// The lifecycle controller under test.
    pub lifecycle: NodeLifecycleController,
    /// The counts of the lifecycle controller.
    pub lifecycle_counts: Arc<LifecycleCounts>,
    context: ControllerContext,
    events: [Arc<Mutex<Vec<RecordedEvent>>>; 2],
}

impl World {
    /// Creates a harness with `count` running machines, `worker-1` and so on, and no Nodes.
    ///
    /// # Panics
    /// If it cannot be built.
    #[must_use]
    pub fn with_machines(count: usize) -> Self {
        Self::with_options(count, &Options::default())
    }

    /// Creates a harness with `count` machines and no Nodes, whose controllers have these options.
    ///
    /// # Panics
    /// If it cannot be built.
    #[must_use]
    pub fn with_options(count: usize, options: &Options) -> Self {
        let api = ApiServer::new();
        let cloud = Cloud::default();
        let nodes = Cache::with([]);
        cloud.create_machines("worker-", count);
        let transport = Transport::builder("http://simulated")
            .credential(Credential::token(DEFAULT_TOKEN))
            .service(cloud.router())
            .build()
            .expect("the address is an address");
        let provider: Arc<dyn CloudProvider> = Arc::new(Simulated::new(transport, None));
        let clock = Arc::new(SystemClock);
        let context = ControllerContext {
            client: Client::new(api.service(), "default"),
            nodes: nodes.clone(),
            provider,
            clock: clock.clone(),
            pulse: Pulse::default(),
        };
        let (events, first) = EventRecorder::to_memory("cloud-node-controller", clock.clone());
        let node_controller =
            NodeController::new(context.clone(), options, events, Arc::new(NoNodeMetrics))
                .expect("the cloud has machines");
        let (events, second) = EventRecorder::to_memory("cloud-node-lifecycle-controller", clock);
        let lifecycle_counts = Arc::<LifecycleCounts>::default();
        let lifecycle = NodeLifecycleController::new(
            context.clone(),
            options,
            events,
            lifecycle_counts.clone(),
        )
        .expect("the cloud has machines");
        Self {
            api,
            cloud,
            nodes,
            node_controller,
            lifecycle,
            lifecycle_counts,
            context,
            events: [first, second],
        }
    }

    /// Returns another lifecycle controller over the same harness, which sees the Nodes through `cache`.
    ///
    /// # Panics
    /// If the cloud has no machines to offer.
    #[must_use]
    pub fn lifecycle_over(&self, cache: Cache<Node>) -> (NodeLifecycleController, Cache<Node>) {
        let context = ControllerContext {
            nodes: cache.clone(),
            ..self.context.clone()
        };
        let (events, _) =
            EventRecorder::to_memory("cloud-node-lifecycle-controller", Arc::new(SystemClock));
        let controller = NodeLifecycleController::new(
            context,
            &Options::default(),
            events,
            self.lifecycle_counts.clone(),
        )
        .expect("the cloud has machines");
        (controller, cache)
    }

    /// Creates a harness with `count` machines, each with an initialised Node, ready or not.
    #[must_use]
    pub fn with_nodes(count: usize, ready: bool) -> Self {
        let world = Self::with_machines(count);
        world.put_nodes(ready);
        world
    }

    /// Puts an initialised Node into the API for each machine.
    pub fn put_nodes(&self, ready: bool) {
        for machine in self.cloud.machines() {
            self.put_node(
                &machine.name,
                &format!("simulated://{}", machine.id),
                ready,
                &[],
            );
        }
    }

    /// Puts a Node into the API as it is. An empty provider id is none.
    ///
    /// # Panics
    /// If the API does not take it.
    pub fn put_node(&self, name: &str, provider_id: &str, ready: bool, taints: &[Value]) {
        let status = if ready { "True" } else { "False" };
        let mut spec = json!({"taints": taints});
        if !provider_id.is_empty() {
            spec["providerID"] = json!(provider_id);
        }
        self.api
            .seed(json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": spec,
                "status": {
                    "addresses": [{"type": "Hostname", "address": name}],
                    "conditions": [{"type": "Ready", "status": status}],
                },
            }))
            .expect("a Node that the API takes");
    }

    /// Marks a Node ready or not, as its kubelet or the control plane would.
    ///
    /// # Panics
    /// If the Node does not exist.
    pub fn set_ready(&self, name: &str, ready: bool) {
        let mut node = self
            .api
            .get("nodes", None, name)
            .expect("a Node of that name");
        node["status"]["conditions"] =
            json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
        self.api.seed(node).expect("a Node that the API takes");
    }

    /// Brings the controllers' view of the Nodes up to date.
    ///
    /// # Panics
    /// If the API holds something that is no Node.
    pub fn refresh(&self) {
        let current: Vec<Node> = self
            .api
            .list("nodes")
            .into_iter()
            .map(|node| serde_json::from_value(node).expect("a Node"))
            .collect();
        for old in self.nodes.list() {
            if !current.iter().any(|node| node.name == old.name) {
                self.nodes.remove(&old.name);
            }
        }
        for node in current {
            self.nodes.insert(node);
        }
    }

    /// Runs one pass of the lifecycle controller over the current Nodes.
    pub async fn pass(&self) {
        self.refresh();
        self.lifecycle.pass(&CancellationToken::new()).await;
    }

    /// Runs passes every five seconds for this time.
    pub async fn passes_for(&self, duration: Duration) {
        let end = tokio::time::Instant::now() + duration;
        while tokio::time::Instant::now() < end {
            self.pass().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Syncs these Nodes in one batch, and returns the errors by name.
    pub async fn sync(&self, names: &[String]) -> Vec<(String, String)> {
        self.refresh();
        let errors = Mutex::new(Vec::new());
        self.node_controller
            .sync(names, |name, result| {
                if let Err(error) = result {
                    errors.lock().push((name.to_owned(), error.to_string()));
                }
            })
            .await;
        errors.into_inner()
    }

    /// Returns the number of Nodes in the API.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.api.list("nodes").len()
    }

    /// Returns a Node, if the API has it.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<Value> {
        self.api.get("nodes", None, name)
    }

    /// Returns `reason message` of all events so far, of both controllers.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        self.events
            .iter()
            .flat_map(|events| events.lock().clone())
            .map(|event| format!("{} {}", event.reason, event.message))
            .collect()
    }

    /// Returns the messages of all events with this reason.
    #[must_use]
    pub fn events_of(&self, reason: &str) -> Vec<String> {
        let prefix = format!("{reason} ");
        self.events()
            .into_iter()
            .filter_map(|event| event.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    /// Reads of the cloud's machines so far.
    #[must_use]
    pub fn cloud_reads(&self) -> u64 {
        self.cloud
            .requests()
            .iter()
            .filter(|(route, _)| route.starts_with("GET /v1/machines"))
            .map(|(_, n)| n)
            .sum()
    }

    /// Returns the number of requests so far that ask the API for a change.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.api.requests().writes().len()
    }
}
