//! Further addresses of Services, such as the address of a load balancer of several regions. The author of a Service names
//! them, and each is opened in the security group and shown in the status, which draws the cluster's traffic for the address
//! to the Service. So an address that the cluster or another Service uses is none of the Service.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Error, Result, Service};
use provider_kit::annotations::Annotations;
use provider_kit::reserved_addresses::{node_of, service_of_cluster_ip};

use super::AzureLoadBalancers;
use super::address::full_name;
use super::spec::Spec;
use crate::annotations::ADDITIONAL_ADDRESSES;

impl AzureLoadBalancers {
    /// Returns the further addresses of a Service that nothing else uses.
    pub(super) fn additional(&self, service: &Service, spec: &Spec) -> Vec<IpAddr> {
        spec.additional
            .iter()
            .copied()
            .filter(|ip| self.user_of(*ip, service).is_none())
            .collect()
    }

    /// Checks that nothing else uses the further addresses of a Service.
    ///
    /// # Errors
    /// *Invalid*, with the first user.
    pub(super) fn check_additional(&self, service: &Service, spec: &Spec) -> Result<()> {
        let used = spec
            .additional
            .iter()
            .find_map(|ip| Some((ip, self.user_of(*ip, service)?)));
        used.map_or(Ok(()), |(ip, user)| {
            Err(Error::invalid(format!(
                "annotation {}: {ip} is used by {user}; remove the address, or delete its user first",
                ADDITIONAL_ADDRESSES.key()
            )))
        })
    }

    /// Returns the user of an address beside the Service: a Node, Pods, or a Service. Services that all name the address may
    /// share it, if none of them has a port of another one.
    fn user_of(&self, ip: IpAddr, service: &Service) -> Option<String> {
        let services = self.services();
        let of_pods = || {
            self.cluster_view
                .pod_cidrs()
                .iter()
                .find(|range| range.contains(&ip))
        };
        let is_of = |other: &&Arc<Service>| {
            other.metadata.uid != service.metadata.uid
                && shows(other, ip)
                && !shares(other, service, ip)
        };
        node_of(ip, &self.nodes())
            .or_else(|| of_pods().map(|range| format!("Pods, as part of {range}")))
            .or_else(|| service_of_cluster_ip(ip, &services))
            .or_else(|| {
                services
                    .iter()
                    .find(is_of)
                    .map(|other| format!("Service {}", full_name(other)))
            })
    }
}

/// Returns `true` if the status of a Service has the address.
pub(super) fn shows(service: &Service, ip: IpAddr) -> bool {
    let ingress = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    ingress.into_iter().flatten().any(|ingress| {
        ingress
            .ip
            .as_deref()
            .is_some_and(|text| text.parse() == Ok(ip))
    })
}

/// Returns `true` if another Service names the address, too, and has no port of this one.
fn shares(other: &Service, service: &Service, ip: IpAddr) -> bool {
    let names = Annotations::of(other)
        .get(&ADDITIONAL_ADDRESSES)
        .is_some_and(|all| all.contains(&ip));
    let ports = |service: &Service| {
        let ports = service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        ports
            .map(|port| {
                (
                    port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    port.port,
                )
            })
            .collect::<Vec<_>>()
    };
    let service_ports = ports(service);
    names && !ports(other).iter().any(|port| service_ports.contains(port))
}
