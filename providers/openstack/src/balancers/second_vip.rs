//! The second VIP of a Service with two IP families (`additional_vips`, D-204): chosen when its load balancer is made, and
//! never changed.

use cloud_provider::{Result, Service};
use provider_kit::events::Notes;
use provider_kit::load_balancers::Attributes;
use provider_kit::status::shown;

use super::asked::{Asked, Vip, has};
use super::octavia::{ADDITIONAL_VIPS, text};
use super::project::Project;
use super::shown::{is_made, is_published};
use crate::features::Features;

/// For which ports a second VIP is of no use: Octavia leads it only to members of its own family.
const DATAGRAMS: &str = "Octavia leads UDP and SCTP only to members of the VIP's own family";

/// The subnet of the second VIP, if the Service asks for both families and may have one. Who must have one is told why not.
pub(super) async fn second_subnet(
    project: &Project,
    asked: &Asked,
    features: &Features,
    vip: &Vip,
    service: &Service,
    notes: &mut Notes,
) -> Result<Option<String>> {
    let Some(second) = asked.second else { return Ok(None) };
    let mut subnet = None;
    let why_not = if !features.additional_vips {
        Some("Octavia has second VIPs from version 2.26 on, and with provider amphora")
    } else if vip.port.is_some() {
        Some("the VIP is on the port that annotation port-id names")
    } else if asked.ports.iter().any(|port| port.protocol != "TCP") {
        Some(DATAGRAMS)
    } else {
        subnet = project.places.beside(vip, second, is_made(service)).await?;
        match &subnet {
            None => Some("the VIP's network has no subnet of that family that this project sees"),
            Some(_) if is_published(service) => {
                Some("the load balancer was made with one VIP, and gets no other; make the Service anew")
            }
            Some(_) => None,
        }
    };
    let is_shown = shows(service, asked);
    if let Some(why) = why_not.filter(|why| if is_shown { *why == DATAGRAMS } else { asked.needs_both }) {
        let family = if asked.is_ipv6() { "IPv4" } else { "IPv6" };
        let text = format!("it is not, or not wholly, reached by {family}: {why}");
        notes.warn("LoadBalancerDualStackSkipped", text);
    }
    Ok(subnet)
}

/// Whether a load balancer has a VIP of the Service's second family.
pub(super) fn is_there(balancer: &Attributes, asked: &Asked) -> bool {
    let vips = balancer.get(ADDITIONAL_VIPS).and_then(|vips| vips.as_array()).into_iter().flatten();
    asked.second.is_some_and(|second| vips.into_iter().any(|vip| has(second, text(vip, "ip_address"))))
}

/// Whether the Service shows an address of its second family, or a name, which may have one.
fn shows(service: &Service, asked: &Asked) -> bool {
    shown(service).iter().any(|it| asked.second.zip(it.ip.as_deref()).is_none_or(|(second, ip)| has(second, ip)))
}
