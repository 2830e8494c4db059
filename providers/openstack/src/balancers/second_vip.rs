//! The second VIP of a Service with two IP families (`additional_vips`, D-204): selected when its load balancer is
//! created, and never changed.

use cloud_provider::{Result, Service};
use provider_kit::events::PendingEvents;
use provider_kit::load_balancers::Attributes;
use provider_kit::status::shown;

use super::octavia::{ADDITIONAL_VIPS, text};
use super::project::Project;
use super::published::{has_or_requests_load_balancer, is_published};
use super::spec::{ServiceSpec, VipPlacement, has};
use crate::features::Features;

/// Reason why a Service with UDP or SCTP ports gets no second VIP.
const DATAGRAMS: &str = "Octavia leads UDP and SCTP only to members of the VIP's own family";

/// Returns the subnet of the second VIP, if the Service requests both families and may have one. If the Service
/// requires one, an event reports the reason for which it has none.
pub(super) async fn second_subnet(
    project: &Project,
    spec: &ServiceSpec,
    features: &Features,
    vip: &VipPlacement,
    service: &Service,
    pending_events: &mut PendingEvents,
) -> Result<Option<String>> {
    let Some(second) = spec.second else {
        return Ok(None);
    };
    let mut subnet = None;
    let why_not = if !features.additional_vips {
        Some("Octavia has second VIPs from version 2.26 on, and with provider amphora")
    } else if vip.port.is_some() {
        Some("the VIP is on the port that annotation port-id names")
    } else if spec.ports.iter().any(|port| port.protocol != "TCP") {
        Some(DATAGRAMS)
    } else {
        subnet = project
            .networks
            .beside(vip, second, has_or_requests_load_balancer(service))
            .await?;
        match &subnet {
            None => Some("the VIP's network has no subnet of that family that this project sees"),
            Some(_) if is_published(service) => Some(
                "the load balancer has one VIP, and cannot get another; delete and create the Service again",
            ),
            Some(_) => None,
        }
    };
    // A name may have an address of the second family.
    let is_shown = shown(service)
        .iter()
        .any(|entry| entry.ip.as_deref().is_none_or(|ip| has(second, ip)));
    if let Some(why) = why_not.filter(|why| {
        if is_shown {
            *why == DATAGRAMS
        } else {
            spec.needs_both
        }
    }) {
        let family = if spec.is_ipv6() { "IPv4" } else { "IPv6" };
        let text = format!("the Service is not, or not on all ports, reachable by {family}: {why}");
        pending_events.warn("LoadBalancerDualStackSkipped", text);
    }
    Ok(subnet)
}

/// Returns `true` if a load balancer has a VIP of the Service's second family.
pub(super) fn has_second_vip(balancer: &Attributes, spec: &ServiceSpec) -> bool {
    let vips = balancer
        .get(ADDITIONAL_VIPS)
        .and_then(|vips| vips.as_array())
        .into_iter()
        .flatten();
    spec.second.is_some_and(|second| {
        vips.into_iter()
            .any(|vip| has(second, text(vip, "ip_address")))
    })
}
