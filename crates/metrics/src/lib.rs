//! Every series of the cloud controller manager (MET-*). No other crate uses the metrics library.
//!
//! The other crates define hook traits that do nothing by default; this crate implements them. [`series`] declares each
//! series once, for the registry and for `docs/reference/metrics.md`.
//!
//! ```
//! use metrics::Metrics;
//! use runtime::{limiter::RateLimiter, queue::Queue};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let metrics = Metrics::new();
//! let queue = Queue::new("Nodes", RateLimiter::standard(), metrics.queues());
//! queue.add("worker-1");
//! assert!(metrics.render().contains("workqueue_depth{name=\"Nodes\"} 1\n"));
//! # }
//! ```
//!
//! Updates copy nothing, because the metric for a set of labels is looked up once and kept. Counters and gauges take no
//! lock; a histogram takes its own for a few instructions. Values that other components hold (the process, the caches,
//! health checks) are computed at each scrape.

mod accept;
pub mod census;
mod endpoint;
mod exposition;
mod gzip;
mod health;
mod histogram;
mod hooks;
mod identity;
mod native;
mod number;
mod process;
mod protobuf;
pub mod reference;
mod registry;
mod resolved;
mod samples;
mod scheduler;
pub mod series;
mod text;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{CloudMetrics, Node, Service};
use controllers::lifecycle::LifecycleMetrics;
use controllers::node::NodeMetrics;
use controllers::options::ServiceOptions;
use controllers::route::RouteMetrics;
use controllers::service::ServiceMetrics;
use parking_lot::{Mutex, RwLock};
use prometheus::GaugeVec;
use runtime::cache::Cache;
use runtime::client::RequestMetrics;
use runtime::clock::{Clock, SystemClock};
use runtime::election::ElectionMetrics;
use runtime::queue::QueueMetrics;
use serving::access::AccessMetrics;
use serving::health::Health;
use serving::server::ServerMetrics;
use serving::webhook::WebhookMetrics;

pub use identity::{Build, Gate, architecture};
pub use text::CONTENT_TYPE;

use crate::census::{LoadBalancers, Uninitialized};
use crate::exposition::Exposed;
use crate::hooks::{
    Access, ApiClient, Cloud, Credential, Elections, Lifecycle, NodeDelays, Nodes, OwnCloud,
    Queues, Reconciles, Reloads, Routes, Services, Webhooks,
};
use crate::process::Process;
use crate::registry::Registry;
use crate::samples::{Samples, Source};
use crate::series::{
    LOAD_BALANCER_OLDEST_PENDING, LOAD_BALANCERS, NODES_UNINITIALIZED, NODES_UNINITIALIZED_OLDEST,
    ORPHANS, PROCESS_START_TIME_OF_SLIS, RUNNING_CONTROLLERS, VANISHED,
};

/// Value of the label `manager`.
const MANAGER: &str = "cloud-controller-manager";

/// The series of a process. Clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    clock: Arc<dyn Clock>,
    process: Process,
    running: GaugeVec,
    reconciles: Reconciles,
    node_delays: NodeDelays,
    own_cloud: OwnCloud,
    queues: Arc<Queues>,
    api_client: Arc<ApiClient>,
    reloads: Reloads,
    elections: Arc<Elections>,
    access: Arc<Access>,
    webhooks: Arc<Webhooks>,
    nodes: OnceLock<Arc<Nodes>>,
    lifecycle: OnceLock<Arc<Lifecycle>>,
    services: OnceLock<Arc<Services>>,
    routes: OnceLock<Arc<Routes>>,
    clouds: Mutex<HashMap<String, Arc<Cloud>>>,
    sources: RwLock<Vec<Source>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers the series that exist from the start, at zero (MET-3).
    #[must_use]
    pub fn new() -> Self {
        Self::at(Arc::new(SystemClock))
    }

    /// Registers the series like [`new`](Self::new), with this clock for ages and times.
    #[must_use]
    pub fn at(clock: Arc<dyn Clock>) -> Self {
        let registry = Registry::new(Arc::clone(&clock));
        let process = Process::current();
        let reloads = Reloads::new(&registry);
        let metrics = Self(Arc::new(Inner {
            process,
            running: registry.gauges(RUNNING_CONTROLLERS),
            reconciles: Reconciles::new(&registry, Arc::clone(&clock)),
            node_delays: NodeDelays::new(&registry),
            own_cloud: OwnCloud::new(&registry, reloads.clone()),
            queues: Arc::new(Queues::new(&registry)),
            api_client: Arc::new(ApiClient::new(&registry, reloads.clone())),
            reloads,
            elections: Arc::new(Elections::new(&registry)),
            access: Arc::new(Access::new(&registry)),
            webhooks: Arc::new(Webhooks::new(&registry)),
            nodes: OnceLock::new(),
            lifecycle: OnceLock::new(),
            services: OnceLock::new(),
            routes: OnceLock::new(),
            clouds: Mutex::default(),
            sources: RwLock::default(),
            registry,
            clock,
        }));
        metrics.source(move |out| process.samples(out));
        metrics.source(scheduler::samples);
        metrics
    }

    /// Exposes histograms with their declared buckets only, also in the protobuf format. Must be called before the
    /// first scrape, because native histograms cannot be enabled again.
    pub fn disable_native_histograms(&self) {
        self.0.registry.disable_native_histograms();
    }

    /// Returns `true` unless native histograms were disabled.
    #[must_use]
    pub fn has_native_histograms(&self) -> bool {
        self.0.registry.has_native_histograms()
    }

    /// Returns the metrics of all work queues.
    #[must_use]
    pub fn queues(&self) -> Arc<dyn QueueMetrics> {
        Arc::clone(&self.0.queues) as _
    }

    /// Returns the metrics of requests to the API server.
    #[must_use]
    pub fn requests(&self) -> Arc<dyn RequestMetrics> {
        Arc::clone(&self.0.api_client) as _
    }

    /// Returns the metrics of leader election.
    #[must_use]
    pub fn elections(&self) -> Arc<dyn ElectionMetrics> {
        Arc::clone(&self.0.elections) as _
    }

    /// Returns the metrics of callers.
    #[must_use]
    pub fn access(&self) -> Arc<dyn AccessMetrics> {
        Arc::clone(&self.0.access) as _
    }

    /// Returns the metrics of HTTPS servers.
    #[must_use]
    pub fn servers(&self) -> Arc<dyn ServerMetrics> {
        Arc::clone(&self.0.access) as _
    }

    /// Returns the metrics of webhooks.
    #[must_use]
    pub fn webhooks(&self) -> Arc<dyn WebhookMetrics> {
        Arc::clone(&self.0.webhooks) as _
    }

    /// Returns the metrics of the node controller. Must be called when the controller is created, because its series
    /// exist from then on.
    #[must_use]
    pub fn nodes(&self) -> Arc<dyn NodeMetrics> {
        let make = || Arc::new(Nodes::new(self.0.node_delays.clone(), &self.0.reconciles));
        Arc::clone(self.0.nodes.get_or_init(make)) as _
    }

    /// Returns the metrics of the lifecycle controller. Must be called when the controller is created.
    #[must_use]
    pub fn lifecycle(&self) -> Arc<dyn LifecycleMetrics> {
        let make = || Arc::new(Lifecycle::new(&self.0.registry, &self.0.reconciles));
        Arc::clone(self.0.lifecycle.get_or_init(make)) as _
    }

    /// Returns the metrics of the service controller. Must be called when the controller is created.
    #[must_use]
    pub fn services(&self) -> Arc<dyn ServiceMetrics> {
        let make = || Arc::new(Services::new(&self.0.registry, &self.0.reconciles));
        Arc::clone(self.0.services.get_or_init(make)) as _
    }

    /// Returns the metrics of the route controller. Must be called when the controller is created.
    #[must_use]
    pub fn routes(&self) -> Arc<dyn RouteMetrics> {
        let make = || Arc::new(Routes::new(&self.0.registry, &self.0.reconciles));
        Arc::clone(self.0.routes.get_or_init(make)) as _
    }

    /// Returns the metrics of requests to the cloud of this provider, whose name is part of the names of some series
    /// (MET-40).
    #[must_use]
    pub fn cloud(&self, provider: &str) -> Arc<dyn CloudMetrics> {
        let mut clouds = self.0.clouds.lock();
        let make = || {
            Arc::new(Cloud::new(
                self.0.own_cloud.clone(),
                &self.0.registry,
                provider,
            ))
        };
        Arc::clone(clouds.entry(provider.to_owned()).or_insert_with(make)) as _
    }

    /// Counts a change of the cloud configuration.
    pub fn cloud_config_changed(&self, outcome: CloudConfigChange) {
        match outcome {
            CloudConfigChange::InUse => self.0.reloads.count(Credential::CloudConfig, true),
            CloudConfigChange::Unusable => self.0.reloads.count(Credential::CloudConfig, false),
            CloudConfigChange::NeedsRestart => self.0.reloads.count_restart(),
        }
    }

    /// Reports a controller as running until the returned value is dropped (APP-38). `name` is the controller's name in
    /// metrics, such as `cloud-node`.
    pub fn controller_runs(&self, name: &'static str) -> ControllerRuns {
        let gauge = self.0.running.with_label_values(&[name, MANAGER]);
        gauge.set(1.0);
        ControllerRuns(gauge)
    }

    /// Adds the build information. Must be called once.
    pub fn build(&self, build: Build) {
        self.source(move |out| build.samples(out));
    }

    /// Adds the values of the feature gates. Must be called once.
    pub fn gates(&self, gates: Vec<Gate>) {
        self.source(move |out| identity::gate_samples(&gates, out));
    }

    /// Adds figures about the Nodes in the cache that belong to this cloud, as soon as the cache is synced. Must be
    /// called once, when the node controller is created.
    pub fn count_nodes(
        &self,
        cache: Cache<Node>,
        is_ours: impl Fn(&Node) -> bool + Send + Sync + 'static,
    ) {
        let clock = Arc::clone(&self.0.clock);
        self.source(move |out| {
            if !cache.is_synced() {
                return;
            }
            let nodes = cache.list();
            let ours = nodes
                .iter()
                .map(|node| &**node)
                .filter(|node| node.is_uninitialized() && is_ours(node));
            let Uninitialized { nodes, oldest } = Uninitialized::of(ours, clock.now());
            out.put(NODES_UNINITIALIZED, hooks::number(nodes));
            out.put(NODES_UNINITIALIZED_OLDEST, oldest.as_secs_f64());
        });
    }

    /// Adds figures about the Services in the cache, as soon as the cache is synced. Must be called once, when the
    /// service controller is created.
    pub fn count_services(&self, cache: Cache<Service>, options: ServiceOptions) {
        let clock = Arc::clone(&self.0.clock);
        self.source(move |out| {
            if !cache.is_synced() {
                return;
            }
            let services = cache.list();
            let figures = LoadBalancers::of(
                services.iter().map(|service| &**service),
                &options,
                clock.now(),
            );
            for (state, services) in figures.states {
                out.put_by(LOAD_BALANCERS, &[state.as_str()], hooks::number(services));
            }
            out.put(
                LOAD_BALANCER_OLDEST_PENDING,
                figures.oldest_pending.as_secs_f64(),
            );
        });
    }

    /// Adds the number of orphaned resources of a kind in the cloud. `count` is called at each scrape, and returns
    /// `None` as long as the number is unknown. Must be called once for each kind.
    pub fn count_orphans(
        &self,
        kind: &'static str,
        count: impl Fn() -> Option<usize> + Send + Sync + 'static,
    ) {
        self.source(move |out| {
            if let Some(orphans) = count() {
                out.put_by(ORPHANS, &[kind], hooks::number(orphans));
            }
        });
    }

    /// Adds the number of objects of a kind that vanished from the Kubernetes API and are held. `count` is called at
    /// each scrape. Must be called once for each kind.
    pub fn count_held(
        &self,
        kind: &'static str,
        count: impl Fn() -> usize + Send + Sync + 'static,
    ) {
        self.source(move |out| out.put_by(VANISHED, &[kind], hooks::number(count())));
    }

    /// Returns the current values of all series as text ([`CONTENT_TYPE`]), including figures about the tokio runtime
    /// if called within one.
    #[must_use]
    pub fn render(&self) -> String {
        text::write(&self.exposed())
    }

    /// Returns the series about health checks as text, for `/metrics/slis` (MET-2).
    #[must_use]
    pub fn render_slis(&self, health: &Health) -> String {
        text::write(&self.exposed_slis(health))
    }

    /// Returns all series except those about health checks.
    fn exposed(&self) -> Vec<Exposed> {
        let mut computed = Samples::default();
        for source in self.0.sources.read().iter() {
            source(&mut computed);
        }
        let mut families = self.0.registry.gather();
        families.extend(computed.exposed());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        families
    }

    /// Returns the series about health checks.
    fn exposed_slis(&self, health: &Health) -> Vec<Exposed> {
        let mut computed = Samples::default();
        health::samples(health, &mut computed);
        computed.put(
            PROCESS_START_TIME_OF_SLIS,
            self.process_started().as_secs_f64(),
        );
        let mut families: Vec<_> = computed.exposed().collect();
        families.sort_by(|a, b| a.name().cmp(b.name()));
        families
    }

    fn process_started(&self) -> Duration {
        self.0.process.started
    }

    fn source(&self, source: impl Fn(&mut Samples) + Send + Sync + 'static) {
        self.0.sources.write().push(Box::new(source));
    }
}

/// The result of a change of the cloud configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudConfigChange {
    /// The new configuration is in use.
    InUse,
    /// The new configuration takes effect, at least in part, only after a restart.
    NeedsRestart,
    /// The new configuration cannot be used.
    Unusable,
}

/// A running controller; see [`Metrics::controller_runs`].
#[must_use]
pub struct ControllerRuns(prometheus::Gauge);

impl Drop for ControllerRuns {
    fn drop(&mut self) {
        self.0.set(0.0);
    }
}
