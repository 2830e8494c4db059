//! The series that dashboards know from the Go program.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudMetrics;
use provider_kit::series::CONVENTIONAL;

provider_kit::series! {
    /// Latency of requests about Nodes, in milliseconds.
    NODES: Histogram(CONVENTIONAL) = "ccm_node_latencies_duration_milliseconds", "verb";
    /// Latency of requests about routes, in milliseconds.
    ROUTES: Histogram(CONVENTIONAL) = "ccm_route_latencies_duration_milliseconds", "verb";
    /// Latency of requests about load balancers, in milliseconds.
    BALANCERS: Histogram(CONVENTIONAL) = "ccm_slb_latencies_duration_milliseconds", "type", "verb";
    /// Requests about load balancers.
    RESULTS: Counter = "ccm_slb_operation_result", "type", "verb", "status";
}

/// Measures requests under the names of the Go program.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let (product, action) = operation.split_once(' ').unwrap_or(("", operation));
        let milliseconds = took.as_secs_f64() * 1000.0;
        match product {
            "ecs" => self.0.record(&NODES, &[action], milliseconds),
            "vpc" => self.0.record(&ROUTES, &[action], milliseconds),
            "slb" | "nlb" => {
                let kind = if product == "slb" { "clb" } else { "nlb" };
                let result = if status.is_some_and(|status| status < 400) {
                    "Success"
                } else {
                    "Fail"
                };
                self.0.record(&BALANCERS, &[kind, action], milliseconds);
                self.0.record(&RESULTS, &[kind, action, result], 1.0);
            }
            _ => {}
        }
    }
}
