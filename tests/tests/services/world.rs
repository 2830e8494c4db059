//! The controller of the product between an API server with real watches and a cloud, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use ccm_conformance::user::User;
use cloud_provider::{CloudProvider, Cluster, Node, Service};
use controllers::options::ServiceOptions;
use controllers::service::ServiceMetrics;
use controllers::{ControllerContext, Options, ServiceController};
use embedded_apiserver::{ApiServer, Options as ServerOptions};
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::cache::{Cache, WatchConfig, watch};
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::node::NodeObject;
use runtime::pulse::Pulse;
use runtime::queue::NoMetrics;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cloud::LbCloud;

/// Harness of the service controller, an API server and a scripted cloud.
pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) user: User,
    pub(crate) cloud: LbCloud,
    pub(crate) options: Options,
    pub(crate) drifts: Arc<Drifts>,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
    process: Option<Process>,
}

struct Process {
    shutdown: CancellationToken,
    controller: JoinHandle<()>,
    watches: Vec<JoinHandle<()>>,
}

/// Counts findings of drift.
#[derive(Default)]
pub(crate) struct Drifts(Mutex<usize>);

impl Drifts {
    pub(crate) fn get(&self) -> usize {
        *self.0.lock()
    }
}

impl ServiceMetrics for Drifts {
    fn targets_sync_started(&self) {}
    fn targets_synced(&self, _took: Duration) {}
    fn node_sync_failed(&self) {}
    fn node_synced(&self, _took: Duration) {}
    fn ensured(&self, _took: Duration, _well: bool) {}
    fn deleted(&self, _took: Duration, _well: bool) {}
    fn drift_found(&self) {
        *self.0.lock() += 1;
    }
}

/// Returns a running product with two Nodes and no Services.
pub(crate) async fn world() -> World {
    world_with(|_| ()).await
}

/// Returns a running harness with changed settings of the service controller.
pub(crate) async fn world_with(change: impl FnOnce(&mut ServiceOptions)) -> World {
    let mut options = Options::default();
    change(&mut options.service);
    let mut world = World::stopped(options);
    for name in ["worker-1", "worker-2"] {
        world.put_node(name, &format!("lbs://{name}"));
    }
    world.start().await;
    world
}

impl World {
    /// Creates a world whose controller is not started.
    pub(crate) fn stopped(options: Options) -> Self {
        let api = ApiServer::with_options(ServerOptions {
            taint_new_nodes: false,
            ..ServerOptions::default()
        });
        let user = User::of(&api);
        let cloud = LbCloud::new(&api);
        Self {
            api,
            user,
            cloud,
            options,
            drifts: Arc::default(),
            events: Arc::default(),
            process: None,
        }
    }

    /// Starts the controller, with memory of nothing, and waits until it has settled.
    pub(crate) async fn start(&mut self) {
        let client = Client::new(self.api.service(), "default");
        let (nodes, services): (Cache<Node>, Cache<Service>) = (Cache::new(), Cache::new());
        let shutdown = CancellationToken::new();
        let (node_api, service_api): (Api<NodeObject>, Api<Service>) =
            (Api::all(client.clone()), Api::all(client.clone()));
        let config = WatchConfig::default;
        let watches = vec![
            tokio::spawn(watch(node_api, config(), nodes.clone(), shutdown.clone())),
            tokio::spawn(watch(
                service_api,
                config(),
                services.clone(),
                shutdown.clone(),
            )),
        ];
        let (recorder, events) =
            EventRecorder::to_memory("service-controller", Arc::new(SystemClock));
        self.events = events;
        let provider = Arc::new(self.cloud.clone()) as Arc<dyn CloudProvider>;
        let context = ControllerContext {
            client,
            nodes,
            provider,
            clock: Arc::new(SystemClock),
            pulse: Pulse::default(),
        };
        let namespace = self.api.get("namespaces", None, "kube-system").unwrap();
        let cluster = Cluster {
            name: "kubernetes".to_owned(),
            id: namespace["metadata"]["uid"].as_str().map(str::to_owned),
        };
        let metrics = Arc::clone(&self.drifts) as Arc<dyn ServiceMetrics>;
        let controller =
            ServiceController::new(context, services, cluster, &self.options, recorder, metrics)
                .unwrap();
        let run =
            Arc::new(controller).run(Arc::new(NoMetrics), Arc::new(NoMetrics), shutdown.clone());
        self.process = Some(Process {
            controller: tokio::spawn(run),
            watches,
            shutdown,
        });
        self.settle().await;
    }

    /// Stops the controller and waits for its end; how long that took.
    pub(crate) async fn stop(&mut self) -> Duration {
        let process = self.process.take().unwrap();
        let start = tokio::time::Instant::now();
        process.shutdown.cancel();
        process.controller.await.unwrap();
        for watch in process.watches {
            watch.await.unwrap();
        }
        start.elapsed()
    }

    /// Lets some seconds pass: longer than the window of the node sync, shorter than the first back-off.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(4)).await;
    }

    pub(crate) fn put_node(&self, name: &str, provider_id: &str) {
        let mut spec = json!({});
        if !provider_id.is_empty() {
            spec["providerID"] = json!(provider_id);
        }
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.api.seed(node).unwrap();
    }

    pub(crate) async fn create(&self, name: &str) -> Value {
        self.user.create_service(name, &[80]).await
    }

    /// Returns a Service as the API has it.
    pub(crate) fn service(&self, name: &str) -> Value {
        self.api
            .get("services", Some("default"), name)
            .unwrap_or_default()
    }

    /// Returns the program's condition on a Service: status, reason and message.
    pub(crate) fn condition(&self, name: &str) -> Option<(String, String, String)> {
        let service = self.service(name);
        let conditions = service["status"]["conditions"].as_array()?;
        let ours = conditions
            .iter()
            .find(|condition| condition["type"] == "ccm-rs/LoadBalancerReady")?;
        let text = |field: &str| ours[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Takes `reason message` of the events so far, of the Services of this name.
    pub(crate) fn take_events(&self, name: &str) -> Vec<String> {
        let mut events = self.events.lock();
        let taken = events.extract_if(.., |event| event.regarding.name == name);
        taken
            .map(|event| format!("{} {}", event.reason, event.message))
            .collect()
    }

    pub(crate) fn all_events(&self) -> Vec<String> {
        let events = self.events.lock();
        events
            .iter()
            .map(|event| {
                format!(
                    "{} {}: {}",
                    event.regarding.name, event.reason, event.message
                )
            })
            .collect()
    }

    /// Patches of Services so far by the controller; all go to the status.
    pub(crate) fn writes(&self) -> usize {
        let requests = self.api.requests().all();
        let ours = requests
            .iter()
            .filter(|request| request.resource == "services" && request.verb == "patch");
        ours.filter(|request| request.subresource == "status")
            .count()
    }

    /// Forgets what was counted so far.
    pub(crate) fn clear(&self) {
        self.api.requests().clear();
        self.cloud.clear_calls();
        self.events.lock().clear();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let violations = self.cloud.violations();
        assert!(
            violations.is_empty() || std::thread::panicking(),
            "{violations:?}"
        );
    }
}
