//! The series that dashboards know from the Go program.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, ProviderSeries};
use provider_kit::instrumented::{Called, InstrumentedCapability};

use crate::config::Config;

const SHORT: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0, 1200.0,
];
const LONG: &[f64] = &[
    0.1, 0.2, 0.5, 1.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 100.0, 200.0, 300.0, 600.0,
    1200.0,
];

provider_kit::series! {
    /// Latency of an Azure API call, in seconds.
    DURATION: Histogram(SHORT) = "cloudprovider_azure_api_request_duration_seconds", "request", "resource_group", "subscription_id", "source";
    /// Number of errors for an Azure API call.
    ERRORS: Counter = "cloudprovider_azure_api_request_errors", "request", "resource_group", "subscription_id", "source", "code";
    /// Number of throttled Azure API calls.
    THROTTLED: Counter = "cloudprovider_azure_api_request_throttled_count", "request", "resource_group", "subscription_id", "source";
    /// Latency of an Azure service operation, in seconds.
    OPERATION: Histogram(LONG) = "cloudprovider_azure_op_duration_seconds", "request", "resource_group", "subscription_id", "source";
    /// Number of failed Azure service operations.
    OPERATION_FAILURES: Counter = "cloudprovider_azure_op_failure_count", "request", "resource_group", "subscription_id", "source";
}

/// The names of the Go program for types of resources, by the last part of their path.
const RESOURCES: &[(&str, &str)] = &[
    ("loadBalancers", "load_balancers"),
    ("publicIPAddresses", "public_ip_addresses"),
    ("networkSecurityGroups", "security_groups"),
    ("routeTables", "route_tables"),
    ("networkInterfaces", "interfaces"),
    ("privateLinkServices", "private_link_services"),
    ("subnets", "subnets"),
    ("virtualMachines", "vm"),
    ("virtualMachineScaleSets", "vmss"),
];

/// Observes requests and calls of capabilities under the names of the Go program.
#[derive(Clone)]
pub(crate) struct GoSeries {
    metrics: Arc<dyn CloudMetrics>,
    group: String,
    subscription: String,
}

/// Returns the name of a request: `load_balancers_create_or_update`.
fn request(operation: &str) -> Option<String> {
    let (method, path) = operation.split_once(' ')?;
    let last = path.rsplit('/').find(|part| !part.starts_with('{'))?;
    let (_, resource) = RESOURCES.iter().find(|(known, _)| *known == last)?;
    let resource = if path.contains("virtualMachineScaleSets/{name}/virtualMachines") {
        "vmssvm"
    } else {
        resource
    };
    let verb = match method {
        "GET" if path.ends_with('}') => "get",
        "GET" => "list",
        "PUT" => "create_or_update",
        _ => "delete",
    };
    Some(format!("{resource}_{verb}"))
}

impl GoSeries {
    pub(crate) fn new(config: &Config, metrics: &Arc<dyn CloudMetrics>) -> Self {
        let group = config.nodes.name.clone();
        let subscription = config.load_balancers.subscription.clone();
        Self {
            metrics: Arc::clone(metrics),
            group,
            subscription,
        }
    }

    /// Observes a duration, and counts a failure.
    fn record(
        &self,
        series: [&'static ProviderSeries; 2],
        request: &str,
        took: Duration,
        failed: bool,
        code: &[&str],
    ) {
        let labels = [request, &self.group, &self.subscription, ""];
        self.metrics.record(series[0], &labels, took.as_secs_f64());
        if failed {
            self.metrics
                .record(series[1], &[&labels, code].concat(), 1.0);
        }
    }

    /// Returns the capability with its calls observed.
    pub(crate) fn measure<T>(&self, capability: T) -> InstrumentedCapability<T> {
        let series = self.clone();
        InstrumentedCapability::new(capability, |_| {}).timed(move |called, took, succeeded| {
            let request = match called {
                Called::EnsureLoadBalancer => "services_ensure_loadbalancer",
                Called::UpdateLoadBalancer => "services_update_loadbalancer",
                Called::DeleteLoadBalancer => "services_ensure_loadbalancer_deleted",
                Called::CreateRoute => "routes_create_route",
                Called::DeleteRoute => "routes_delete_route",
                _ => return,
            };
            series.record(
                [&OPERATION, &OPERATION_FAILURES],
                request,
                took,
                !succeeded,
                &[],
            );
        })
    }
}

impl CloudMetrics for GoSeries {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let Some(request) = request(operation) else {
            return;
        };
        let failed = status.is_none_or(|status| status >= 400 && status != 404);
        let code = status.map_or_else(String::new, |status| status.to_string());
        self.record([&DURATION, &ERRORS], &request, took, failed, &[&code]);
        if status == Some(429) {
            self.metrics.record(
                &THROTTLED,
                &[&request, &self.group, &self.subscription, ""],
                1.0,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_names_of_the_go_program() {
        let group = "/subscriptions/{subscription}/resourceGroups/{group}/providers/";
        for (method, path, name) in [
            (
                "GET",
                "Microsoft.Network/loadBalancers",
                "load_balancers_list",
            ),
            (
                "PUT",
                "Microsoft.Network/loadBalancers/{name}",
                "load_balancers_create_or_update",
            ),
            (
                "GET",
                "Microsoft.Network/publicIPAddresses/{name}",
                "public_ip_addresses_get",
            ),
            (
                "DELETE",
                "Microsoft.Network/publicIPAddresses/{name}",
                "public_ip_addresses_delete",
            ),
            (
                "GET",
                "Microsoft.Compute/virtualMachineScaleSets",
                "vmss_list",
            ),
            (
                "GET",
                "Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines",
                "vmssvm_list",
            ),
            (
                "PUT",
                "Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/{instance}",
                "vmssvm_create_or_update",
            ),
        ] {
            assert_eq!(
                request(&format!("{method} {group}{path}")).as_deref(),
                Some(name),
                "{method} {path}"
            );
        }
    }
}
