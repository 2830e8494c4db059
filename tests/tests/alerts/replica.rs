//! A replica that behaves as told for a minute, through the hooks that the program calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cloud_provider::names::{
    EFFECT_NO_SCHEDULE, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER, TAINT_UNINITIALIZED,
};
use cloud_provider::{Node, Service, Taint};
use controllers::options::ServiceOptions;
use controllers::route::{RouteCounts, SyncOutcome, SyncTrigger};
use http::Method;
use jiff::Timestamp;
use metrics::{ControllerRuns, Metrics};
use runtime::cache::Cache;
use runtime::client::RequestInfo;
use runtime::clock::{Clock, ManualClock};
use serde_json::json;
use serving::health::{Health, Probe};

const LEASE: &str = "cloud-controller-manager";
const QUEUE: &str = "service";

/// Behaviour of a replica in the minute before a scrape.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) leads: bool,
    /// The controllers that run, by the names of their metrics.
    pub(crate) controllers: Vec<&'static str>,
    /// Answers of the API server: status, or none at all, and how many.
    pub(crate) api: Vec<(Option<u16>, u32)>,
    /// Answers of the cloud.
    pub(crate) cloud: Vec<(Option<u16>, u32)>,
    /// Retries, depth and the oldest item in work of the queue `service`.
    pub(crate) retries: u32,
    pub(crate) depth: usize,
    pub(crate) longest: Duration,
    /// Age of the Node that was initialised.
    pub(crate) initialised_at: Option<Duration>,
    /// For how long a Node and a load balancer have been waited for.
    pub(crate) node_waits: Option<Duration>,
    pub(crate) load_balancer_waits: Option<Duration>,
    pub(crate) is_well: bool,
    /// A deletion was held.
    pub(crate) held: bool,
    pub(crate) target_errors: u32,
    pub(crate) failed_routes: usize,
    /// If set, the cloud refuses to list its routes.
    pub(crate) routes_are_unread: bool,
    /// Load balancers of deleted Services.
    pub(crate) orphans: usize,
    /// Services that vanished and are held.
    pub(crate) vanished: usize,
    /// Results of the kubeconfig's changes: `true` for each one that was applied.
    pub(crate) kubeconfig_changes: Vec<bool>,
}

impl State {
    /// Returns the state of a healthy leader.
    pub(crate) fn leader() -> Self {
        let controllers = [
            NODE_CONTROLLER,
            NODE_LIFECYCLE_CONTROLLER,
            ROUTE_CONTROLLER,
            SERVICE_CONTROLLER,
        ];
        Self {
            leads: true,
            controllers: controllers.iter().map(|names| names.metric).collect(),
            api: vec![(Some(200), 40), (Some(404), 1), (Some(409), 1)],
            cloud: vec![(Some(200), 10), (Some(404), 1)],
            depth: 1,
            longest: Duration::from_secs(2),
            initialised_at: Some(Duration::from_secs(3)),
            ..Self::standby()
        }
    }

    /// Returns the state of a healthy standby.
    pub(crate) fn standby() -> Self {
        Self {
            leads: false,
            controllers: Vec::new(),
            api: vec![(Some(200), 15)],
            cloud: Vec::new(),
            retries: 0,
            depth: 0,
            longest: Duration::ZERO,
            initialised_at: None,
            node_waits: None,
            load_balancer_waits: None,
            is_well: true,
            held: false,
            target_errors: 0,
            failed_routes: 0,
            routes_are_unread: false,
            orphans: 0,
            vanished: 0,
            kubeconfig_changes: Vec::new(),
        }
    }
}

/// A running replica with its metrics.
pub(crate) struct Replica {
    metrics: Metrics,
    health: Health,
    is_well: Arc<AtomicBool>,
    nodes: Cache<Node>,
    services: Cache<Service>,
    orphans: Arc<AtomicUsize>,
    vanished: Arc<AtomicUsize>,
    running: Vec<(&'static str, ControllerRuns)>,
    is_made: bool,
    clock: ManualClock,
}

impl Replica {
    /// Starts a replica at the time of `clock`.
    pub(crate) fn start(clock: &ManualClock) -> Self {
        let metrics = Metrics::at(Arc::new(clock.clone()));
        let health = Health::new();
        let is_well = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&is_well);
        let check = move || {
            if asked.load(Ordering::Relaxed) {
                Ok(())
            } else {
                Err("not renewed".to_owned())
            }
        };
        health.add("leaderElection", Arc::new(check));
        metrics.elections().leading(LEASE, false);
        let nodes = Cache::with([]);
        let services = Cache::with([]);
        let orphans = Arc::default();
        let vanished = Arc::default();
        let running = Vec::new();
        let clock = clock.clone();
        Self {
            metrics,
            health,
            is_well,
            nodes,
            services,
            orphans,
            vanished,
            running,
            is_made: false,
            clock,
        }
    }

    /// Lets a minute pass, and returns the scrapes of both paths.
    pub(crate) fn live(&mut self, state: &State) -> Vec<String> {
        self.metrics.elections().leading(LEASE, state.leads);
        self.is_well.store(state.is_well, Ordering::Relaxed);
        self.orphans.store(state.orphans, Ordering::Relaxed);
        self.vanished.store(state.vanished, Ordering::Relaxed);
        self.run(&state.controllers);
        self.ask(state);
        if self.is_made {
            self.work(state);
        }
        _ = self.health.report(Probe::Healthz, &[]);
        vec![
            self.metrics.render(),
            self.metrics.render_slis(&self.health),
        ]
    }

    fn run(&mut self, controllers: &[&'static str]) {
        self.running.retain(|(name, _)| controllers.contains(name));
        for &name in controllers {
            if !self.running.iter().any(|(running, _)| *running == name) {
                self.running
                    .push((name, self.metrics.controller_runs(name)));
            }
        }
        if !controllers.is_empty() && !self.is_made {
            self.is_made = true;
            self.metrics.queues().created(QUEUE);
            self.metrics.count_nodes(self.nodes.clone(), |_| true);
            self.metrics
                .count_services(self.services.clone(), ServiceOptions::default());
            let orphans = Arc::clone(&self.orphans);
            let vanished = Arc::clone(&self.vanished);
            self.metrics
                .count_held("service", move || vanished.load(Ordering::Relaxed));
            self.metrics.count_orphans("load_balancer", move || {
                Some(orphans.load(Ordering::Relaxed))
            });
        }
    }

    fn ask(&self, state: &State) {
        let requests = self.metrics.requests();
        let path = "/api/v1/nodes/a";
        let info = RequestInfo::new(
            &Method::GET,
            &path.parse().expect(path),
            "10.0.0.1:443".into(),
        );
        for &(status, times) in &state.api {
            (0..times).for_each(|_| requests.answered(&info, status, Duration::from_millis(10)));
        }
        state
            .kubeconfig_changes
            .iter()
            .for_each(|&is_in_use| requests.kubeconfig_changed(is_in_use));
        let cloud = self.metrics.cloud("simulated");
        for &(status, times) in &state.cloud {
            (0..times).for_each(|_| {
                cloud.finished("GET /v1/machines", status, Duration::from_millis(100));
            });
        }
    }

    fn work(&self, state: &State) {
        let queues = self.metrics.queues();
        queues.added(QUEUE, 5);
        queues.depth(QUEUE, state.depth);
        queues.longest_running(QUEUE, state.longest);
        (0..state.retries).for_each(|_| queues.retried(QUEUE));
        let nodes = self.metrics.nodes();
        if let Some(age) = state.initialised_at {
            nodes.taint_removed(age);
            nodes.synced(age);
        }
        if state.held {
            self.metrics.lifecycle().held("no-witness");
        }
        let services = self.metrics.services();
        let routes = self.metrics.routes();
        (0..state.target_errors).for_each(|_| services.node_sync_failed());
        let outcome = if state.routes_are_unread {
            SyncOutcome::Error
        } else {
            SyncOutcome::Noop
        };
        (0..6).for_each(|_| routes.synced(outcome, SyncTrigger::Periodic));
        let failed = state.failed_routes;
        routes.route_counts(RouteCounts {
            desired: 10,
            present: 10 - failed,
            foreign: 3,
            failed,
        });
        self.fill_caches(state);
    }

    fn fill_caches(&self, state: &State) {
        let begun = |ago: Duration| self.clock.now().checked_sub(ago).expect("a time");
        self.nodes.insert(node(state.node_waits.map(begun)));
        self.services
            .insert(service(state.load_balancer_waits.map(begun)));
    }
}

fn node(waits_since: Option<Timestamp>) -> Node {
    let taints = waits_since.map(|_| Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE));
    Node {
        name: "worker-1".into(),
        created: waits_since,
        taints: taints.into_iter().collect(),
        ..Node::default()
    }
}

fn service(waits_since: Option<Timestamp>) -> Service {
    let ingress = if waits_since.is_some() {
        json!([])
    } else {
        json!([{"ip": "192.0.2.1"}])
    };
    let object = json!({
        "metadata": {"name": "web", "namespace": "default", "creationTimestamp": waits_since},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    serde_json::from_value(object).expect("a service")
}
