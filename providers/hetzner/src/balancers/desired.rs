//! The desired state: a pure function of a Service's spec and of looked-up facts.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Attributes, ResourceGraph, ServicePort, Targets};

use super::spec::{Certificates, ServiceSpec};
use super::wire::{
    CERTIFICATES, NETWORK, POOL, ServiceSettings, certificate_resource, network_resource,
};
use crate::annotations as key;

/// Placeholder for the ID of a certificate that does not exist yet.
pub(super) const TO_BE_MADE: &str = "to be made";

/// Facts that are looked up.
pub(super) struct Facts {
    /// The private network's id.
    pub(super) network: Option<u64>,
    /// The maximum number of targets of the type.
    pub(super) most_targets: usize,
    /// TCP ports of the Service.
    pub(super) ports: Vec<ServicePort>,
    /// `None`: they stay as they are.
    pub(super) targets: Option<Targets>,
    /// IDs of certificates; `None` for one that does not exist yet.
    pub(super) certificates: Option<Vec<u64>>,
}

/// Builds the desired state.
///
/// # Errors
/// *Invalid*, if the Service requests private addresses without a network.
pub(super) fn desired(spec: &ServiceSpec, facts: Facts) -> Result<ResourceGraph> {
    let mut graph = ResourceGraph::default().balancer(spec.balancer.clone());
    match facts.network {
        Some(network) => {
            let ip = spec.private_ipv4.map(|ip| ip.to_string());
            let settings = Attributes::default()
                .set("network", network)
                .set("ip", ip)
                .for_creation();
            // Another network, or another address in it, is had by leaving first.
            graph = graph.resource(network_resource(""), settings.fixed(&["network", "ip"]));
        }
        None => spec.check_network(None)?,
    }
    let mut listener = spec.listener.clone();
    match (&spec.certificates, facts.certificates) {
        (Certificates::Managed(certificate), None) => {
            let settings = Attributes::default().set("domains", &certificate.domains);
            graph = graph.resource(certificate_resource(&certificate.name), settings);
            listener = listener.set(CERTIFICATES, TO_BE_MADE);
        }
        (Certificates::Unstated, _) => {}
        (_, ids) => listener = listener.set(CERTIFICATES, ids.unwrap_or_default()),
    }
    graph = graph
        .pool(POOL, Attributes::default(), facts.targets)
        .limit(POOL, facts.most_targets);
    for port in facts.ports {
        let mut settings = listener.clone().set("destination_port", port.node_port);
        if settings.get("health_check.port").is_none() {
            settings = settings.set("health_check.port", port.node_port);
        }
        let settings = Attributes::desired(&ServiceSettings(settings.nested()))?;
        graph = graph.listener(port.number, port.protocol, POOL, settings);
    }
    Ok(graph)
}

impl ServiceSpec {
    /// Checks that targets can be reached by the addresses that the spec demands.
    pub(super) fn check_network(&self, network: Option<u64>) -> Result<()> {
        match network {
            None if self.use_private_ip => Err(Error::invalid(format!(
                "annotation {} (or HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP) needs a network: set HCLOUD_NETWORK",
                key::USE_PRIVATE_IP.key()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns warnings about settings that need a network.
    pub(super) fn without_network(&self, network: Option<u64>) -> Vec<String> {
        let stated = [
            (self.private_ipv4.is_some(), key::PRIVATE_IPV4.key()),
            (
                self.private_subnet.is_some(),
                key::PRIVATE_SUBNET_IP_RANGE.key(),
            ),
        ];
        let stated = stated
            .into_iter()
            .filter(|(is_stated, _)| *is_stated && network.is_none());
        stated
            .map(|(_, key)| {
                format!("annotation {key} has no effect without a network; set HCLOUD_NETWORK")
            })
            .collect()
    }
}

/// Refuses a load balancer that would have neither a public interface nor a network.
///
/// # Errors
/// *Invalid*, in that case.
pub(super) fn check_reachable(
    wanted: &ResourceGraph,
    observed: Option<&ResourceGraph>,
) -> Result<()> {
    let is_private = |graph: &ResourceGraph| {
        graph.balancer_attributes().is_some_and(|settings| {
            settings.get("public").and_then(serde_json::Value::as_bool) == Some(false)
        })
    };
    let has_network = |graph: &ResourceGraph| {
        graph
            .resources
            .keys()
            .any(|resource| resource.is_of_kind(NETWORK))
    };
    if !is_private(wanted) || has_network(wanted) || observed.is_some_and(has_network) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "annotation {} (or HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK) needs a network: without one, the load balancer \
         has no address; set HCLOUD_NETWORK",
        key::DISABLE_PUBLIC_NETWORK.key()
    )))
}
