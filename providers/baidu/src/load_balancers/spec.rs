//! A Service, parsed once: the spec of its BLB and EIP, except for facts from the cloud.

use std::net::Ipv4Addr;

use cloud_provider::Service;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::load_balancers::service_ports;
use provider_kit::source_ranges::{allows_all, configured_source_ranges};

use super::legacy::is_generated_for_another;
use super::object::Listener;
use crate::annotations as key;

/// BLB configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlbSpec {
    pub(super) listeners: Vec<Listener>,
    pub(super) most_backends: usize,
    pub(super) subnet: Option<String>,
    pub(super) has_ipv6: bool,
    pub(super) is_reserved: bool,
    /// The EIP; `None` for a BLB that is only in the VPC.
    pub(super) eip: Option<EipSpec>,
    pub(super) warnings: Vec<String>,
}

/// EIP configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct EipSpec {
    /// Address of an EIP of the user, `spec.loadBalancerIP`.
    pub(super) fixed_ip: Option<String>,
    pub(super) name: Option<String>,
    pub(super) payment: Option<String>,
    pub(super) billing: Option<String>,
    pub(super) bandwidth: Option<u32>,
    pub(super) reservation: Option<u32>,
}

impl BlbSpec {
    /// Parses a Service's annotations and ports.
    pub(super) fn of(service: &Service, cluster: &str) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        annotations.unknown(key::PREFIX, key::ALL);
        let fields = service.spec.as_ref();
        let has_affinity =
            fields.and_then(|entry| entry.session_affinity.as_deref()) == Some("ClientIP");
        let default = if has_affinity { "Hash" } else { "RoundRobin" };
        let listener = Listener {
            scheduler: annotations
                .get(&key::SCHEDULER)
                .unwrap_or_else(|| default.to_owned()),
            health_check_timeout_in_second: annotations.get(&key::CHECK_TIMEOUT),
            health_check_interval: annotations.get(&key::CHECK_INTERVAL),
            unhealthy_threshold: annotations.get(&key::UNHEALTHY),
            healthy_threshold: annotations.get(&key::HEALTHY),
            ..Listener::default()
        };
        let check_string = annotations.get(&key::CHECK_STRING);
        let ports = service_ports(service, &["TCP", "UDP"]).unwrap_or_else(|error| {
            annotations.mistake(error.to_string());
            Vec::new()
        });
        let listeners = ports.into_iter().map(|port| Listener {
            listener_port: port.number,
            listener_type: port.protocol.to_owned(),
            backend_port: port.node_port,
            health_check_string: check_string.clone().filter(|_| port.protocol == "UDP"),
            ..listener.clone()
        });
        let listeners: Vec<_> = listeners.collect();
        match configured_source_ranges(service) {
            Ok(ranges) if ranges.is_empty() || allows_all(&ranges) => {}
            Ok(_) => {
                annotations.warning("loadBalancerSourceRanges has no effect on a BLB; use a security group of the VPC");
            }
            Err(error) => annotations.mistake(error.to_string()),
        }
        let is_internal = annotations.get(&key::INTERNAL).unwrap_or_default();
        for key in [&key::NAME, &key::EIP_NAME] {
            if let Some(name) = annotations
                .get(key)
                .filter(|name| is_generated_for_another(name, cluster, service))
            {
                annotations.mistake(format!(
                    "annotation {}: {name:?} has the form of a name that is generated for another Service; choose another name",
                    key.key()
                ));
            }
        }
        let eip = EipSpec::of(service, &mut annotations);
        ignored(is_internal, &eip, &listeners, &mut annotations);
        let families = fields
            .and_then(|entry| entry.ip_families.as_deref())
            .unwrap_or_default();
        let spec = Self {
            listeners,
            most_backends: annotations
                .get(&key::MAX_BACKENDS)
                .and_then(|max_backends| max_backends.try_into().ok())
                .unwrap_or(50),
            subnet: annotations.get(&key::SUBNET_ID).filter(|id| !id.is_empty()),
            has_ipv6: families.iter().any(|family| family == "IPv6"),
            is_reserved: annotations.get(&key::RESERVE).unwrap_or_default(),
            eip: Some(eip).filter(|_| !is_internal),
            warnings: annotations.warnings().to_vec(),
        };
        annotations.parsed(spec)
    }
}

/// Warns of settings that have no effect, because the setting that they belong to is missing.
fn ignored(
    is_internal: bool,
    eip: &EipSpec,
    listeners: &[Listener],
    annotations: &mut Annotations<'_>,
) {
    let internal = format!("has no effect with {}: true", key::INTERNAL.key());
    let fixed = "has no effect with loadBalancerIP, which names an EIP of yours".to_owned();
    let of_eip = [
        (eip.name.is_some(), key::EIP_NAME.key()),
        (eip.payment.is_some(), key::PAYMENT.key()),
        (eip.billing.is_some(), key::BILLING.key()),
        (eip.bandwidth.is_some(), key::BANDWIDTH.key()),
        (eip.reservation.is_some(), key::RESERVATION.key()),
    ];
    for (_, key) in of_eip.into_iter().filter(|(is_set, _)| *is_set) {
        match (is_internal, &eip.fixed_ip) {
            (true, _) => annotations.warning(format!("annotation {key} {internal}")),
            (false, Some(_)) => annotations.warning(format!("annotation {key} {fixed}")),
            (false, None) => {}
        }
    }
    if is_internal && eip.fixed_ip.is_some() {
        annotations.warning(format!("loadBalancerIP {internal}"));
    }
    if eip.reservation.is_some() && !eip.is_prepaid() && !is_internal && eip.fixed_ip.is_none() {
        let (key, payment) = (key::RESERVATION.key(), key::PAYMENT.key());
        annotations.warning(format!(
            "annotation {key} has no effect without {payment}: Prepaid"
        ));
    }
    if annotations.is_set(&key::CHECK_STRING)
        && !listeners
            .iter()
            .any(|listener| listener.listener_type == "UDP")
    {
        annotations.warning(format!(
            "annotation {} has no effect without a UDP port",
            key::CHECK_STRING.key()
        ));
    }
    if annotations.get(&key::ALLOCATE_VIP) == Some(true) {
        annotations.warning(format!(
            "annotation {} has no effect: the API has no such parameter",
            key::ALLOCATE_VIP.key()
        ));
    }
}

impl EipSpec {
    fn of(service: &Service, annotations: &mut Annotations<'_>) -> Self {
        let spec = service.spec.as_ref();
        let fixed_ip = spec
            .and_then(|spec| spec.load_balancer_ip.clone())
            .filter(|ip| !ip.is_empty());
        if let Some(ip) = fixed_ip
            .as_ref()
            .filter(|ip| ip.parse::<Ipv4Addr>().is_err())
        {
            annotations.mistake(format!(
                "loadBalancerIP: {ip:?} is not the IPv4 address of an EIP"
            ));
        }
        let eip = Self {
            fixed_ip,
            name: annotations
                .get(&key::EIP_NAME)
                .filter(|name| !name.is_empty()),
            payment: annotations.get(&key::PAYMENT),
            billing: annotations.get(&key::BILLING),
            bandwidth: annotations.get(&key::BANDWIDTH),
            reservation: annotations.get(&key::RESERVATION),
        };
        let most = eip.most_bandwidth();
        let is_prepaid = eip.is_prepaid();
        let [payment, billing, bandwidth, reservation] = [
            key::PAYMENT.key(),
            key::BILLING.key(),
            key::BANDWIDTH.key(),
            key::RESERVATION.key(),
        ];
        for (is_wrong, text) in [
            (
                is_prepaid && eip.billing.is_some(),
                format!("annotation {billing} is not possible with {payment}: Prepaid"),
            ),
            (
                is_prepaid && eip.reservation.is_none() && !annotations.is_set(&key::RESERVATION),
                format!("annotation {reservation} is required with {payment}: Prepaid"),
            ),
            (
                eip.bandwidth.is_some_and(|bandwidth| bandwidth > most),
                format!("annotation {bandwidth}: the most for this EIP is {most}"),
            ),
        ] {
            if is_wrong {
                annotations.mistake(text);
            }
        }
        eip
    }

    pub(super) fn is_prepaid(&self) -> bool {
        self.payment.as_deref() == Some("Prepaid")
    }

    /// Returns the most bandwidth in Mbit/s, which is the default.
    pub(super) fn most_bandwidth(&self) -> u32 {
        if self.is_prepaid() || self.billing.as_deref() == Some("ByBandwidth") {
            200
        } else {
            1000
        }
    }
}
