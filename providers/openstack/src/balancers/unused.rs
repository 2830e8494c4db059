//! Warnings about settings of a Service that have no effect.

use std::net::IpAddr;

use cloud_provider::Service;
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::load_balancers::{Attributes, ObservedLoadBalancer, ResourceGraph, ServicePort};

use super::floating_ip;
use super::spec::ServiceSpec;
use crate::annotations as key;

/// The settings that decide whether others have an effect.
pub(super) struct Settings<'a> {
    /// If set, the load balancer gets no floating IP.
    pub(super) internal: bool,
    pub(super) has_monitor: bool,
    /// If set, members get the PROXY protocol.
    pub(super) proxy: bool,
    /// If set, listeners speak HTTP.
    pub(super) http: bool,
    /// If set, listeners terminate TLS.
    pub(super) has_tls: bool,
    pub(super) ports: &'a [ServicePort],
}

/// Warns of annotations of the Service that have no effect beside its other settings.
pub(super) fn warn(read: &mut Annotations<'_>, service: &Service, settings: &Settings<'_>) {
    let mut without =
        |unused: &str, text: &str| read.warning(format!("annotation {unused} has no effect{text}"));
    if settings.internal {
        let text = format!(
            ": an internal load balancer has no floating IP; remove it, or annotation {}",
            key::INTERNAL.key()
        );
        let floating = [
            &key::FLOATING_NETWORK_ID,
            &key::FLOATING_SUBNET_ID,
            &key::FLOATING_SUBNET,
            &key::FLOATING_SUBNET_TAGS,
        ];
        floating
            .into_iter()
            .filter(|declaration| declaration.text_on(service).is_some())
            .for_each(|declaration| without(declaration.key(), &text));
    }
    if !settings.has_monitor {
        let enable = key::ENABLE_HEALTH_MONITOR.key();
        let text = format!(": health monitors are off; set annotation {enable} to \"true\"");
        let of_monitors = [
            (
                key::HEALTH_MONITOR_DELAY.key(),
                key::HEALTH_MONITOR_DELAY.text_on(service),
            ),
            (
                key::HEALTH_MONITOR_TIMEOUT.key(),
                key::HEALTH_MONITOR_TIMEOUT.text_on(service),
            ),
            (
                key::HEALTH_MONITOR_MAX_RETRIES.key(),
                key::HEALTH_MONITOR_MAX_RETRIES.text_on(service),
            ),
            (
                key::HEALTH_MONITOR_MAX_RETRIES_DOWN.key(),
                key::HEALTH_MONITOR_MAX_RETRIES_DOWN.text_on(service),
            ),
        ];
        of_monitors
            .into_iter()
            .filter(|(_, set)| set.is_some())
            .for_each(|(unused, _)| without(unused, &text));
    }
    if key::PORT_ID.text_on(service).is_some() {
        let text = format!(" beside {}; remove one", key::PORT_ID.key());
        let places = [&key::SUBNET_ID, &key::NETWORK_ID];
        places
            .into_iter()
            .filter(|declaration| declaration.text_on(service).is_some())
            .for_each(|declaration| without(declaration.key(), &text));
    }
    let datagrams: Vec<_> = settings
        .ports
        .iter()
        .filter(|port| port.protocol != "TCP")
        .collect();
    let of_tcp = [
        (settings.proxy, key::PROXY_PROTOCOL.key()),
        (settings.http, key::X_FORWARDED_FOR.key()),
        (
            settings.has_tls && key::DEFAULT_TLS_CONTAINER_REF.text_on(service).is_some(),
            key::DEFAULT_TLS_CONTAINER_REF.key(),
        ),
    ];
    for (_, unused) in of_tcp.into_iter().filter(|(is_set, _)| *is_set) {
        for ServicePort {
            number, protocol, ..
        } in &datagrams
        {
            without(
                unused,
                &format!(" on port {number}/{protocol}: it needs TCP"),
            );
        }
    }
}

/// Returns warnings about settings of a new load balancer that differ from those of the one that the Service has.
pub(super) fn changed_after_creation(
    service: &Service,
    spec: &ServiceSpec,
    observed: &ObservedLoadBalancer,
) -> Vec<String> {
    let Some(graph) = observed.graph.as_ref() else {
        return Vec::new();
    };
    let Some(present) = graph.balancer_attributes() else {
        return Vec::new();
    };
    let mut warnings: Vec<_> = address(spec, graph, present, observed)
        .into_iter()
        .collect();
    let annotated = |annotation: &Annotation<String>| annotation.text_on(service).is_some();
    let places = [
        (&key::SUBNET_ID, &spec.vip.subnet, "vip_subnet_id"),
        (&key::NETWORK_ID, &spec.vip.network, "vip_network_id"),
        (&key::PORT_ID, &spec.vip.port, "vip_port_id"),
        (&key::FLAVOR_ID, &spec.flavor, "flavor_id"),
        (
            &key::AVAILABILITY_ZONE,
            &spec.availability_zone,
            "availability_zone",
        ),
    ];
    for (annotation, wanted, place) in places {
        let Some(wanted) = wanted.as_deref().filter(|_| annotated(annotation)) else {
            continue;
        };
        let present = present.text(place).unwrap_or_default();
        if !present.is_empty() && present != wanted {
            warnings.push(without_effect(
                &format!("annotation {}", annotation.key()),
                wanted,
                present,
                observed,
            ));
        }
    }
    warnings
}

/// Returns the warning about another address in `spec.loadBalancerIP` than the load balancer has.
fn address(
    spec: &ServiceSpec,
    graph: &ResourceGraph,
    present: &Attributes,
    observed: &ObservedLoadBalancer,
) -> Option<String> {
    let wanted = spec.address.as_deref()?;
    let is_vip = spec.internal || spec.is_ipv6();
    let floating = || {
        graph
            .resources
            .get(&floating_ip::resource())?
            .text("address")
    };
    let has = if is_vip {
        present.text("vip_address")
    } else {
        floating()
    }?;
    let same = |text: &str| text.parse::<IpAddr>().ok();
    let is_same = has == wanted || same(has).is_some_and(|address| Some(address) == same(wanted));
    (!is_same).then(|| without_effect("spec.loadBalancerIP", wanted, has, observed))
}

fn without_effect(
    setting: &str,
    wanted: &str,
    present: &str,
    observed: &ObservedLoadBalancer,
) -> String {
    format!(
        "{setting}: {wanted:?} has no effect: {} has {present:?}, which counts from its creation on; set {present:?}, or \
         delete and create the Service again",
        observed.place()
    )
}
