//! Changes of a Service that concern its load balancer (SVC-16, SVC-20 … SVC-22).

use cloud_provider::Service;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::options::ServiceOptions;
use crate::service::wants::{has_finalizer, is_deleting, needs_cleanup, wants_load_balancer};

/// Returns `true` if the change from `old` to `new` requires a sync (SVC-20).
#[must_use]
pub fn needs_update(old: &Service, new: &Service, options: &ServiceOptions) -> bool {
    match (
        wants_load_balancer(old, options),
        wants_load_balancer(new, options),
    ) {
        (false, false) => return false,
        (true, true) => {}
        _ => return true,
    }
    let empty = ServiceSpec::default();
    let a = old.spec.as_ref().unwrap_or(&empty);
    let b = new.spec.as_ref().unwrap_or(&empty);
    a.load_balancer_source_ranges != b.load_balancer_source_ranges
        || ports_differ(a, b)
        || text(&a.session_affinity) != text(&b.session_affinity)
        || a.session_affinity_config != b.session_affinity_config
        || text(&a.load_balancer_ip) != text(&b.load_balancer_ip)
        || list(&a.external_ips) != list(&b.external_ips)
        || old.metadata.annotations != new.metadata.annotations
        || text(&old.metadata.uid) != text(&new.metadata.uid)
        || text(&a.external_traffic_policy) != text(&b.external_traffic_policy)
        || a.health_check_node_port.unwrap_or_default()
            != b.health_check_node_port.unwrap_or_default()
        || list(&a.ip_families).len() != list(&b.ip_families).len()
}

/// Returns `true` if the change requires a sync: [`needs_update`] returns `true`, the change concerns the cleanup of a
/// Service that needs cleanup, or another writer removed the finalizer or the addresses of a Service that is not being
/// deleted (by SVC-21 alone they would not be written again). A Service that waits for cleanup keeps its back-off across
/// resyncs and this controller's own status writes (SVC-18).
#[must_use]
pub fn needs_sync(old: &Service, new: &Service, options: &ServiceOptions) -> bool {
    needs_update(old, new, options)
        || (needs_cleanup(new) && cleanup_differs(old, new))
        || lost_finalizer(old, new, options)
        || lost_addresses(old, new, options)
}

/// Returns `true` if another writer emptied the status of a Service that has a load balancer. This controller empties it
/// only for a Service that wants none.
fn lost_addresses(old: &Service, new: &Service, options: &ServiceOptions) -> bool {
    let has_addresses = |service: &Service| {
        let balancer = service
            .status
            .as_ref()
            .and_then(|status| status.load_balancer.as_ref());
        balancer
            .and_then(|balancer| balancer.ingress.as_ref())
            .is_some_and(|ingress| !ingress.is_empty())
    };
    wants_load_balancer(new, options)
        && !is_deleting(new)
        && has_addresses(old)
        && !has_addresses(new)
}

fn lost_finalizer(old: &Service, new: &Service, options: &ServiceOptions) -> bool {
    wants_load_balancer(new, options)
        && !is_deleting(new)
        && has_finalizer(old)
        && !has_finalizer(new)
}

fn cleanup_differs(old: &Service, new: &Service) -> bool {
    has_finalizer(old) != has_finalizer(new)
        || is_deleting(old) != is_deleting(new)
        || text(&old.metadata.uid) != text(&new.metadata.uid)
        || old.metadata.annotations != new.metadata.annotations
        || old.spec != new.spec
}

/// Returns `true` if the ports differ, including their order.
fn ports_differ(a: &ServiceSpec, b: &ServiceSpec) -> bool {
    let a = list(&a.ports);
    let b = list(&b.ports);
    a.len() != b.len() || a.iter().zip(b).any(|(a, b)| port_differs(a, b))
}

fn port_differs(a: &ServicePort, b: &ServicePort) -> bool {
    text(&a.name) != text(&b.name)
        || text(&a.protocol) != text(&b.protocol)
        || a.port != b.port
        || a.node_port.unwrap_or_default() != b.node_port.unwrap_or_default()
        || target(a) != target(b)
        || a.app_protocol != b.app_protocol
}

/// Returns the target port. The text `"80"` differs from the number 80; a missing target port is the number 0.
fn target(port: &ServicePort) -> &IntOrString {
    const NONE: &IntOrString = &IntOrString::Int(0);
    port.target_port.as_ref().unwrap_or(NONE)
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

fn list<T>(field: &Option<Vec<T>>) -> &[T] {
    field.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::names::FINALIZER_LOAD_BALANCER;
    use serde_json::{Value, json};

    fn service(change: impl FnOnce(&mut Value)) -> Service {
        let mut service = json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER_LOAD_BALANCER]},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": 8080}]},
        });
        change(&mut service);
        serde_json::from_value(service).unwrap()
    }

    #[test]
    fn field_that_the_load_balancer_does_not_show_is_no_change() {
        let same: [fn(&mut Value); 5] = [
            |s| s["metadata"]["labels"] = json!({"a": "b"}),
            |s| s["metadata"]["finalizers"] = json!([]),
            |s| s["spec"]["selector"] = json!({"a": "b"}),
            |s| s["spec"]["externalIPs"] = json!([]),
            |s| s["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        ];
        for change in same {
            assert!(!needs_update(
                &service(|_| ()),
                &service(change),
                &ServiceOptions::default()
            ));
        }
        let other: [fn(&mut Value); 4] = [
            |s| s["metadata"]["annotations"] = json!({}),
            |s| s["spec"]["ports"][0]["targetPort"] = json!("8080"),
            |s| s["spec"]["ports"][0]["appProtocol"] = json!(""),
            |s| s["spec"]["loadBalancerSourceRanges"] = json!([]),
        ];
        for change in other {
            assert!(needs_update(
                &service(|_| ()),
                &service(change),
                &ServiceOptions::default()
            ));
        }
    }

    #[test]
    fn service_that_loses_its_finalizer_needs_a_sync() {
        let bare = |s: &mut Value| s["metadata"]["finalizers"] = json!([]);
        let needs = |old: &Service, new: &Service| needs_sync(old, new, &ServiceOptions::default());
        assert!(needs(&service(|_| ()), &service(bare)));
        assert!(!needs(&service(bare), &service(|_| ())), "our own write");
        assert!(!needs(&service(bare), &service(bare)));
        let other = |s: &mut Value| s["spec"]["loadBalancerClass"] = json!("other");
        let bare_other = service(|s| {
            bare(s);
            other(s);
        });
        assert!(!needs(&service(other), &bare_other), "it is not ours");
    }

    #[test]
    fn service_that_loses_its_addresses_needs_a_sync() {
        let shows = |s: &mut Value| {
            s["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        };
        let empty = |s: &mut Value| s["status"] = json!({"loadBalancer": {"ingress": []}});
        let needs = |old: &Service, new: &Service| needs_sync(old, new, &ServiceOptions::default());
        for lost in [service(empty), service(|_| ())] {
            assert!(needs(&service(shows), &lost));
            assert!(!needs(&lost, &service(shows)), "our own write");
        }
        let cluster_ip = service(|s| s["spec"]["type"] = json!("ClusterIP"));
        assert!(
            !needs(&cluster_ip, &cluster_ip),
            "it wants no load balancer"
        );
        let deleted =
            |s: &mut Value| s["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let leaving = service(|s| {
            shows(s);
            deleted(s);
        });
        assert!(!needs(&leaving, &service(deleted)), "it is being deleted");
    }

    #[test]
    fn a_cleanup_that_waits_is_not_hurried_by_a_resync_or_a_status_write() {
        let deleting =
            |s: &mut Value| s["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let alive = service(|_| ());
        let waits = service(deleting);
        let needs = |old: &Service, new: &Service| needs_sync(old, new, &ServiceOptions::default());
        assert!(needs(&alive, &waits), "it begins");
        assert!(!needs(&waits, &waits), "a resync");
        let with_condition = service(|s| {
            deleting(s);
            s["status"] = json!({"conditions": []});
            s["metadata"]["resourceVersion"] = json!("2");
        });
        assert!(!needs(&waits, &with_condition), "our own write");
        let abandoned = service(|s| {
            deleting(s);
            s["metadata"]["annotations"] = json!({"ccm-rs/abandon-load-balancer": "true"});
        });
        assert!(needs(&waits, &abandoned), "somebody lets it go");
    }
}
