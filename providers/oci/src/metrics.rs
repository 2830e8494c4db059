//! The metric series of Oracle's Go cloud controller manager, under their old names.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudMetrics;

provider_kit::series! {
    /// Requests to the API.
    REQUESTS: Counter = "oci_requests_total", "resource", "verb", "code";
}

/// Counts requests under the name of the Go program.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

/// Returns the resource of a route: the last part of its path that names a collection.
fn resource(path: &str) -> &str {
    let named = path
        .split_once("/actions/")
        .map_or(path, |(before, _)| before);
    named
        .rsplit('/')
        .find(|part| !part.starts_with('{') && !part.is_empty())
        .unwrap_or("other")
}

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, _took: Duration) {
        let (method, path) = operation.split_once(' ').unwrap_or(("GET", operation));
        let verb = match method {
            "POST" => "create",
            "PUT" => "update",
            "DELETE" => "delete",
            _ if path.ends_with('}') => "get",
            _ => "list",
        };
        // The Go program counts a request without an answer as 555.
        let code = status.unwrap_or(555).to_string();
        self.0
            .record(&REQUESTS, &[resource(path), verb, &code], 1.0);
    }
}
