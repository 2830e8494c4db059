//! The series that dashboards know from the Go program.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudMetrics;
use provider_kit::instrumented::{Called, InstrumentedCapability};
use provider_kit::series::CONVENTIONAL;

provider_kit::series! {
    /// Calls of the provider.
    OPERATIONS: Counter = "cloud_controller_manager_operations_total", "op";
    /// Answers of the Hetzner Cloud API.
    REQUESTS: Counter = "hcloud_api_requests_total", "code", "method", "api_endpoint";
    /// Requests to the Hetzner Cloud API that are being answered.
    IN_FLIGHT: Gauge = "hcloud_api_in_flight_requests";
    /// Time until the Hetzner Cloud API had answered.
    DURATION: Histogram(CONVENTIONAL) = "hcloud_api_request_duration_seconds", "method";
    /// Look-ups of servers, and whether what is remembered was enough.
    SERVER_CACHE: Counter = "cloud_controller_manager_server_cache_requests_total", "subsystem", "mode", "result";
    /// Look-ups of load balancer types, and whether what is remembered was enough.
    TYPE_CACHE: Counter = "cloud_controller_manager_load_balancer_type_cache_requests_total", "subsystem", "mode", "result";
}

/// Wraps a capability, to count its calls by the names of the Go cloud-controller-manager.
pub(crate) fn counted<T>(inner: T, metrics: &Arc<dyn CloudMetrics>) -> InstrumentedCapability<T> {
    let metrics = Arc::clone(metrics);
    InstrumentedCapability::new(inner, move |called| {
        metrics.record(&OPERATIONS, &[name(called)], 1.0);
    })
}

fn name(called: Called) -> &'static str {
    match called {
        Called::InstanceExists => "hcloud/instancesv2.InstanceExists",
        Called::InstanceShutdown => "hcloud/instancesv2.InstanceShutdown",
        Called::InstanceMetadata => "hcloud/instancesv2.InstanceMetadata",
        Called::GetLoadBalancer => "hcloud/loadBalancers.GetLoadBalancer",
        Called::EnsureLoadBalancer => "hcloud/loadBalancers.EnsureLoadBalancer",
        Called::UpdateLoadBalancer => "hcloud/loadBalancers.UpdateLoadBalancer",
        Called::DeleteLoadBalancer => "hcloud/loadBalancers.EnsureLoadBalancerDeleted",
        Called::ListRoutes => "hcloud/ListRoutes",
        Called::CreateRoute => "hcloud/CreateRoute",
        Called::DeleteRoute => "hcloud/DeleteRoute",
    }
}

/// Counts a lookup of a load balancer type.
pub(crate) fn balancer_types(metrics: &dyn CloudMetrics, hit: bool) {
    metrics.record(&TYPE_CACHE, &["load_balancer", "all", result(hit)], 1.0);
}

fn result(hit: bool) -> &'static str {
    if hit { "hit" } else { "miss" }
}

/// Records requests to the cloud's API under the names of the Go program.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

impl CloudMetrics for Requests {
    fn started(&self, _operation: &str) {
        self.0.record(&IN_FLIGHT, &[], 1.0);
    }
    fn abandoned(&self, _operation: &str) {
        self.0.record(&IN_FLIGHT, &[], -1.0);
    }
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        self.0.record(&IN_FLIGHT, &[], -1.0);
        if let Some(status) = status {
            let (method, endpoint) = endpoint(operation);
            self.0
                .record(&REQUESTS, &[&status.to_string(), &method, &endpoint], 1.0);
            self.0.record(&DURATION, &[&method], took.as_secs_f64());
        }
    }
}

/// Returns `GET /servers/{id}` as the labels `get` and `/servers/-`.
fn endpoint(operation: &str) -> (String, String) {
    let (method, path) = operation.split_once(' ').unwrap_or(("", operation));
    let segments = path.split('/').map(|segment| {
        if segment.starts_with('{') {
            "-"
        } else {
            segment
        }
    });
    (
        method.to_ascii_lowercase(),
        segments.collect::<Vec<_>>().join("/"),
    )
}

/// Counts lookups of servers with and without a request, for one part of the provider.
pub(crate) struct ServerCache {
    pub(crate) metrics: Arc<dyn CloudMetrics>,
    /// Value of the label: `instances_v2` or `routes`.
    pub(crate) subsystem: &'static str,
    /// The cache's mode: `all`, `one` or `off`.
    pub(crate) mode: &'static str,
}

impl CloudMetrics for ServerCache {
    fn cached(&self, hit: bool) {
        self.metrics.record(
            &SERVER_CACHE,
            &[self.subsystem, self.mode, result(hit)],
            1.0,
        );
        self.metrics.cached(hit);
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::ProviderSeries;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl CloudMetrics for Heard {
        fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
            assert_eq!(series.labels.len(), labels.len());
            self.0
                .lock()
                .push(format!("{}{labels:?} {value}", series.name));
        }
    }

    #[test]
    fn requests_have_the_labels_that_dashboards_know() {
        for (operation, method, path) in [
            ("GET /servers", "get", "/servers"),
            ("GET /servers/{id}", "get", "/servers/-"),
            (
                "POST /load_balancers/{id}/actions/add_target",
                "post",
                "/load_balancers/-/actions/add_target",
            ),
            ("DELETE /load_balancers/{id}", "delete", "/load_balancers/-"),
        ] {
            assert_eq!(endpoint(operation), (method.to_owned(), path.to_owned()));
        }
    }

    #[test]
    fn what_was_sent_is_in_flight_until_it_is_answered_or_given_up() {
        let heard = Arc::new(Heard::default());
        let requests = Requests(heard.clone());
        requests.started("GET /servers/{id}");
        requests.finished("GET /servers/{id}", Some(200), Duration::from_millis(20));
        requests.started("GET /servers");
        requests.finished("GET /servers", None, Duration::from_secs(15));
        requests.started("GET /servers");
        requests.abandoned("GET /servers");
        let up = "hcloud_api_in_flight_requests[] 1";
        let down = "hcloud_api_in_flight_requests[] -1";
        let count = "hcloud_api_requests_total[\"200\", \"get\", \"/servers/-\"] 1";
        let time = "hcloud_api_request_duration_seconds[\"get\"] 0.02";
        assert_eq!(*heard.0.lock(), [up, down, count, time, up, down, up, down]);
    }
}
