//! Metrics of the four controllers (MET-10, MET-11).

use std::time::Duration;

use cloud_provider::names;
use controllers::lifecycle::{CloudOperation, LifecycleMetrics};
use controllers::node::NodeMetrics;
use controllers::route::{RouteCounts, RouteMetrics, SyncOutcome, SyncTrigger};
use controllers::service::ServiceMetrics;
use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec};

use crate::histogram::{Histogram, HistogramVec};
use crate::hooks::{Reconcile, Reconciles, number, result};
use crate::registry::Registry;
use crate::series::{
    LOAD_BALANCER_CALLS, LOAD_BALANCER_DELETIONS_SUPPRESSED, LOAD_BALANCER_DRIFTS,
    LOAD_BALANCER_SYNC, MONITOR_CALLS, MONITOR_NODES, NODE_DELETIONS, NODE_DELETIONS_SUPPRESSED,
    NODE_LOOKUP_ERRORS, NODE_SHUTDOWN_TAINTS, NODE_SYNC_DELAY, NODE_SYNC_ERRORS, NODE_SYNC_LATENCY,
    NODES_SKIPPED, ROUTE_CHANGES, ROUTE_FLAPPING, ROUTE_OUTSIDE, ROUTE_SYNC, ROUTES,
    TAINT_REMOVAL_DELAY, TARGETS_LATENCY,
};

/// The node controller's histograms, which exist from the start, including on standbys.
#[derive(Clone)]
pub(crate) struct NodeDelays {
    sync: Histogram,
    taint_removal: Histogram,
}

pub(crate) struct Nodes {
    delays: NodeDelays,
    reconcile: Reconcile,
}

impl NodeDelays {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            sync: registry.histogram(NODE_SYNC_DELAY),
            taint_removal: registry.histogram(TAINT_REMOVAL_DELAY),
        }
    }
}

impl Nodes {
    pub(crate) fn new(delays: NodeDelays, reconciles: &Reconciles) -> Self {
        Self {
            delays,
            reconcile: reconciles.of(names::NODE_CONTROLLER.metric),
        }
    }
}

impl NodeMetrics for Nodes {
    fn taint_removed(&self, age: Duration) {
        self.delays.taint_removal.observe(age.as_secs_f64());
    }
    fn synced(&self, age: Duration) {
        self.delays.sync.observe(age.as_secs_f64());
    }
    fn reconciled(&self, took: Duration, succeeded: bool) {
        self.reconcile.ended(took, succeeded);
    }
}

pub(crate) struct Lifecycle {
    deletions: IntCounter,
    suppressed: IntCounterVec,
    taints: IntCounterVec,
    unanswered: IntCounter,
    skipped: Gauge,
    monitored: Histogram,
    calls: IntCounterVec,
    reconcile: Reconcile,
}

impl Lifecycle {
    pub(crate) fn new(registry: &Registry, reconciles: &Reconciles) -> Self {
        let taints = registry.counters(NODE_SHUTDOWN_TAINTS);
        for operation in ["set", "removed"] {
            taints.with_label_values(&[operation]);
        }
        Self {
            deletions: registry
                .counters(NODE_DELETIONS)
                .with_label_values(&["gone"]),
            suppressed: registry.counters(NODE_DELETIONS_SUPPRESSED),
            taints,
            unanswered: registry.counter(NODE_LOOKUP_ERRORS),
            skipped: registry.gauge(NODES_SKIPPED),
            monitored: registry.histogram(MONITOR_NODES),
            calls: registry.counters(MONITOR_CALLS),
            reconcile: reconciles.of(names::NODE_LIFECYCLE_CONTROLLER.metric),
        }
    }
}

impl LifecycleMetrics for Lifecycle {
    fn pass(&self, took: Duration, succeeded: bool) {
        self.reconcile.ended(took, succeeded);
    }
    fn monitored(&self, took: Duration) {
        self.monitored.observe(took.as_secs_f64());
    }
    fn looked_up(&self, operation: CloudOperation, result: &'static str) {
        self.calls
            .with_label_values(&[operation.as_str(), result])
            .inc();
    }
    fn deleted(&self) {
        self.deletions.inc();
    }
    fn held(&self, cause: &'static str) {
        self.suppressed.with_label_values(&[cause]).inc();
    }
    fn tainted(&self, operation: &'static str) {
        self.taints.with_label_values(&[operation]).inc();
    }
    fn unanswered(&self, nodes: usize) {
        self.unanswered.inc_by(nodes as u64);
    }
    fn skipped(&self, nodes: usize) {
        self.skipped.set(number(nodes));
    }
}

pub(crate) struct Services {
    targets_syncs: IntCounter,
    targets_latency: Histogram,
    node_sync_errors: IntCounter,
    node_sync_latency: Histogram,
    calls: HistogramVec,
    drifts: IntCounter,
    suppressed: IntCounterVec,
    reconcile: Reconcile,
}

impl Services {
    pub(crate) fn new(registry: &Registry, reconciles: &Reconciles) -> Self {
        Self {
            targets_syncs: registry.counter(LOAD_BALANCER_SYNC),
            targets_latency: registry.histogram(TARGETS_LATENCY),
            node_sync_errors: registry.counter(NODE_SYNC_ERRORS),
            node_sync_latency: registry.histogram(NODE_SYNC_LATENCY),
            calls: registry.histograms(LOAD_BALANCER_CALLS),
            drifts: registry.counter(LOAD_BALANCER_DRIFTS),
            suppressed: registry.counters(LOAD_BALANCER_DELETIONS_SUPPRESSED),
            reconcile: reconciles.of(names::SERVICE_CONTROLLER.metric),
        }
    }

    fn call(&self, operation: &str, took: Duration, succeeded: bool) {
        self.calls
            .with_label_values(&[operation, result(succeeded)])
            .observe(took.as_secs_f64());
    }
}

impl ServiceMetrics for Services {
    fn targets_sync_started(&self) {
        self.targets_syncs.inc();
    }
    fn targets_synced(&self, took: Duration) {
        self.targets_latency.observe(took.as_secs_f64());
    }
    fn node_sync_failed(&self) {
        self.node_sync_errors.inc();
    }
    fn node_synced(&self, took: Duration) {
        self.node_sync_latency.observe(took.as_secs_f64());
    }
    fn ensured(&self, took: Duration, succeeded: bool) {
        self.call("ensure", took, succeeded);
    }
    fn deleted(&self, took: Duration, succeeded: bool) {
        self.call("delete", took, succeeded);
    }
    fn drift_found(&self) {
        self.drifts.inc();
    }
    fn deletion_held(&self, cause: &'static str) {
        self.suppressed.with_label_values(&[cause]).inc();
    }
    fn reconciled(&self, took: Duration, succeeded: bool) {
        self.reconcile.ended(took, succeeded);
    }
}

pub(crate) struct Routes {
    syncs: IntCounterVec,
    routes: GaugeVec,
    changes: IntCounterVec,
    flapping: IntCounter,
    outside: IntCounter,
    reconcile: Reconcile,
}

impl Routes {
    pub(crate) fn new(registry: &Registry, reconciles: &Reconciles) -> Self {
        let changes = registry.counters(ROUTE_CHANGES);
        for operation in ["create", "delete"] {
            for succeeded in [true, false] {
                changes.with_label_values(&[operation, result(succeeded)]);
            }
        }
        Self {
            syncs: registry.counters(ROUTE_SYNC),
            routes: registry.gauges(ROUTES),
            changes,
            flapping: registry.counter(ROUTE_FLAPPING),
            outside: registry.counter(ROUTE_OUTSIDE),
            reconcile: reconciles.of(names::ROUTE_CONTROLLER.metric),
        }
    }
}

impl RouteMetrics for Routes {
    fn synced(&self, outcome: SyncOutcome, trigger: SyncTrigger) {
        self.syncs
            .with_label_values(&[outcome.as_str(), trigger.as_str()])
            .inc();
    }
    fn changed(&self, operation: &'static str) {
        self.changes
            .with_label_values(&[operation, result(true)])
            .inc();
    }
    fn failed(&self, operation: &'static str) {
        self.changes
            .with_label_values(&[operation, result(false)])
            .inc();
    }
    fn flapping(&self) {
        self.flapping.inc();
    }
    fn outside_cluster_cidr(&self) {
        self.outside.inc();
    }
    fn route_counts(&self, route_counts: RouteCounts) {
        let RouteCounts {
            desired,
            present,
            foreign,
            failed,
        } = route_counts;
        for (state, routes) in [
            ("desired", desired),
            ("present", present),
            ("foreign", foreign),
            ("failed", failed),
        ] {
            self.routes.with_label_values(&[state]).set(number(routes));
        }
    }
    fn reconciled(&self, took: Duration, succeeded: bool) {
        self.reconcile.ended(took, succeeded);
    }
}
