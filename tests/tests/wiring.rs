//! Running controllers, the caches that they need, and their independence: none waits for another
//! (INV-6, APP-30 … APP-36).
//!
//! Rules: PROV-11, PROV-16, PROV-20, PROV-21, NODE-2, LIFE-2, SVC-2, ROUTE-2, ROUTE-5.

use std::sync::Arc;
use std::time::Duration;

use ccm_tests::in_process::start_up_taint;
use cloud_provider::{Caches, CloudProvider, Cluster, Instances, LoadBalancers, Routes, Volumes};
use controllers::Options;
use embedded_apiserver::{Action, ApiServer, Matcher};
use kube::Client;
use manager::{Clients, Handles, Selection, Settings, start_controllers};
use parking_lot::Mutex;
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use provider_simulated::provider::Simulated;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The simulated cloud, of which a part can be left out, and what it was given.
struct Partial {
    inner: Simulated,
    has_all: bool,
    caches: Mutex<Option<Arc<dyn Caches>>>,
}

impl CloudProvider for Partial {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn set_caches(&self, caches: Arc<dyn Caches>) {
        *self.caches.lock() = Some(Arc::clone(&caches));
        self.inner.set_caches(caches);
    }
    fn instances(&self) -> Option<&dyn Instances> {
        self.inner.instances()
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.inner.load_balancers().filter(|_| self.has_all)
    }
    fn routes(&self) -> Option<&dyn Routes> {
        self.inner.routes().filter(|_| self.has_all)
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        self.inner.volumes().filter(|_| self.has_all)
    }
}

struct World {
    api: ApiServer,
    cloud: Cloud,
    provider: Arc<Partial>,
    shutdown: CancellationToken,
    settings: Settings,
}

impl World {
    /// Creates a machine with its new Node, and a Service.
    fn new(has_all: bool) -> Self {
        let api = ApiServer::new();
        let cloud = Cloud::default();
        cloud.create_machines("worker-", 1);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"},
            "spec": {"taints": [start_up_taint()], "podCIDRs": ["10.244.1.0/24"]},
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
        });
        for object in [node, service] {
            api.seed(object).expect("an object that the API takes");
        }
        let transport = Transport::builder("http://simulated")
            .credential(Credential::token(DEFAULT_TOKEN))
            .service(cloud.router())
            .build()
            .expect("the address is an address");
        let provider = Partial {
            inner: Simulated::new(transport, None),
            has_all,
            caches: Mutex::new(None),
        };
        let mut options = Options::default();
        options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().expect("a range")];
        let client = Client::new(api.service(), "default");
        let settings = Settings::new(options, Clients::Shared(client));
        Self {
            api,
            cloud,
            provider: Arc::new(provider),
            shutdown: CancellationToken::new(),
            settings,
        }
    }

    /// Selects these controllers, as `--controllers` names them.
    fn selecting(mut self, items: &[&str]) -> Self {
        self.settings.controllers =
            Selection::parse(items.iter().copied()).expect("names of controllers");
        self
    }

    /// Runs for a virtual minute.
    async fn run(&self) {
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: Some("u".into()),
        };
        let provider = Arc::clone(&self.provider) as Arc<dyn CloudProvider>;
        let started = start_controllers(&self.settings, provider, cluster, self.shutdown.clone());
        let handles: Handles = started.await.expect("a start");
        tokio::time::sleep(Duration::from_secs(60)).await;
        self.shutdown.cancel();
        handles.wait().await;
    }

    /// Kinds that were watched or listed.
    fn read(&self) -> Vec<String> {
        let counts = self.api.requests().counts();
        let mut kinds: Vec<String> = counts
            .into_keys()
            .filter(|(verb, _)| verb == "watch" || verb == "list")
            .map(|(_, kind)| kind)
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn is_initialised(&self) -> bool {
        let node = self.api.get("nodes", None, "worker-1").expect("the Node");
        node["spec"]["providerID"].is_string()
    }
}

#[tokio::test(start_paused = true)]
async fn every_standard_controller_runs_and_only_what_they_need_is_read() {
    let world = World::new(true);
    world.run().await;
    assert!(world.is_initialised());
    assert_eq!(
        (
            world.cloud.load_balancers().len(),
            world.cloud.routes().len()
        ),
        (1, 1)
    );
    assert_eq!(world.read(), ["nodes", "services"]);
    let caches = world.provider.caches.lock().clone().expect("caches");
    assert_eq!(
        (caches.nodes().len(), caches.services().len()),
        (1, 1),
        "the provider sees what the controllers see"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_cannot_do_is_left_out_and_the_rest_runs() {
    let world = World::new(false).selecting(&["*", "pvlabel"]);
    world.run().await;
    assert!(world.is_initialised());
    assert_eq!(
        (
            world.cloud.load_balancers().len(),
            world.cloud.routes().len()
        ),
        (0, 0)
    );
    assert_eq!(
        world.read(),
        ["nodes"],
        "nobody asks for permissions that nobody needs"
    );
}

#[tokio::test(start_paused = true)]
async fn only_selected_controllers_run() {
    let world = World::new(true).selecting(&["*", "-service", "-cloud-node-controller"]);
    world.run().await;
    assert!(!world.is_initialised() && world.cloud.load_balancers().is_empty());
    assert_eq!(world.read(), ["nodes"]);

    let mut world = World::new(true).selecting(&["*", "pvlabel"]);
    world.settings.configure_cloud_routes = false;
    world.run().await;
    assert_eq!(world.read(), ["nodes", "persistentvolumes", "services"]);
    assert!(world.cloud.routes().is_empty() && world.is_initialised());

    let world = World::new(true).selecting(&[]);
    world.run().await;
    assert_eq!(
        world.api.requests().writes().len(),
        0,
        "APP-32: all are off, and the process goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn services_that_may_not_be_read_hold_up_nobody_else() {
    let world = World::new(true);
    let forbidden = || Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    for verb in ["list", "watch"] {
        world
            .api
            .faults()
            .add(Matcher::any().verb(verb).resource("services"), forbidden());
    }
    world.run().await;
    assert!(world.is_initialised());
    assert_eq!(
        (
            world.cloud.load_balancers().len(),
            world.cloud.routes().len()
        ),
        (0, 1)
    );
}
