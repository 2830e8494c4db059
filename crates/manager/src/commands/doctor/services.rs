//! Services whose load balancer is not created or not deleted yet.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::names::{CONDITION_LOAD_BALANCER_READY, SERVICE_CONTROLLER};
use cloud_provider::{CloudProvider, Cluster, Finding, Node, PersistentVolume, Service};
use controllers::options::ServiceOptions;
use controllers::service::Operation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use runtime::cache::Cache;

use super::Subject;
use super::nodes::add_some;
use super::report::Findings;
use crate::commands::list;
use crate::commands::plan::irregular_balancers;
use crate::commands::seconds;
use crate::controller_set::SharedCaches;

/// Waiting time from which a Service is reported (DEP-95).
const LONG: Duration = Duration::from_secs(10 * 60);

/// The load balancers are read within the time of this many requests.
const REQUESTS: u32 = 3;

/// Checks the Services. `has_failed` is `true` if a check of the cloud failed before, so that no load balancer is read.
pub(super) async fn check(
    subject: &Subject<'_>,
    (client, cluster): (&Client, &Cluster),
    now: Timestamp,
    has_failed: bool,
    report: &mut Findings<'_>,
) {
    let Ok(provider) = &subject.provider else {
        return;
    };
    if provider.load_balancers().is_none() || !subject.settings.wants(SERVICE_CONTROLLER) {
        return;
    }
    let options = &subject.settings.options.service;
    match list::<Service>(client).await {
        Err(error) => report.add(Finding::failure(
            "services",
            error,
            "see the permissions above",
        )),
        Ok(services) => {
            let ours = services
                .iter()
                .filter(|service| Operation::at_start(service, options).is_some())
                .count();
            let mut findings: Vec<_> = services
                .iter()
                .filter_map(|service| judge(service, options, now))
                .collect();
            if !has_failed {
                findings.extend(irregular(subject, &**provider, client, cluster, services).await);
            }
            if findings.is_empty() {
                report.add(Finding::ok(
                    "services",
                    format!("{ours} with a load balancer, none waits for long"),
                ));
            }
            add_some(findings, "Service", report);
        }
    }
}

/// Returns the findings for Services that show an address, and have no load balancer in the cloud or have another one
/// besides.
async fn irregular(
    subject: &Subject<'_>,
    provider: &dyn CloudProvider,
    client: &Client,
    cluster: &Cluster,
    services: Vec<Service>,
) -> Vec<Finding> {
    // The check of the Nodes reports if they cannot be listed.
    let Ok(nodes) = list::<Node>(client).await else {
        return Vec::new();
    };
    let no_volumes: [PersistentVolume; 0] = [];
    let caches = SharedCaches {
        nodes: Cache::with(nodes),
        services: Cache::with(services),
        volumes: Cache::with(no_volumes),
    };
    provider.set_caches(Arc::new(caches.clone()));
    let nodes = caches.nodes.list();
    let services = caches.services.list();
    let deadline = subject.timeout * REQUESTS;
    let read = irregular_balancers(subject.settings, provider, cluster, &nodes, &services);
    match tokio::time::timeout(deadline, read).await {
        Ok(Ok(irregular)) => {
            let missing = irregular.missing.iter().map(|service| is_missing(service));
            missing
                .chain(
                    irregular
                        .notes
                        .iter()
                        .map(|(service, note)| noted(service, note)),
                )
                .collect()
        }
        Ok(Err(error)) => {
            let text = format!("the load balancers of the Services could not be read: {error}");
            vec![Finding::warning(
                "services",
                text,
                "see the cloud's findings above",
            )]
        }
        Err(_) => {
            let text = format!(
                "the load balancers of the Services could not be read within {} s",
                deadline.as_secs()
            );
            vec![Finding::warning("services", text, "raise --timeout")]
        }
    }
}

fn is_missing(service: &Service) -> Finding {
    let text = format!(
        "{}: LoadBalancerMissing: the Service shows an address, but its load balancer does not exist in the cloud",
        name(service)
    );
    let remedy = "restart the manager: it reads all load balancers when it starts, and creates this one again, maybe with \
                  another address; with --load-balancer-drift-check-period=1h and --load-balancer-drift=repair it does so \
                  by itself";
    Finding::warning("services", text, remedy)
}

fn noted(service: &Service, note: &str) -> Finding {
    Finding::warning(
        "services",
        format!("{}: {note}", name(service)),
        "`explain` shows both load balancers",
    )
}

fn name(service: &Service) -> String {
    let metadata = &service.metadata;
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", of(&metadata.namespace), of(&metadata.name))
}

/// Returns a finding for a Service that waits for its load balancer; `None` if the Service is in sync or has just begun
/// to wait.
fn judge(service: &Service, options: &ServiceOptions, now: Timestamp) -> Option<Finding> {
    let operation = Operation::at_start(service, options)?;
    let metadata = &service.metadata;
    let name = name(service);
    let since = metadata
        .deletion_timestamp
        .as_ref()
        .or(metadata.creation_timestamp.as_ref())
        .map(|time| time.0);
    let waits = since
        .map(|since| Duration::try_from(now.duration_since(since)).unwrap_or_default())
        .unwrap_or_default();
    let is_pending = operation != Operation::Ensure || !has_address(service);
    let what = match operation {
        Operation::Ensure if is_pending => format!("{name} has no address for {}", seconds(waits)),
        Operation::Ensure => format!("{name}: its load balancer could not be brought up to date"),
        _ => format!(
            "{name} has waited for the deletion of its load balancer for {}",
            seconds(waits)
        ),
    };
    if let Some(condition) = condition(service).filter(|condition| condition.status == "False") {
        let text = format!("{what}: {}", condition.reason);
        return Some(Finding::warning(
            "services",
            text,
            condition.message.trim_end_matches('.'),
        ));
    }
    (is_pending && operation != Operation::Nothing && waits > LONG).then(|| {
        Finding::warning(
            "services",
            format!("{what}, and no condition says why"),
            "check that a manager leads (lease) and runs service-lb-controller, and read the Service's events",
        )
    })
}

fn has_address(service: &Service) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_deref())
        .is_some_and(|ingress| !ingress.is_empty())
}

fn condition(service: &Service) -> Option<&Condition> {
    let conditions = service
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition.type_ == CONDITION_LOAD_BALANCER_READY)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut service = json!({
            "metadata": {"namespace": "default", "name": "web", "creationTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        });
        change(&mut service);
        let now = "2026-01-01T00:11:00Z".parse().unwrap();
        judge(
            &serde_json::from_value(service).unwrap(),
            &ServiceOptions::default(),
            now,
        )
        .map(|finding| finding.text)
    }

    #[test]
    fn pending_service_is_reported_with_its_reason() {
        let failed = json!([{"type": CONDITION_LOAD_BALANCER_READY, "status": "False", "reason": "QuotaExceeded",
            "message": "the quota is used up.", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        assert_eq!(judged(|_| {}), None);
        assert_eq!(
            judged(|object| object["spec"]["loadBalancerClass"] = json!("other")),
            None
        );
        let pending = |object: &mut Value| object["status"] = json!({});
        assert_eq!(
            judged(pending).unwrap(),
            "default/web has no address for 11 min, and no condition says why"
        );
        let with_reason = |object: &mut Value| object["status"] = json!({"conditions": failed});
        assert_eq!(
            judged(with_reason).unwrap(),
            "default/web has no address for 11 min: QuotaExceeded"
        );
        assert!(
            judged(|object| object["status"]["conditions"] = failed.clone())
                .unwrap()
                .contains("brought up to date: QuotaExceeded")
        );
        let young = |object: &mut Value| {
            pending(object);
            object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:05:00Z");
        };
        assert_eq!(judged(young), None);
        let deleted = |object: &mut Value| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
        };
        assert!(
            judged(deleted)
                .unwrap()
                .contains("has waited for the deletion of its load balancer for 10 min")
        );
    }
}
