//! The metric series of the Go cloud-controller-manager for OpenStack, under their old names.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, ProviderSeries};
use provider_kit::instrumented::{Called, InstrumentedCapability};
use provider_kit::series::CONVENTIONAL;

provider_kit::series! {
    /// Time until a service of OpenStack had answered.
    DURATION: Histogram(CONVENTIONAL) = "openstack_api_request_duration_seconds", "request";
    /// Requests to services of OpenStack.
    REQUESTS: Counter = "openstack_api_requests_total", "request";
    /// Requests to services of OpenStack that were refused or not answered.
    ERRORS: Counter = "openstack_api_request_errors_total", "request";
}

/// Buckets for load balancers, which take minutes.
const LONG: &[f64] = &[
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0, 27.5, 30.0,
    50.0, 75.0, 100.0, 1000.0,
];

provider_kit::series! {
    /// Time that a load balancer's reconciliation took.
    RECONCILE_DURATION: Histogram(LONG) = "cloudprovider_openstack_reconcile_duration_seconds", "operation";
    /// Reconciliations of load balancers.
    RECONCILED: Counter = "cloudprovider_openstack_reconcile_total", "operation";
    /// Reconciliations of load balancers that failed.
    RECONCILE_ERRORS: Counter = "cloudprovider_openstack_reconcile_errors_total", "operation";
}

/// Wraps load balancers, to count and time reconciliations.
pub(crate) fn reconciled<T>(
    inner: T,
    metrics: &Arc<dyn CloudMetrics>,
) -> InstrumentedCapability<T> {
    let metrics = Arc::clone(metrics);
    InstrumentedCapability::new(inner, |_| {}).timed(move |called, took, is_ok| {
        let operation = match called {
            Called::EnsureLoadBalancer => "loadbalancer_ensure",
            Called::UpdateLoadBalancer => "loadbalancer_update",
            Called::DeleteLoadBalancer => "loadbalancer_delete",
            _ => return,
        };
        note(
            &*metrics,
            [&RECONCILED, &RECONCILE_DURATION, &RECONCILE_ERRORS],
            operation,
            took,
            is_ok,
        );
    })
}

/// Records requests to the services under the names of the Go cloud-controller-manager.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let is_ok = status.is_some_and(|status| status < 400);
        note(
            &*self.0,
            [&REQUESTS, &DURATION, &ERRORS],
            &request(operation),
            took,
            is_ok,
        );
    }
}

/// Records one more event: the count, the duration, and the failure if it failed.
fn note(
    metrics: &dyn CloudMetrics,
    series: [&'static ProviderSeries; 3],
    label: &str,
    took: Duration,
    is_ok: bool,
) {
    let [count, duration, errors] = series;
    metrics.record(count, &[label], 1.0);
    metrics.record(duration, &[label], took.as_secs_f64());
    if !is_ok {
        metrics.record(errors, &[label], 1.0);
    }
}

/// Converts `GET /lbaas/listeners/{id}` to `loadbalancer_listener_get`.
fn request(operation: &str) -> String {
    let (method, path) = operation.split_once(' ').unwrap_or_default();
    let segments: Vec<_> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "lbaas" && *part != "v3")
        .collect();
    let singular = |plural: &str| plural.strip_suffix('s').unwrap_or(plural).replace('-', "_");
    let resource = match (
        segments.first().copied().unwrap_or("versions"),
        segments.get(2).copied(),
    ) {
        ("auth", _) => "token".to_owned(),
        ("floatingips", _) => "floating_ip".to_owned(),
        ("extensions", _) => "network_extension".to_owned(),
        ("ports", Some("tags")) => "port_tag".to_owned(),
        // All members of a pool at once.
        ("pools", Some("members")) if method == "PUT" && segments.len() == 3 => {
            "loadbalancer_members".to_owned()
        }
        ("pools", Some("members")) => "loadbalancer_member".to_owned(),
        (part, _) if path.starts_with("/lbaas/") && part != "loadbalancers" => {
            format!("loadbalancer_{}", singular(part))
        }
        (other, _) => singular(other),
    };
    let is_one = segments.len() != 1
        && !segments.ends_with(&["detail"])
        && !segments.ends_with(&["members"]);
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

#[cfg(test)]
mod tests {
    use cloud_provider::{
        Cluster, Error, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Result, Service,
        async_trait,
    };
    use parking_lot::Mutex;

    use super::*;

    /// Load balancers whose reconciliation fails after 90 s.
    struct Broken;

    #[async_trait]
    impl LoadBalancers for Broken {
        async fn get(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
            Ok(None)
        }
        async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
            Ok(None)
        }
        async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
            Ok(())
        }
        async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
            tokio::time::sleep(Duration::from_secs(90)).await;
            Err(Error::other("ERROR"))
        }
    }

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
    fn requests_have_the_names_that_dashboards_know() {
        let table = [
            ("GET /", "version_list"),
            ("POST /v3/auth/tokens", "token_create"),
            ("GET /servers/detail", "server_list"),
            ("GET /servers/{id}", "server_get"),
            ("GET /flavors/{id}", "flavor_get"),
            ("GET /ports", "port_list"),
            ("PUT /ports/{id}", "port_update"),
            ("DELETE /ports/{id}/tags/{tag}", "port_tag_delete"),
            ("GET /networks", "network_list"),
            ("GET /networks/{id}", "network_get"),
            ("GET /subnets/{id}", "subnet_get"),
            ("GET /extensions", "network_extension_list"),
            ("POST /floatingips", "floating_ip_create"),
            ("GET /routers/{id}", "router_get"),
            ("PUT /routers/{id}/add_extraroutes", "router_update"),
            ("POST /security-groups", "security_group_create"),
            (
                "DELETE /security-group-rules/{id}",
                "security_group_rule_delete",
            ),
            ("GET /lbaas/loadbalancers", "loadbalancer_list"),
            ("GET /lbaas/loadbalancers/{id}/status", "loadbalancer_get"),
            ("DELETE /lbaas/loadbalancers/{id}", "loadbalancer_delete"),
            ("GET /lbaas/listeners", "loadbalancer_listener_list"),
            ("PUT /lbaas/pools/{id}", "loadbalancer_pool_update"),
            ("GET /lbaas/pools/{id}/members", "loadbalancer_member_list"),
            (
                "POST /lbaas/pools/{id}/members",
                "loadbalancer_member_create",
            ),
            (
                "PUT /lbaas/pools/{id}/members",
                "loadbalancer_members_update",
            ),
            (
                "DELETE /lbaas/pools/{id}/members/{member}",
                "loadbalancer_member_delete",
            ),
            (
                "POST /lbaas/healthmonitors",
                "loadbalancer_healthmonitor_create",
            ),
            ("GET /secrets/{id}", "secret_get"),
        ];
        for (operation, name) in table {
            assert_eq!(request(operation), name, "{operation}");
        }
    }

    #[test]
    fn what_is_refused_or_not_answered_is_an_error() {
        let heard = Arc::new(Heard::default());
        let requests = Requests(heard.clone());
        requests.finished("GET /ports", Some(200), Duration::from_millis(20));
        requests.finished("GET /ports", Some(409), Duration::ZERO);
        requests.finished("GET /ports", None, Duration::ZERO);
        let heard = heard.0.lock();
        let count = |name: &str| {
            heard
                .iter()
                .filter(|line| line.starts_with(&format!("{name}[\"port_list\"]")))
                .count()
        };
        let counts = [REQUESTS.name, DURATION.name, ERRORS.name].map(count);
        assert_eq!(counts, [3, 3, 2]);
        assert!(
            heard
                .contains(&"openstack_api_request_duration_seconds[\"port_list\"] 0.02".to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn reconciliations_are_timed_and_their_failures_counted() {
        let heard = Arc::new(Heard::default());
        let metrics: Arc<dyn CloudMetrics> = heard.clone();
        let broken = reconciled(Broken, &metrics);
        let cluster = Cluster {
            name: "c".to_owned(),
            id: None,
        };
        let service = Service::default();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        broken.get(request).await.unwrap();
        broken.delete(request).await.unwrap_err();
        let told = [
            "cloudprovider_openstack_reconcile_total[\"loadbalancer_delete\"] 1",
            "cloudprovider_openstack_reconcile_duration_seconds[\"loadbalancer_delete\"] 90",
            "cloudprovider_openstack_reconcile_errors_total[\"loadbalancer_delete\"] 1",
        ];
        assert_eq!(*heard.0.lock(), told);
    }
}
