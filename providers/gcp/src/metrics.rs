//! The series that dashboards know from the Go program.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudMetrics;

provider_kit::series! {
    /// Time until a request to the API was answered, in seconds.
    DURATION: Histogram(provider_kit::series::CONVENTIONAL) = "cloudprovider_gce_api_request_duration_seconds",
        "request", "region", "zone", "version";
    /// Requests to the API that failed.
    ERRORS: Counter = "cloudprovider_gce_api_request_errors", "request", "region", "zone", "version";
}

/// The names of the Go program for collections of objects.
const OBJECTS: &[(&str, &str)] = &[
    ("instances", "instances"),
    ("zones", "zones"),
    ("forwardingRules", "forwardingrule"),
    ("addresses", "address"),
    ("targetPools", "targetpool"),
    ("backendServices", "backendservice"),
    ("instanceGroups", "instancegroup"),
    ("healthChecks", "healthcheck"),
    ("httpHealthChecks", "healthcheck"),
    ("firewalls", "firewall"),
    ("routes", "routes"),
    ("operations", "operations"),
];

/// Observes requests under the names of the Go program.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) metrics: Arc<dyn CloudMetrics>,
    pub(crate) region: String,
}

/// Returns the name of a request: `targetpool_add_instances`.
fn request(operation: &str) -> Option<String> {
    let (method, path) = operation.split_once(' ')?;
    let mut parts = path.rsplit('/');
    let last = parts.next()?;
    let is_one = last.starts_with('{');
    let (action, collection) = match OBJECTS.iter().find(|(known, _)| *known == last) {
        Some(found) => (None, found),
        None => {
            let collection = if is_one { parts.next() } else { parts.nth(1) }?;
            ((!is_one).then_some(last), OBJECTS.iter().find(|(known, _)| *known == collection)?)
        }
    };
    let verb = match (action, method) {
        (Some("addInstance" | "addInstances"), _) => "add_instances",
        (Some("removeInstance" | "removeInstances"), _) => "remove_instances",
        (Some("listInstances"), _) => "list_instances",
        (Some("getHealth"), _) => "get_health",
        (Some("setLabels"), _) => "set_labels",
        (Some(_), _) => return None,
        (None, "GET") if is_one => "get",
        (None, "GET") => "list",
        (None, "POST") => "create",
        (None, "DELETE") => "delete",
        (None, "PATCH") => "patch",
        (None, _) => "update",
    };
    Some(format!("{}_{verb}", collection.1))
}

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let Some(request) = request(operation) else { return };
        let region = if operation.contains("{region}") { &*self.region } else { "<n/a>" };
        let labels = [&*request, region, "<n/a>", "v1"];
        self.metrics.record(&DURATION, &labels, took.as_secs_f64());
        if status.is_none_or(|status| status >= 400) {
            self.metrics.record(&ERRORS, &labels, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_names_of_the_go_program() {
        for (operation, name) in [
            ("GET /projects/{project}/zones/{zone}/instances/{name}", "instances_get"),
            ("GET /projects/{project}/aggregated/instances", "instances_list"),
            ("POST /projects/{project}/regions/{region}/forwardingRules", "forwardingrule_create"),
            ("POST /projects/{project}/regions/{region}/targetPools/{name}/addInstance", "targetpool_add_instances"),
            ("PATCH /projects/{project}/global/firewalls/{name}", "firewall_patch"),
            ("GET /projects/{project}/global/routes", "routes_list"),
        ] {
            assert_eq!(request(operation).as_deref(), Some(name), "{operation}");
        }
    }
}
