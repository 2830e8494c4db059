//! The series that dashboards know from the program that ran OpenStack before (§6).

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, ProviderSeries, SeriesKind};

const CONVENTIONAL: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

static DURATION: ProviderSeries = ProviderSeries {
    name: "openstack_api_request_duration_seconds",
    kind: SeriesKind::Histogram(CONVENTIONAL),
    labels: &["request"],
    help: "Time until a service of OpenStack had answered.",
};
static REQUESTS: ProviderSeries = ProviderSeries {
    name: "openstack_api_requests_total",
    kind: SeriesKind::Counter,
    labels: &["request"],
    help: "Requests to services of OpenStack.",
};
static ERRORS: ProviderSeries = ProviderSeries {
    name: "openstack_api_request_errors_total",
    kind: SeriesKind::Counter,
    labels: &["request"],
    help: "Requests to services of OpenStack that were refused or not answered.",
};

/// All of them, for the documentation.
pub static SERIES: [&ProviderSeries; 3] = [&DURATION, &REQUESTS, &ERRORS];

/// Hears of requests to the services, and tells them under the names of both programs.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

impl CloudMetrics for Requests {
    fn started(&self, operation: &str) {
        self.0.started(operation);
    }
    fn abandoned(&self, operation: &str) {
        self.0.abandoned(operation);
    }
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let request = request(operation);
        self.0.record(&REQUESTS, &[&request], 1.0);
        self.0.record(&DURATION, &[&request], took.as_secs_f64());
        if status.is_none_or(|status| status >= 400) {
            self.0.record(&ERRORS, &[&request], 1.0);
        }
        self.0.finished(operation, status, took);
    }
    fn paused(&self, pause: Duration) {
        self.0.paused(pause);
    }
    fn remaining(&self, requests: u64) {
        self.0.remaining(requests);
    }
    fn cached(&self, hit: bool) {
        self.0.cached(hit);
    }
    fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
        self.0.record(series, labels, value);
    }
}

/// `GET /lbaas/listeners/{id}` as `loadbalancer_listener_get`.
fn request(operation: &str) -> String {
    let (method, path) = operation.split_once(' ').unwrap_or_default();
    let segments: Vec<_> = path.split('/').filter(|it| !it.is_empty() && *it != "lbaas" && *it != "v3").collect();
    let (members, tags) = (segments.get(2) == Some(&"members"), segments.get(2) == Some(&"tags"));
    let resource = match segments.first().copied().unwrap_or("versions") {
        "servers" => "server",
        "flavors" => "flavor",
        "ports" if tags => "port_tag",
        "ports" => "port",
        "networks" => "network",
        "extensions" => "network_extension",
        "subnets" => "subnet",
        "floatingips" => "floating_ip",
        "routers" => "router",
        "security-groups" => "security_group",
        "security-group-rules" => "security_group_rule",
        "versions" => "version",
        "loadbalancers" => "loadbalancer",
        "listeners" => "loadbalancer_listener",
        // All members of a pool at once.
        "pools" if members && method == "PUT" && segments.len() == 3 => "loadbalancer_members",
        "pools" if members => "loadbalancer_member",
        "pools" => "loadbalancer_pool",
        "healthmonitors" => "loadbalancer_healthmonitor",
        "auth" => "token",
        "containers" => "container",
        "secrets" => "secret",
        other => other,
    };
    let is_one = segments.len() != 1 && !segments.ends_with(&["detail"]) && !segments.ends_with(&["members"]);
    let verb = match method {
        "GET" if is_one && !segments.is_empty() => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "DELETE" => "delete",
        other => other,
    };
    format!("{resource}_{verb}")
}
