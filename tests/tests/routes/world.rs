//! An API server, a cache of its Nodes, and a route controller that runs.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, CloudProvider, Cluster, Node, Service};
use controllers::route::{RouteMetrics, SyncOutcome, SyncTrigger, cluster_cidr};
use controllers::{ControllerContext, Options, RouteController};
use embedded_apiserver::ApiServer;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::cache::{Cache, Resync, WatchConfig, watch};
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::node::NodeObject;
use runtime::pulse::Pulse;
use runtime::queue::NoMetrics;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The world; everything in it stops when it is dropped.
pub(crate) struct World {
    pub(crate) api: ApiServer,
    context: ControllerContext,
    options: Options,
    recorder: EventRecorder,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
    /// Outcome and trigger of each pass, as the labels of the series.
    pub(crate) syncs: Arc<Syncs>,
    shutdown: CancellationToken,
    /// Token that stops the running controller.
    life: Mutex<CancellationToken>,
    /// Interval of resyncs in watch mode.
    pub(crate) resync: Resync,
    _until: DropGuard,
}

/// The passes that were counted.
#[derive(Default)]
pub(crate) struct Syncs(pub(crate) Mutex<Vec<(&'static str, &'static str)>>);

impl RouteMetrics for Syncs {
    fn synced(&self, outcome: SyncOutcome, trigger: SyncTrigger) {
        self.0.lock().push((outcome.as_str(), trigger.as_str()));
    }
}

/// The cache, as providers see it.
pub(crate) struct TheseNodes(pub(crate) Cache<Node>);

impl Caches for TheseNodes {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.0.list()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.0.get(name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

/// Returns the product's options, for these ranges.
pub(crate) fn product(ranges: &str) -> Options {
    let mut options = Options::default();
    options.route.cluster_cidrs = cluster_cidr::parse(ranges).unwrap();
    options
}

pub(crate) async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

impl World {
    /// Creates a world without Nodes in which the controller does not run yet.
    pub(crate) fn new(provider: Arc<dyn CloudProvider>, options: &Options) -> Self {
        let api = ApiServer::new();
        let nodes = Cache::new();
        let shutdown = CancellationToken::new();
        let client = Client::new(api.service(), "default");
        provider.set_caches(Arc::new(TheseNodes(nodes.clone())));
        let clock = Arc::new(SystemClock);
        let (recorder, events) = EventRecorder::to_memory("route_controller", clock.clone());
        let context = ControllerContext {
            client: client.clone(),
            nodes: nodes.clone(),
            provider,
            clock,
            pulse: Pulse::default(),
        };
        let watched = watch(
            Api::<NodeObject>::all(client),
            WatchConfig::default(),
            nodes.clone(),
            shutdown.clone(),
        );
        tokio::spawn(watched);
        let until = shutdown.clone().drop_guard();
        let life = Mutex::new(shutdown.child_token());
        let options = options.clone();
        let syncs = Arc::default();
        Self {
            api,
            context,
            options,
            recorder,
            events,
            syncs,
            shutdown,
            life,
            resync: Resync::never(),
            _until: until,
        }
    }

    /// Starts a controller that remembers nothing; one that runs ends.
    pub(crate) fn run(&self) {
        self.run_as(Some("this-cluster"));
    }

    /// Runs the controller like [`run`](Self::run), for a cluster with this ID. The task ends with the controller.
    pub(crate) fn run_as(&self, id: Option<&str>) -> JoinHandle<()> {
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: id.map(str::to_owned),
        };
        let context = self.context.clone();
        let recorder = self.recorder.clone();
        let made = RouteController::new(
            context,
            cluster,
            &self.options,
            recorder,
            self.syncs.clone(),
        );
        let life = self.shutdown.child_token();
        std::mem::replace(&mut *self.life.lock(), life.clone()).cancel();
        tokio::spawn(Arc::new(made.unwrap()).run(Arc::new(NoMetrics), self.resync, life))
    }

    /// Returns outcome and trigger of each pass since the last call.
    pub(crate) fn counted(&self) -> Vec<(&'static str, &'static str)> {
        std::mem::take(&mut *self.syncs.0.lock())
    }

    /// Seconds that the controller needs to stop.
    pub(crate) async fn stop(&self, task: JoinHandle<()>) -> u64 {
        let start = Instant::now();
        self.life.lock().cancel();
        task.await.unwrap();
        start.elapsed().as_secs()
    }

    /// Puts an initialised Node there.
    pub(crate) fn put(&self, name: &str, provider_id: &str, ip: &str, cidrs: &[&str]) {
        self.put_with(
            name,
            cidrs,
            &json!([{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}]),
            |node| {
                node["spec"]["providerID"] = json!(provider_id);
            },
        );
    }

    /// Adds a Node with a change.
    pub(crate) fn put_with(
        &self,
        name: &str,
        cidrs: &[&str],
        addresses: &Value,
        change: impl FnOnce(&mut Value),
    ) {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name},
            "spec": {"podCIDRs": cidrs, "podCIDR": cidrs.first()},
            "status": {"addresses": addresses},
        });
        change(&mut node);
        self.api.seed(node).unwrap();
    }

    /// Changes a Node, as its kubelet or another client would.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.api.get("nodes", None, name).unwrap();
        change(&mut node);
        self.api.seed(node).unwrap();
    }

    /// Returns `STATUS REASON` of the condition; empty without a condition.
    pub(crate) fn condition(&self, name: &str) -> String {
        let node = self.api.get("nodes", None, name).unwrap();
        let conditions = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ours = conditions
            .iter()
            .find(|condition| condition["type"] == "NetworkUnavailable");
        let text = |condition: &Value, field: &str| {
            condition[field].as_str().unwrap_or_default().to_owned()
        };
        ours.map(|c| format!("{} {}", text(c, "status"), text(c, "reason")))
            .unwrap_or_default()
    }

    /// Returns the messages of all events with this reason.
    pub(crate) fn events_of(&self, reason: &str) -> Vec<String> {
        let events = self.events.lock();
        events
            .iter()
            .filter(|event| event.reason == reason)
            .map(|event| event.message.clone())
            .collect()
    }

    /// Returns the reasons of all events.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.events
            .lock()
            .iter()
            .map(|event| event.reason.clone())
            .collect()
    }

    /// Returns the number of requests so far that ask the API for a change.
    pub(crate) fn writes(&self) -> usize {
        self.api.requests().writes().len()
    }
}

pub(crate) const CREATED: &str = "False RouteCreated";
pub(crate) const NOT_CREATED: &str = "True NoRouteCreated";
