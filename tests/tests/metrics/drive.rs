//! Calls of every metrics hook.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Service};
use controllers::lifecycle::CloudOperation;
use controllers::options::ServiceOptions;
use controllers::route::{RouteCounts, SyncOutcome, SyncTrigger};
use http::Method;
use metrics::{Build, Gate, Metrics};
use runtime::cache::Cache;
use runtime::client::RequestInfo;
use serving::access::{AuthenticationResult, AuthorizationResult, Fetch, TokenCache};
use serving::health::{AlwaysHealthy, Health, Probe};

const TIME: Duration = Duration::from_millis(1500);

/// Returns the metrics of a process that has started.
pub(crate) fn started() -> Metrics {
    let metrics = Metrics::new();
    metrics.build(Build {
        version: "0.1.0",
        revision: "abc",
        rustc: "1.95.0",
    });
    let gate = |name: &str, stage, enabled| Gate {
        name: name.to_owned(),
        stage,
        enabled,
    };
    metrics.gates(vec![
        gate("CloudControllerManagerWebhook", "ALPHA", false),
        gate("ContextualLogging", "", true),
    ]);
    metrics
}

/// Creates the metrics of the controllers, as a leader does.
pub(crate) fn controllers(metrics: &Metrics) {
    _ = (
        metrics.nodes(),
        metrics.lifecycle(),
        metrics.services(),
        metrics.routes(),
    );
    metrics.count_nodes(Cache::<Node>::with([]), |_| true);
    metrics.count_services(Cache::<Service>::with([]), ServiceOptions::default());
    metrics.count_orphans("load_balancer", || Some(0));
    metrics.count_held("service", || 0);
}

/// Calls every metrics hook once.
pub(crate) fn everything(metrics: &Metrics, health: &Health, provider: &str) {
    drop(metrics.controller_runs("cloud-node"));
    queues(metrics);
    api_client(metrics);
    work(metrics);
    callers(metrics);
    cloud(metrics, provider);
    metrics
        .elections()
        .leading("cloud-controller-manager", true);
    metrics.elections().slow_path("cloud-controller-manager");
    health.add("cloud-node-controller", Arc::new(AlwaysHealthy));
    _ = health.report(Probe::Healthz, &[]);
}

fn queues(metrics: &Metrics) {
    let queues = metrics.queues();
    queues.created("Nodes");
    queues.depth("Nodes", 3);
    queues.added("Nodes", 1);
    queues.waited("Nodes", TIME);
    queues.worked("Nodes", TIME);
    queues.unfinished_work("Nodes", TIME);
    queues.longest_running("Nodes", TIME);
    queues.retried("Nodes");
}

fn api_client(metrics: &Metrics) {
    let requests = metrics.requests();
    let info = |method: &Method, path: &str| {
        RequestInfo::new(method, &path.parse().unwrap(), "10.0.0.1:443".into())
    };
    let patch = info(&Method::PATCH, "/api/v1/nodes/a");
    requests.answered(&patch, Some(200), TIME);
    requests.answered(&patch, None, TIME);
    requests.limited(&patch, TIME);
    requests.retried(&patch, 429);
    requests.transferred(&patch, 100, 2000);
    requests.answered(
        &info(&Method::GET, "/api/v1/nodes?watch=true"),
        Some(200),
        TIME,
    );
}

fn work(metrics: &Metrics) {
    let nodes = metrics.nodes();
    nodes.taint_removed(TIME);
    nodes.synced(TIME);
    nodes.reconciled(TIME, true);
    let lifecycle = metrics.lifecycle();
    lifecycle.pass(TIME, true);
    lifecycle.monitored(TIME);
    lifecycle.looked_up(CloudOperation::InstanceExists, "success");
    lifecycle.deleted();
    lifecycle.held("no-witness");
    lifecycle.tainted("set");
    lifecycle.unanswered(2);
    lifecycle.skipped(1);
    let services = metrics.services();
    services.deletion_held("unconfirmed");
    services.targets_sync_started();
    services.targets_synced(TIME);
    services.node_sync_failed();
    services.node_synced(TIME);
    services.ensured(TIME, true);
    services.deleted(TIME, false);
    services.drift_found();
    services.reconciled(TIME, false);
    let routes = metrics.routes();
    routes.synced(SyncOutcome::Changed, SyncTrigger::NodeChange);
    routes.changed("create");
    routes.failed("delete");
    routes.flapping();
    routes.outside_cluster_cidr();
    routes.route_counts(RouteCounts {
        desired: 5,
        present: 4,
        foreign: 1,
        failed: 1,
    });
    routes.reconciled(TIME, true);
}

fn callers(metrics: &Metrics) {
    let access = metrics.access();
    access.authenticated(AuthenticationResult::Success, TIME);
    access.user_request("other");
    access.token_cache(TokenCache::Miss, TIME);
    access.token_fetched(true);
    access.token_fetches(Fetch::InFlight, 1);
    access.authorized(AuthorizationResult::NoOpinion, TIME);
    access.token_reviewed("201", TIME);
    access.access_reviewed("<error>", TIME);
    metrics.servers().limited(serving::server::Limit::UriLength);
    access.client_certificate(TIME);
    metrics.webhooks().called("pvlabel", "200", TIME);
}

fn cloud(metrics: &Metrics, provider: &str) {
    let cloud = metrics.cloud(provider);
    cloud.finished("GET /v1/machines", Some(200), TIME);
    cloud.finished("GET /v1/machines", Some(429), TIME);
    cloud.finished("GET /v1/machines", None, TIME);
    cloud.paused(TIME);
    cloud.remaining(3600);
    cloud.cached(true);
}
