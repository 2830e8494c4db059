//! The Service, parsed into settings of a load balancer.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Result, Service};
use ipnet::{IpNet, Ipv6Net};
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::HealthCheck;
use provider_kit::load_balancers::{Attributes, Resource, ServicePort, filled, service_ports};
use provider_kit::node_selector::NodeSelector;
use provider_kit::source_ranges::{configured_source_ranges, source_ranges};
use serde_json::Value;

use super::model::{
    Certificate, ClassicListener, FIRST_OF_GROUP, INSTANCES, Listener, POLICY, PROXY, Settings,
    TargetGroup,
};
use super::names::RESERVED_TAGS;
use super::{CLASSIC, NETWORK};
use crate::annotations::{self as key, BalancerKind, PREFIX};
use crate::config::Config;

const TRAFFIC: &str = "traffic-port";

/// A Service, parsed into the settings of its load balancer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(super) kind: BalancerKind,
    pub(super) settings: Settings,
    pub(super) is_internal: bool,
    /// If set, clients may use IPv6.
    pub(super) has_ipv6: bool,
    pub(super) subnets: Vec<String>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) selector: NodeSelector,
    /// Security groups of the user, which replace the managed one.
    pub(super) groups: Vec<String>,
    pub(super) extra_groups: Vec<String>,
    /// Clients; none if the Service does not say that rightly.
    pub(super) ranges: BTreeSet<IpNet>,
    pub(super) ports: Vec<Port>,
    /// Target groups by the names of their pools; of a classic load balancer, one that has only a health check.
    pub(super) pools: BTreeMap<String, TargetGroup>,
    /// Attributes of target groups, and whether the Service states them.
    pub(super) group_attributes: (BTreeMap<String, String>, bool),
    /// Warnings about annotations, for events.
    pub(super) warnings: Vec<String>,
}

/// A listener with its place.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) number: u16,
    /// `TCP`, `UDP` or `TCP_UDP`.
    pub(super) transport: &'static str,
    pub(super) node_port: u16,
    /// Protocol towards targets of a network load balancer.
    target: &'static str,
    /// Name of the pool.
    pub(super) pool: String,
    pub(super) listener: Attributes,
}

/// Returns the kind of load balancer that a Service asks for.
pub(super) fn kind(service: &Service) -> &'static str {
    Spec {
        kind: Annotations::of(service).get(&key::TYPE).unwrap_or_default(),
        ..Spec::default()
    }
    .kind()
}

impl Spec {
    pub(super) fn kind(&self) -> &'static str {
        if self.kind == BalancerKind::Network {
            NETWORK
        } else {
            CLASSIC
        }
    }

    /// Parses a Service, and notes all mistakes that can be found without a request.
    pub(super) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let kind = annotations.get(&key::TYPE).unwrap_or_default();
        if kind == BalancerKind::Elsewhere {
            return annotations.parsed(Self {
                kind,
                ..Self::default()
            });
        }
        let is_network = kind == BalancerKind::Network;
        let families = service
            .spec
            .as_ref()
            .and_then(|spec| spec.ip_families.as_deref())
            .unwrap_or_default();
        let has_ipv6 = is_network && families.iter().any(|family| family == "IPv6");
        let stated = annotations.get(&key::TARGET_GROUP_ATTRIBUTES);
        let has_attributes = stated.is_some();
        let mut attributes: BTreeMap<_, _> = FIRST_OF_GROUP
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        attributes.extend(stated.unwrap_or_default());
        let ports = ports(service, is_network, &mut annotations);
        let health = health(service, config, is_network, ports.first(), &mut annotations);
        let family = Some("ipv6".to_owned())
            .filter(|_| families.first().is_some_and(|families| families == "IPv6"));
        let group = |port: &Port| TargetGroup {
            protocol: port.target.to_owned(),
            port: port.node_port,
            ip_address_type: family.clone(),
            ..health.clone()
        };
        let pools = ports
            .iter()
            .map(|port| (port.pool.clone(), group(port)))
            .collect();
        let is_internal = annotations.get(&key::INTERNAL_SCHEME).unwrap_or_default();
        let mut tags = annotations.get(&key::TAGS_OF_USER).unwrap_or_default();
        tags.retain(|tag, _| RESERVED_TAGS.allows(tag, &key::TAGS_OF_USER, &mut annotations));
        let spec = Self {
            kind,
            is_internal,
            has_ipv6,
            settings: settings(is_network, is_internal, has_ipv6, &mut annotations),
            subnets: annotations.get(&key::SUBNETS).unwrap_or_default(),
            tags,
            selector: annotations.get(&key::TARGET_LABELS).unwrap_or_default(),
            groups: annotations.get(&key::SECURITY_GROUPS).unwrap_or_default(),
            extra_groups: annotations.get(&key::EXTRA_GROUPS).unwrap_or_default(),
            ranges: ranges(service, has_ipv6, &mut annotations),
            ports,
            pools,
            group_attributes: (attributes, has_attributes),
            warnings: Vec::new(),
        };
        spec.check(service, families, &mut annotations);
        spec.check_groups(config, &mut annotations);
        if is_network && !config.has_nlb_groups && !spec.groups.is_empty() {
            let annotation = key::SECURITY_GROUPS.key();
            annotations.warning(format!(
                "annotation {annotation} has no effect on a network load balancer without NLBSecurityGroupMode=Managed"
            ));
        }
        warn_of_other_kind(is_network, &mut annotations);
        annotations.unknown(PREFIX, key::ALL);
        let spec = Self {
            warnings: annotations.warnings().to_vec(),
            ..spec
        };
        let follows = !spec.selector.selects_all();
        annotations.parsed(spec).targets_follow_labels(follows)
    }

    /// Notes security groups that the configuration does not let Services use.
    fn check_groups(&self, config: &Config, annotations: &mut Annotations<'_>) {
        let Some(allowed) = &config.allowed_groups else {
            return;
        };
        for (annotation, groups) in [
            (&key::SECURITY_GROUPS, &self.groups),
            (&key::EXTRA_GROUPS, &self.extra_groups),
        ] {
            for group in groups.iter().filter(|group| !allowed.contains(group)) {
                annotations.mistake(format!(
                    "annotation {}: {group:?} is not one of the security groups that ServiceSecurityGroups allows ({})",
                    annotation.key(),
                    allowed.join(", ")
                ));
            }
        }
    }

    /// Notes what contradicts itself, or what no load balancer of this kind can do.
    fn check(&self, service: &Service, families: &[String], annotations: &mut Annotations<'_>) {
        let is_network = self.kind() == NETWORK;
        let spec = service.spec.clone().unwrap_or_default();
        let [eips, addresses, attributes, kind] = [
            key::EIP_ALLOCATIONS.key(),
            key::PRIVATE_ADDRESSES.key(),
            key::TARGET_GROUP_ATTRIBUTES.key(),
            key::TYPE.key(),
        ];
        let [extra, groups, subnets] = [
            key::EXTRA_GROUPS.key(),
            key::SECURITY_GROUPS.key(),
            key::SUBNETS.key(),
        ];
        let without_ip = self
            .group_attributes
            .0
            .get("preserve_client_ip.enabled")
            .is_some_and(|text| text == "false");
        let wrong = [
            (
                spec.session_affinity.is_some_and(|session_affinity| session_affinity != "None"),
                "sessionAffinity: load balancers of AWS have none by client address; set it to None".to_owned(),
            ),
            (
                spec.load_balancer_ip.is_some_and(|ip| !ip.is_empty()),
                format!("loadBalancerIP cannot be set; use annotation {eips} or {addresses}"),
            ),
            (
                spec.ports.is_none_or(|ports| ports.is_empty()),
                "the Service has no ports; a load balancer needs one at least".to_owned(),
            ),
            (
                !is_network && families == ["IPv6"],
                format!("ipFamilies: a classic load balancer has no IPv6; set annotation {kind}: nlb"),
            ),
            (
                is_network && annotations.is_set(&key::EXTRA_GROUPS),
                format!("annotation {extra} is for classic load balancers; use {groups}"),
            ),
            (
                !is_network && self.group_attributes.1,
                format!("annotation {attributes} is for network load balancers; remove it, or set type: nlb"),
            ),
            (
                without_ip && self.ports.iter().any(|port| port.transport != "TCP"),
                format!("annotation {attributes}: preserve_client_ip.enabled=false is not possible with UDP"),
            ),
            (
                self.subnets.is_empty() && annotations.is_set(&key::SUBNETS),
                format!("annotation {subnets}: the list is empty; name a subnet, or remove it"),
            ),
        ];
        wrong
            .into_iter()
            .filter(|(is_wrong, _)| *is_wrong)
            .for_each(|(_, text)| annotations.mistake(text));
        if !self.subnets.is_empty()
            && let Err(error) = self.check_addresses(&self.subnets)
        {
            annotations.mistake(error.to_string());
        }
    }

    /// Returns the subnets in order of their IDs, and the addresses in the same order. The addresses of the annotation are in the
    /// order of the subnets.
    pub(super) fn by_subnet(&self, ids: &[String]) -> (Vec<String>, Vec<(&'static str, Value)>) {
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by(|one, other| ids[*one].cmp(&ids[*other]));
        let sorted = |field: &'static str| {
            let addresses = self.settings.0[field].as_array()?;
            Some((
                field,
                order
                    .iter()
                    .filter_map(|at| addresses.get(*at))
                    .cloned()
                    .collect(),
            ))
        };
        let addresses = ["EipAllocations", "PrivateAddresses"]
            .into_iter()
            .filter_map(sorted)
            .collect();
        (order.iter().map(|at| ids[*at].clone()).collect(), addresses)
    }

    /// Checks that there is one address for each subnet.
    ///
    /// # Errors
    /// *Invalid*, naming annotation and subnets.
    pub(super) fn check_addresses(&self, subnets: &[String]) -> Result<()> {
        for (field, annotation) in [
            ("EipAllocations", key::EIP_ALLOCATIONS.key()),
            ("PrivateAddresses", key::PRIVATE_ADDRESSES.key()),
        ] {
            if let Some(count) = self.settings.0[field]
                .as_array()
                .map(Vec::len)
                .filter(|count| *count != subnets.len())
            {
                let subnets = subnets.join(", ");
                return Err(Error::invalid(format!(
                    "annotation {annotation}: {count} addresses; name one for each of the subnets {subnets}"
                )));
            }
        }
        Ok(())
    }
}

/// Warns of annotations that have no effect on a load balancer of this kind.
fn warn_of_other_kind(is_network: bool, annotations: &mut Annotations<'_>) {
    let classic = [
        (
            annotations.is_set(&key::PROXY_PROTOCOL),
            key::PROXY_PROTOCOL.key(),
        ),
        (annotations.is_set(&key::DRAINING), key::DRAINING.key()),
        (
            annotations.is_set(&key::DRAINING_TIMEOUT),
            key::DRAINING_TIMEOUT.key(),
        ),
        (
            annotations.is_set(&key::IDLE_TIMEOUT),
            key::IDLE_TIMEOUT.key(),
        ),
        (
            annotations.is_set(&key::ACCESS_LOG_INTERVAL),
            key::ACCESS_LOG_INTERVAL.key(),
        ),
    ];
    let network = [
        (
            annotations.is_set(&key::EIP_ALLOCATIONS),
            key::EIP_ALLOCATIONS.key(),
        ),
        (
            annotations.is_set(&key::PRIVATE_ADDRESSES),
            key::PRIVATE_ADDRESSES.key(),
        ),
    ];
    let (others, kind) = if is_network {
        (&classic[..], "network")
    } else {
        (&network[..], "classic")
    };
    let attributes = key::TARGET_GROUP_ATTRIBUTES.key();
    for (_, key) in others.iter().filter(|(is_set, _)| *is_set) {
        let instead = match *key == key::PROXY_PROTOCOL.key() {
            true => format!("; use annotation {attributes}: proxy_protocol_v2.enabled=true"),
            false => String::new(),
        };
        annotations.warning(format!(
            "annotation {key} has no effect on a {kind} load balancer{instead}"
        ));
    }
}

fn settings(
    is_network: bool,
    is_internal: bool,
    has_ipv6: bool,
    annotations: &mut Annotations<'_>,
) -> Settings {
    let Settings(mut all) = filled(annotations);
    if let Some(fields) = all.as_object_mut() {
        let is_of_network = |name: &str| name.starts_with(char::is_lowercase);
        fields.retain(|name, value| {
            if value.is_object() {
                is_of_network(name) == is_network
            } else {
                is_network
            }
        });
    }
    if let Some(log) = all
        .pointer_mut("/access_logs/s3")
        .and_then(Value::as_object_mut)
        && log.get("enabled").is_some_and(|object| object != "true")
    {
        log.retain(|name, _| name == "enabled");
    }
    all["Scheme"] = if is_internal {
        "internal"
    } else {
        "internet-facing"
    }
    .into();
    if is_network {
        all["IpAddressType"] = if has_ipv6 { "dualstack" } else { "ipv4" }.into();
    }
    Settings(all)
}

fn ranges(service: &Service, has_ipv6: bool, annotations: &mut Annotations<'_>) -> BTreeSet<IpNet> {
    let ranges = source_ranges(service).and_then(|mut ranges| {
        let is_open = configured_source_ranges(service)?.is_empty();
        ranges.extend((has_ipv6 && is_open).then(|| IpNet::from(Ipv6Net::default())));
        Ok(ranges)
    });
    ranges
        .map_err(|error| annotations.mistake(error.to_string()))
        .unwrap_or_default()
}

fn ports(service: &Service, is_network: bool, annotations: &mut Annotations<'_>) -> Vec<Port> {
    let accepted: &[&'static str] = if is_network {
        &["TCP", "UDP"]
    } else {
        &["TCP"]
    };
    let all = service_ports(service, accepted)
        .map_err(|error| annotations.mistake(error.to_string()))
        .unwrap_or_default();
    let named = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let certificate = annotations
        .get(&key::CERTIFICATE)
        .filter(|arn| !arn.is_empty());
    let tls = annotations
        .get(&key::TLS_PORTS)
        .filter(|ports| !ports.is_empty())
        .unwrap_or_else(|| vec!["*".to_owned()]);
    let policy = annotations
        .get(&key::TLS_POLICY)
        .filter(|policy| !policy.is_empty());
    let backend = annotations.get(&key::BACKEND_PROTOCOL).unwrap_or_default();
    let has_proxy = annotations.get(&key::PROXY_PROTOCOL).unwrap_or_default();
    let is_backend = matches!(&*backend, "" | "http" | "https" | "ssl" | "tcp");
    if certificate.is_some() && !is_network && !is_backend {
        let annotation = key::BACKEND_PROTOCOL.key();
        annotations.mistake(format!(
            "annotation {annotation}: {backend:?} is not one of http, https, ssl, tcp"
        ));
    }
    let mut ports: Vec<Port> = Vec::new();
    for ServicePort {
        number,
        protocol,
        node_port,
    } in all
    {
        let is_this_text = |text: &String| {
            let name = named
                .iter()
                .find(|entry| entry.port == i32::from(number))
                .and_then(|entry| entry.name.as_deref());
            text == "*"
                || *text == number.to_string()
                || name.is_some_and(|name| text.eq_ignore_ascii_case(name))
        };
        let certificate = certificate
            .clone()
            .filter(|_| protocol == "TCP" && tls.iter().any(is_this_text));
        let is_tls = certificate.is_some();
        if let Some(other) = ports.iter_mut().find(|port| port.number == number) {
            if other.node_port != node_port
                || other.listener.text("Protocol") == Some("TLS")
                || is_tls
            {
                annotations.mistake(format!(
                    "port {number}: TCP and UDP share a port only with the same nodePort and without certificate"
                ));
            }
            (other.transport, other.target, other.pool) =
                ("TCP_UDP", "TCP_UDP", format!("{node_port}/TCP_UDP"));
            other.listener = std::mem::take(&mut other.listener).set("Protocol", "TCP_UDP");
            continue;
        }
        let policy = policy.clone().filter(|_| is_tls);
        let target = if is_tls && backend == "ssl" {
            "TLS"
        } else {
            protocol
        };
        let (pool, listener) = if is_network {
            let certificates = certificate
                .map(|certificate_arn| Certificate { certificate_arn })
                .into_iter()
                .collect();
            let protocol = if is_tls { "TLS" } else { protocol }.to_owned();
            let listener = Listener {
                protocol,
                certificates,
                ssl_policy: policy,
                ..Listener::default()
            };
            (
                format!("{node_port}/{target}"),
                desired(&listener, annotations),
            )
        } else {
            let listener = desired(
                &classic_listener(certificate, &backend, node_port),
                annotations,
            )
            .set(PROXY, has_proxy);
            let listener = policy
                .into_iter()
                .fold(listener, |all, policy| all.set(POLICY, policy));
            (INSTANCES.to_owned(), listener)
        };
        ports.push(Port {
            number,
            transport: protocol,
            node_port,
            target,
            pool,
            listener,
        });
    }
    ports
}

fn desired(resource: &impl Resource, annotations: &mut Annotations<'_>) -> Attributes {
    Attributes::desired(resource)
        .map_err(|error| annotations.mistake(error.to_string()))
        .unwrap_or_default()
}

fn classic_listener(
    certificate: Option<String>,
    backend: &str,
    instance_port: u16,
) -> ClassicListener {
    let (protocol, instance) = match (&certificate, backend) {
        (None, "http") => ("HTTP", "HTTP"),
        (None, _) => ("TCP", "TCP"),
        (Some(_), "https") => ("HTTPS", "HTTPS"),
        (Some(_), "http") => ("HTTPS", "HTTP"),
        (Some(_), "ssl") => ("SSL", "SSL"),
        (Some(_), _) => ("SSL", "TCP"),
    };
    let [protocol, instance_protocol] = [protocol, instance].map(str::to_owned);
    ClassicListener {
        protocol,
        instance_protocol,
        instance_port,
        certificate,
        ..ClassicListener::default()
    }
}

/// Returns the health check, in the form of target groups.
fn health(
    service: &Service,
    config: &Config,
    is_network: bool,
    first: Option<&Port>,
    annotations: &mut Annotations<'_>,
) -> TargetGroup {
    let local = HealthCheck::of(service);
    let shared = config.shared_probe.as_ref().filter(|_| local.is_none());
    let backend = annotations.get(&key::BACKEND_PROTOCOL).unwrap_or_default();
    let plain = if !is_network && matches!(&*backend, "https" | "ssl") {
        "SSL"
    } else {
        "TCP"
    };
    let (mut protocol, mut port, mut path) = match (&local, shared) {
        (Some(local), _) => (
            "HTTP".to_owned(),
            local.port.to_string(),
            local.path.to_owned(),
        ),
        (None, Some((port, path))) => ("HTTP".to_owned(), port.to_string(), path.clone()),
        (None, None) => (plain.to_owned(), TRAFFIC.to_owned(), "/".to_owned()),
    };
    if !is_network || shared.is_none() {
        protocol = annotations.get(&key::CHECK_PROTOCOL).unwrap_or(protocol);
        port = annotations.get(&key::CHECK_PORT).unwrap_or(port);
        path = annotations
            .get(&key::CHECK_PATH)
            .filter(|path| !path.is_empty())
            .unwrap_or(path);
    }
    if is_network && protocol == "SSL" {
        annotations.mistake(format!(
            "annotation {}: SSL is not one of TCP, HTTP, HTTPS",
            key::CHECK_PROTOCOL.key()
        ));
    }
    if !is_network && port == TRAFFIC {
        port = first.map_or(0, |port| port.node_port).to_string();
    }
    let (interval, timeout, healthy, unhealthy) = match (is_network, local.is_some()) {
        (false, _) => (10, Some(5), 2, 6),
        (true, true) => (10, None, 2, 2),
        (true, false) => (30, None, 3, 3),
    };
    TargetGroup {
        health_check_path: protocol.starts_with("HTTP").then_some(path),
        health_check_protocol: protocol,
        health_check_port: port,
        health_check_interval_seconds: annotations.get(&key::CHECK_INTERVAL).unwrap_or(interval),
        health_check_timeout_seconds: annotations.get(&key::CHECK_TIMEOUT).or(timeout),
        healthy_threshold_count: annotations.get(&key::CHECK_HEALTHY).unwrap_or(healthy),
        unhealthy_threshold_count: annotations.get(&key::CHECK_UNHEALTHY).unwrap_or(unhealthy),
        ..TargetGroup::default()
    }
}

#[cfg(test)]
mod tests;
