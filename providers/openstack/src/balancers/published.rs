//! The published state of a load balancer: status and annotations of its Service, written and read back.

use cloud_provider::{LoadBalancerStatus, Service};
use provider_kit::load_balancers::ObservedLoadBalancer;
use provider_kit::status::{Status, shown};

use super::spec::families;
use crate::annotations::{self as key, ProxyProtocol, text};
use crate::config::Balancers;

/// Returns the status of a Service. Mistakes in its annotations are reported where the load balancer is changed.
pub(super) fn status(
    actual: &ObservedLoadBalancer,
    service: &Service,
    config: &Balancers,
) -> LoadBalancerStatus {
    let mut annotations = key::annotations_of(service);
    let hostname = text(&mut annotations, &key::HOSTNAME);
    let is_proxied = annotations
        .get(&key::PROXY_PROTOCOL)
        .is_some_and(|proxy_protocol| proxy_protocol != ProxyProtocol::Off);
    // A Service with one IP family does not show a VIP of the other family, which a shared load balancer may have for
    // another Service.
    let most = if families(service).1.is_some() {
        usize::MAX
    } else {
        1
    };
    // Clients inside the cluster must not bypass a load balancer that sends the PROXY protocol to Pods. A host name in
    // the status prevents that with every kube-proxy, `ipMode` only with a kube-proxy that supports it.
    let suffix = config.ingress_hostname_suffix().filter(|_| is_proxied);
    let hostname = hostname.or_else(|| Some(format!("{}.{}", ingress(actual).next()?, suffix?)));
    Status::default()
        .hostname(hostname.as_deref())
        .proxied(is_proxied)
        .addresses(ingress(actual).take(most))
        .build()
}

/// Returns the annotations that users and the Go cloud-controller-manager read.
pub(super) fn annotations(actual: &ObservedLoadBalancer) -> Vec<(&'static str, Option<String>)> {
    // While only the security group exists, there is no load balancer whose ID could be shown.
    if actual
        .graph
        .as_ref()
        .is_some_and(|graph| graph.balancer_attributes().is_none())
    {
        return Vec::new();
    }
    // The ID of a `Share` may have a suffix; the annotation has the load balancer's own ID.
    let id = actual.id.split('/').next().filter(|id| !id.is_empty());
    let address = ingress(actual).next();
    vec![
        (key::LOAD_BALANCER_ID.key(), id.map(str::to_owned)),
        (key::LOAD_BALANCER_ADDRESS.key(), address.map(str::to_owned)),
    ]
}

/// Returns the floating IP's address, or the VIP; and then the second VIP.
fn ingress(actual: &ObservedLoadBalancer) -> impl Iterator<Item = &str> {
    actual
        .ingress
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref())
        .filter(|address| !address.is_empty())
}

/// Replaces the first address of the status by this one.
pub(super) fn lead_by(actual: &mut ObservedLoadBalancer, address: &str) {
    let first = ..actual.ingress.len().min(1);
    actual
        .ingress
        .splice(first, [ObservedLoadBalancer::ip(address)]);
}

/// Returns the ID of the load balancer that the Service names.
pub(super) fn requested_id(service: &Service) -> Option<&str> {
    key::LOAD_BALANCER_ID
        .text_on(service)
        .map(str::trim)
        .filter(|id| !id.is_empty())
}

/// Returns `true` if the Service shows an address to its users.
pub(super) fn is_published(service: &Service) -> bool {
    !shown(service).is_empty()
}

/// Returns `true` if the Service still has both annotations, address and ID, that the controller wrote for an earlier
/// load balancer. The author of the Service can write them as well, so they prove no claim.
pub(super) fn had_load_balancer(service: &Service) -> bool {
    is_published(service) || key::LOAD_BALANCER_ADDRESS.text_on(service).is_some()
}

/// Returns `true` if the Service has or had a load balancer, or names one.
pub(super) fn has_or_requests_load_balancer(service: &Service) -> bool {
    is_published(service) || key::LOAD_BALANCER_ID.text_on(service).is_some()
}

/// Returns the addresses that the Service shows. The annotation counts only beside a status, which the author of a
/// Service cannot write: the status of a Service that is reached by a host name shows no address.
pub(super) fn addresses(service: &Service) -> Vec<&str> {
    let shown = shown(service)
        .iter()
        .filter_map(|entry| entry.ip.as_deref())
        .filter(|address| !address.is_empty());
    let annotated = key::LOAD_BALANCER_ADDRESS
        .text_on(service)
        .filter(|_| is_published(service));
    shown.chain(annotated).collect()
}

#[cfg(test)]
mod tests {
    use provider_kit::load_balancers::ResourceGraph;
    use serde_json::{Value, json};

    use super::super::wanted::tests::configured;
    use super::*;

    fn shown(annotations: &Value, suffix: Option<&str>) -> Value {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        let suffix = suffix
            .map(|suffix| format!("enable-ingress-hostname\ningress-hostname-suffix={suffix}"));
        let config = configured(suffix.as_deref().unwrap_or_default());
        let actual = ObservedLoadBalancer {
            id: "lb/x".into(),
            ingress: vec![ObservedLoadBalancer::ip("203.0.113.9")],
            ..ObservedLoadBalancer::default()
        };
        serde_json::to_value(status(&actual, &service, &config)).unwrap()["ingress"].clone()
    }

    #[test]
    fn a_service_shows_a_name_or_an_address_and_how_it_may_be_reached() {
        let proxied = json!({"loadbalancer.openstack.org/proxy-protocol": "v2"});
        let named = json!({"loadbalancer.openstack.org/hostname": "a.example", "loadbalancer.openstack.org/proxy-protocol": "v1"});
        let ip = |mode: &str| json!([{"ip": "203.0.113.9", "ipMode": mode}]);
        assert_eq!(shown(&json!({}), None), ip("VIP"));
        assert_eq!(shown(&json!({}), Some("nip.io")), ip("VIP"));
        assert_eq!(
            shown(&json!({"loadbalancer.openstack.org/hostname": ""}), None),
            ip("VIP")
        );
        assert_eq!(shown(&proxied, None), ip("Proxy"));
        assert_eq!(
            shown(&proxied, Some("nip.io")),
            json!([{"hostname": "203.0.113.9.nip.io"}])
        );
        assert_eq!(
            shown(&named, Some("nip.io")),
            json!([{"hostname": "a.example"}])
        );
    }

    #[test]
    fn the_second_vip_is_shown_to_those_who_ask_for_both_families_and_never_in_the_annotation() {
        let ingress = ["10.6.0.9", "fd00::9"].map(ObservedLoadBalancer::ip);
        let mut actual = ObservedLoadBalancer {
            id: "lb".into(),
            ingress: ingress.into(),
            ..ObservedLoadBalancer::default()
        };
        lead_by(&mut actual, "203.0.113.9");
        let config = super::super::wanted::tests::config();
        for (families, expected) in [(vec!["IPv4"], 1), (vec!["IPv4", "IPv6"], 2)] {
            let service: Service =
                serde_json::from_value(json!({"spec": {"ipFamilies": families}})).unwrap();
            let shown = status(&actual, &service, &config)
                .ingress
                .unwrap_or_default();
            let ips: Vec<_> = shown
                .iter()
                .filter_map(|entry| entry.ip.as_deref())
                .collect();
            assert_eq!(ips, ["203.0.113.9", "fd00::9"][..expected]);
            assert!(
                shown
                    .iter()
                    .all(|entry| entry.ip_mode.as_deref() == Some("VIP"))
            );
        }
        assert_eq!(annotations(&actual)[1].1.as_deref(), Some("203.0.113.9"));
        let mut none = ObservedLoadBalancer::default();
        lead_by(&mut none, "203.0.113.9");
        assert_eq!(none.ingress, [ObservedLoadBalancer::ip("203.0.113.9")]);
    }

    #[test]
    fn id_and_address_are_written_down_and_nothing_where_there_is_none() {
        let id = key::LOAD_BALANCER_ID.key();
        let address = key::LOAD_BALANCER_ADDRESS.key();
        let actual = ObservedLoadBalancer {
            id: "lb-1/tag".into(),
            ingress: vec![ObservedLoadBalancer::ip("192.0.2.7")],
            ..ObservedLoadBalancer::default()
        };
        assert_eq!(
            annotations(&actual),
            [
                (id, Some("lb-1".into())),
                (address, Some("192.0.2.7".into()))
            ]
        );
        assert_eq!(
            annotations(&ObservedLoadBalancer::default()),
            [(id, None), (address, None)]
        );
        let group = ObservedLoadBalancer {
            id: "sg-1".into(),
            graph: Some(ResourceGraph::default()),
            ..ObservedLoadBalancer::default()
        };
        assert_eq!(
            annotations(&group),
            [],
            "not the id of what stands before it"
        );
    }
}
