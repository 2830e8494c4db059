//! The series that dashboards know from the Go program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, Service};

use crate::config::Config;
use crate::load_balancers::Spec;

provider_kit::series! {
    /// Time until a request to the API was answered, in seconds.
    DURATION: Histogram(provider_kit::series::CONVENTIONAL) = "cloudprovider_gce_api_request_duration_seconds",
        "request", "region", "zone", "version";
    /// Requests to the API that failed.
    ERRORS: Counter = "cloudprovider_gce_api_request_errors", "request", "region", "zone", "version";
    /// Internal load balancers, by what they use and whether they have an address.
    INTERNAL: Gauge = "number_of_l4_ilbs", "feature";
    /// External load balancers, by whether they have an address.
    EXTERNAL: Gauge = "number_of_l4_netlbs", "status", "deny_firewall";
    /// Feature gates of the Go program, which this program accepts without effect.
    FEATURE_GATES: Gauge = "ccm_feature_gate_info", "name", "enabled";
    /// Requests for a token to `token-url`.
    TOKENS: Counter = "get_token_count";
    /// Requests for a token to `token-url` that failed.
    TOKEN_FAILURES: Counter = "get_token_fail_count";
}

/// Counts a request for a token to `token-url`.
pub(crate) fn token_requested(metrics: &dyn CloudMetrics, is_failed: bool) {
    metrics.record(&TOKENS, &[], 1.0);
    if is_failed {
        metrics.record(&TOKEN_FAILURES, &[], 1.0);
    }
}

/// Reports the feature gates of the Go program.
pub(crate) fn report_feature_gates(config: &Config, metrics: &dyn CloudMetrics) {
    let enabled = if config.has_fine_locks {
        "true"
    } else {
        "false"
    };
    metrics.record(&FEATURE_GATES, &["finegrainedlock", enabled], 1.0);
}

/// The numbers of load balancers that were reported last, by kind and label: gauges take differences.
#[derive(Default)]
pub(crate) struct LoadBalancerCounts(BTreeMap<(bool, &'static str), f64>);

impl LoadBalancerCounts {
    /// Reports how the numbers have changed.
    pub(crate) fn report(
        &mut self,
        services: &[Arc<Service>],
        config: &Config,
        metrics: &dyn CloudMetrics,
    ) {
        let mut counts: BTreeMap<_, f64> = self.0.keys().map(|key| (*key, 0.0)).collect();
        for (spec, is_ready) in services.iter().filter_map(|service| ours(service, config)) {
            features(&spec, is_ready)
                .for_each(|label| *counts.entry((spec.is_internal, label)).or_default() += 1.0);
        }
        for ((is_internal, label), count) in &counts {
            let change = count - self.0.get(&(*is_internal, *label)).unwrap_or(&0.0);
            let denial = match (config.denies, config.removes_denials) {
                (true, _) if *label == "Success" => "IPv4",
                (false, true) => "DISABLED",
                _ => "",
            };
            match is_internal {
                true => metrics.record(&INTERNAL, &[label], change),
                false => metrics.record(&EXTERNAL, &[label, denial], change),
            }
        }
        self.0 = counts;
    }
}

/// Returns the settings of a Service that has a load balancer of this program, and `true` if it has an address.
fn ours(service: &Service, config: &Config) -> Option<(Spec, bool)> {
    service
        .spec
        .as_ref()
        .filter(|spec| spec.type_.as_deref() == Some("LoadBalancer"))?;
    let ingress = service
        .status
        .iter()
        .flat_map(|status| &status.load_balancer)
        .flat_map(|load_balancer| load_balancer.ingress.iter().flatten());
    Some((Spec::of(service, config).spec, ingress.count() > 0))
        .filter(|(spec, _)| !spec.is_elsewhere)
}

/// Returns the labels under which the Go program counts a load balancer.
fn features(spec: &Spec, is_ready: bool) -> impl Iterator<Item = &'static str> {
    let (ready, failed) = if spec.is_internal {
        ("L4ILBInSuccess", "L4ILBInError")
    } else {
        ("Success", "Error")
    };
    let uses = |feature, is_used: bool| (spec.is_internal && is_used).then_some(feature);
    let all = [
        uses("L4ILBService", true),
        Some(if is_ready { ready } else { failed }),
        uses("L4ILBGlobalAccess", is_ready && spec.has_global_access),
        uses("L4ILBCustomSubnet", is_ready && spec.subnet.is_some()),
    ];
    all.into_iter().flatten()
}

/// Observes requests under the names of the Go program.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) metrics: Arc<dyn CloudMetrics>,
    pub(crate) region: String,
}

/// The verbs of the Go program for methods on a collection, and on one object.
const METHODS: [(&str, [&str; 2]); 4] = [
    ("GET", ["list", "get"]),
    ("POST", ["create", ""]),
    ("DELETE", ["", "delete"]),
    ("PATCH", ["", "patch"]),
];
/// Collections that the Go program names in the plural.
const PLURALS: [&str; 5] = ["projects", "instances", "zones", "routes", "operations"];

/// Returns the word of the Go program for a collection: `forwardingrule` for `forwardingRules`.
fn object(collection: &str) -> String {
    let word = collection.to_lowercase();
    let word = word.strip_prefix("http").unwrap_or(&word);
    let stem = word
        .strip_suffix("es")
        .filter(|stem| stem.ends_with('s'))
        .or(word.strip_suffix('s'));
    stem.filter(|_| !PLURALS.contains(&word))
        .unwrap_or(word)
        .to_owned()
}

/// Returns the name of a request: `targetpool_add_instances`.
fn request(operation: &str) -> Option<String> {
    let (method, path) = operation.split_once(' ')?;
    let words: Vec<_> = path.split('/').collect();
    let verb = |is_object: bool| {
        Some(METHODS.iter().find(|(known, _)| *known == method)?.1[usize::from(is_object)])
    };
    match words[..] {
        // An action on an object: `targetPools/{name}/addInstance`.
        [.., collection, "{name}", action] => {
            Some(format!("{}_{}", object(collection), snake(action)))
        }
        [.., collection, item] if item.starts_with('{') => {
            Some(format!("{}_{}", object(collection), verb(true)?))
        }
        [.., collection] => Some(format!("{}_{}", object(collection), verb(false)?)),
        [] => None,
    }
}

/// Returns the words of an action: `add_instances` for `addInstance`.
fn snake(action: &str) -> String {
    let plural = if action.ends_with("Instance") {
        "s"
    } else {
        ""
    };
    let mut words = String::new();
    for letter in action.chars() {
        words.extend(
            letter
                .is_uppercase()
                .then_some('_')
                .into_iter()
                .chain(letter.to_lowercase()),
        );
    }
    words + plural
}

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let Some(request) = request(operation) else {
            return;
        };
        let region = if operation.contains("{region}") {
            &*self.region
        } else {
            "<n/a>"
        };
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
            (
                "GET /projects/{project}/zones/{zone}/instances/{name}",
                "instances_get",
            ),
            (
                "GET /projects/{project}/aggregated/instances",
                "instances_list",
            ),
            (
                "POST /projects/{project}/regions/{region}/forwardingRules",
                "forwardingrule_create",
            ),
            (
                "POST /projects/{project}/regions/{region}/targetPools/{name}/addInstance",
                "targetpool_add_instances",
            ),
            (
                "PATCH /projects/{project}/global/firewalls/{name}",
                "firewall_patch",
            ),
            ("GET /projects/{project}/global/routes", "routes_list"),
        ] {
            assert_eq!(request(operation).as_deref(), Some(name), "{operation}");
        }
    }
}
