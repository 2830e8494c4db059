//! The Service, parsed into settings of a load balancer.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::Service;
use ipnet::{IpNet, Ipv6Net};
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::HealthCheck;
use provider_kit::load_balancers::{ServicePort, filled, service_ports};
use provider_kit::node_selector::NodeSelector;
use provider_kit::source_ranges::{configured_source_ranges, source_ranges};

use super::model::{Health, INSTANCES, Listener, Pool, Settings};
use super::{CLASSIC, NETWORK};
use crate::annotations::{self as key, BalancerKind, GroupAttributes, PREFIX};
use crate::config::Config;

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
    pub(super) pools: BTreeMap<String, Pool>,
    /// If set, the attributes of target groups are stated.
    pub(super) has_attributes: bool,
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
    pub(super) listener: Listener,
}

/// Returns the kind of load balancer that a Service asks for.
pub(super) fn kind(service: &Service) -> &'static str {
    match Annotations::of(service).get(&key::TYPE).unwrap_or_default() {
        BalancerKind::Network => NETWORK,
        _ => CLASSIC,
    }
}

impl Spec {
    /// Parses a Service, and notes all mistakes that can be found without a request.
    pub(super) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let kind = annotations.get(&key::TYPE).unwrap_or_default();
        if kind == BalancerKind::Elsewhere {
            return annotations.parsed(Self { kind, ..Self::default() });
        }
        let is_network = kind == BalancerKind::Network;
        check_service(service, &mut annotations);
        let families = service.spec.as_ref().and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
        let has_ipv6 = is_network && families.iter().any(|family| family == "IPv6");
        if !is_network && families == ["IPv6"] {
            let annotation = key::TYPE.key();
            annotations
                .mistake(format!("ipFamilies: a classic load balancer has no IPv6; set annotation {annotation}: nlb"));
        }
        let attributes = attributes(is_network, &mut annotations);
        let ports = ports(service, is_network, &mut annotations);
        if attributes.client_ip.as_deref() == Some("false") && ports.iter().any(|port| port.transport != "TCP") {
            let annotation = key::TARGET_GROUP_ATTRIBUTES.key();
            annotations
                .mistake(format!("annotation {annotation}: preserve_client_ip.enabled=false is not possible with UDP"));
        }
        let health = health(service, config, is_network, ports.first(), &mut annotations);
        let family = (families.first().map(String::as_str) == Some("IPv6")).then(|| "ipv6".to_owned());
        let pools = ports.iter().map(|port| {
            let pool = Pool {
                protocol: port.target.to_owned(),
                port: port.node_port,
                family: family.clone().filter(|_| is_network),
                health: health.clone(),
                client_ip: attributes.client_ip.clone(),
                proxy_protocol: attributes.proxy_protocol.clone(),
                ..Pool::default()
            };
            (port.pool.clone(), if is_network { pool } else { Pool { health: health.clone(), ..Pool::default() } })
        });
        let pools = pools.collect();
        let is_internal = annotations.get(&key::INTERNAL_SCHEME).unwrap_or_default();
        let subnets = subnets(is_network, &mut annotations);
        let groups = annotations.get(&key::SECURITY_GROUPS).unwrap_or_default();
        if is_network && !config.has_nlb_groups && !groups.is_empty() {
            annotations.warning(format!(
                "annotation {} has no effect on a network load balancer without NLBSecurityGroupMode=Managed",
                key::SECURITY_GROUPS.key()
            ));
        }
        let spec = Self {
            kind,
            is_internal,
            has_ipv6,
            settings: settings(is_network, is_internal, has_ipv6, &mut annotations),
            subnets,
            tags: annotations.get(&key::TAGS_OF_USER).unwrap_or_default(),
            selector: annotations.get(&key::TARGET_LABELS).unwrap_or_default(),
            groups,
            extra_groups: annotations.get(&key::EXTRA_GROUPS).unwrap_or_default(),
            ranges: ranges(service, has_ipv6, &mut annotations),
            ports,
            pools,
            has_attributes: annotations.is_set(&key::TARGET_GROUP_ATTRIBUTES),
        };
        annotations.unknown(PREFIX, key::ALL);
        let follows = !spec.selector.selects_all();
        annotations.parsed(spec).targets_follow_labels(follows)
    }
}

fn check_service(service: &Service, annotations: &mut Annotations<'_>) {
    let Some(spec) = &service.spec else { return };
    if spec.session_affinity.as_deref().is_some_and(|it| it != "None") {
        annotations.mistake("sessionAffinity: load balancers of AWS have none by client address; set it to None");
    }
    if spec.load_balancer_ip.as_deref().is_some_and(|ip| !ip.is_empty()) {
        let [network, addresses] = [key::EIP_ALLOCATIONS.key(), key::PRIVATE_ADDRESSES.key()];
        annotations.mistake(format!("loadBalancerIP cannot be set; use annotation {network} or {addresses}"));
    }
    if spec.ports.as_ref().is_none_or(Vec::is_empty) {
        annotations.mistake("the Service has no ports; a load balancer needs one at least");
    }
}

fn attributes(is_network: bool, annotations: &mut Annotations<'_>) -> GroupAttributes {
    if is_network && annotations.is_set(&key::EXTRA_GROUPS) {
        let [extra, groups] = [key::EXTRA_GROUPS.key(), key::SECURITY_GROUPS.key()];
        annotations.mistake(format!("annotation {extra} is for classic load balancers; use {groups}"));
    }
    if !is_network && annotations.is_set(&key::TARGET_GROUP_ATTRIBUTES) {
        let annotation = key::TARGET_GROUP_ATTRIBUTES.key();
        annotations
            .mistake(format!("annotation {annotation} is for network load balancers; remove it, or set type: nlb"));
    }
    let stated = annotations.get(&key::TARGET_GROUP_ATTRIBUTES).unwrap_or_default();
    let or = |stated: Option<String>, default: &str| stated.or_else(|| Some(default.to_owned()));
    GroupAttributes { client_ip: or(stated.client_ip, "true"), proxy_protocol: or(stated.proxy_protocol, "false") }
}

fn settings(is_network: bool, is_internal: bool, has_ipv6: bool, annotations: &mut Annotations<'_>) -> Settings {
    let all: Settings = filled(annotations);
    let (log, network) = (all.access_log.as_deref() == Some("true"), is_network);
    let scheme = Some(if is_internal { "internal" } else { "internet-facing" }.to_owned());
    let ip_address_type = network.then(|| if has_ipv6 { "dualstack" } else { "ipv4" }.to_owned());
    Settings {
        scheme,
        ip_address_type,
        access_log_interval: all.access_log_interval.filter(|_| !network),
        access_log_bucket: all.access_log_bucket.filter(|_| log || !network),
        access_log_prefix: all.access_log_prefix.filter(|_| log || !network),
        draining: all.draining.filter(|_| !network),
        draining_timeout: all.draining_timeout.filter(|_| !network),
        idle_timeout: all.idle_timeout.filter(|_| !network),
        eip_allocations: all.eip_allocations.filter(|_| network),
        private_addresses: all.private_addresses.filter(|_| network),
        ..all
    }
}

fn subnets(is_network: bool, annotations: &mut Annotations<'_>) -> Vec<String> {
    let subnets = annotations.get(&key::SUBNETS);
    if subnets.as_ref().is_some_and(Vec::is_empty) {
        annotations
            .mistake(format!("annotation {}: the list is empty; name a subnet, or remove it", key::SUBNETS.key()));
    }
    for addresses in [&key::EIP_ALLOCATIONS, &key::PRIVATE_ADDRESSES] {
        let (count, subnets) = (annotations.get(addresses).map(|it| it.len()), subnets.as_ref().map(Vec::len));
        if let (Some(count), Some(subnets)) = (count, subnets)
            && is_network
            && count != subnets
        {
            annotations.mistake(format!(
                "annotation {}: {count} addresses for {subnets} subnets; name one for each",
                addresses.key()
            ));
        }
    }
    subnets.unwrap_or_default()
}

fn ranges(service: &Service, has_ipv6: bool, annotations: &mut Annotations<'_>) -> BTreeSet<IpNet> {
    match (source_ranges(service), configured_source_ranges(service)) {
        (Ok(mut ranges), Ok(stated)) => {
            ranges.extend((has_ipv6 && stated.is_empty()).then(|| IpNet::from(Ipv6Net::default())));
            ranges
        }
        (Err(error), _) | (_, Err(error)) => {
            annotations.mistake(error.to_string());
            BTreeSet::new()
        }
    }
}

fn ports(service: &Service, is_network: bool, annotations: &mut Annotations<'_>) -> Vec<Port> {
    let accepted: &[&'static str] = if is_network { &["TCP", "UDP"] } else { &["TCP"] };
    let all =
        service_ports(service, accepted).map_err(|error| annotations.mistake(error.to_string())).unwrap_or_default();
    let named = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let certificate = annotations.get(&key::CERTIFICATE).filter(|arn| !arn.is_empty());
    let tls =
        annotations.get(&key::TLS_PORTS).filter(|ports| !ports.is_empty()).unwrap_or_else(|| vec!["*".to_owned()]);
    let policy = annotations.get(&key::TLS_POLICY).filter(|policy| !policy.is_empty());
    let backend = annotations.get(&key::BACKEND_PROTOCOL).unwrap_or_default();
    let has_proxy = annotations.get(&key::PROXY_PROTOCOL).unwrap_or_default();
    let is_backend = matches!(&*backend, "" | "http" | "https" | "ssl" | "tcp");
    if certificate.is_some() && !is_network && !is_backend {
        let annotation = key::BACKEND_PROTOCOL.key();
        annotations.mistake(format!("annotation {annotation}: {backend:?} is not one of http, https, ssl, tcp"));
    }
    let mut ports: Vec<Port> = Vec::new();
    for ServicePort { number, protocol, node_port } in all {
        let is_it = |it: &str| {
            let name = named.iter().find(|it| it.port == i32::from(number)).and_then(|it| it.name.as_deref());
            it == "*" || it == number.to_string() || name.is_some_and(|name| it.eq_ignore_ascii_case(name))
        };
        let certificate = certificate.clone().filter(|_| protocol == "TCP" && tls.iter().any(|it| is_it(it)));
        let same = ports.iter_mut().find(|it| it.number == number);
        if let Some(other) = same {
            if other.node_port != node_port || other.listener.certificate.is_some() || certificate.is_some() {
                annotations.mistake(format!(
                    "port {number}: TCP and UDP share a port only with the same nodePort and without certificate"
                ));
            }
            (other.transport, other.target, other.pool) = ("TCP_UDP", "TCP_UDP", format!("{node_port}/TCP_UDP"));
            other.listener.protocol = "TCP_UDP".to_owned();
            continue;
        }
        let target = if certificate.is_some() && backend == "ssl" { "TLS" } else { protocol };
        let listener = if is_network {
            let (is_tls, policy) = (certificate.is_some(), policy.clone().filter(|_| certificate.is_some()));
            let protocol = if is_tls { "TLS" } else { protocol }.to_owned();
            Listener { protocol, certificate, policy, ..Listener::default() }
        } else {
            classic_listener(certificate, policy.clone(), &backend, node_port, has_proxy)
        };
        let pool = if is_network { format!("{node_port}/{target}") } else { INSTANCES.to_owned() };
        ports.push(Port { number, transport: protocol, node_port, target, pool, listener });
    }
    ports
}

fn classic_listener(
    certificate: Option<String>,
    policy: Option<String>,
    backend: &str,
    node_port: u16,
    has_proxy: bool,
) -> Listener {
    let (protocol, instance) = match (&certificate, backend) {
        (None, "http") => ("HTTP", "HTTP"),
        (None, _) => ("TCP", "TCP"),
        (Some(_), "https") => ("HTTPS", "HTTPS"),
        (Some(_), "http") => ("HTTPS", "HTTP"),
        (Some(_), "ssl") => ("SSL", "SSL"),
        (Some(_), _) => ("SSL", "TCP"),
    };
    Listener {
        protocol: protocol.to_owned(),
        policy: policy.filter(|_| certificate.is_some()),
        certificate,
        instance_protocol: Some(instance.to_owned()),
        instance_port: Some(node_port),
        proxy_protocol: Some(has_proxy),
        id: None,
    }
}

fn health(
    service: &Service,
    config: &Config,
    is_network: bool,
    first: Option<&Port>,
    annotations: &mut Annotations<'_>,
) -> Health {
    const TRAFFIC: &str = "traffic-port";
    let local = HealthCheck::of(service);
    let shared = config.shared_probe.as_ref().filter(|_| local.is_none());
    let backend = annotations.get(&key::BACKEND_PROTOCOL).unwrap_or_default();
    let plain = if !is_network && matches!(&*backend, "https" | "ssl") { "SSL" } else { "TCP" };
    let (mut protocol, mut port, mut path) = match (&local, shared) {
        (Some(local), _) => ("HTTP".to_owned(), local.port.to_string(), local.path.to_owned()),
        (None, Some((port, path))) => ("HTTP".to_owned(), port.to_string(), path.clone()),
        (None, None) => (plain.to_owned(), TRAFFIC.to_owned(), "/".to_owned()),
    };
    if !is_network || shared.is_none() {
        protocol = annotations.get(&key::CHECK_PROTOCOL).unwrap_or(protocol);
        port = annotations.get(&key::CHECK_PORT).unwrap_or(port);
        path = annotations.get(&key::CHECK_PATH).filter(|path| !path.is_empty()).unwrap_or(path);
    }
    if is_network && protocol == "SSL" {
        annotations.mistake(format!("annotation {}: SSL is not one of TCP, HTTP, HTTPS", key::CHECK_PROTOCOL.key()));
    }
    if !is_network && port == TRAFFIC {
        port = first.map_or(0, |port| port.node_port).to_string();
    }
    let (interval, timeout, healthy, unhealthy) = match (is_network, local.is_some()) {
        (false, _) => (10, Some(5), 2, 6),
        (true, true) => (10, None, 2, 2),
        (true, false) => (30, None, 3, 3),
    };
    Health {
        path: protocol.starts_with("HTTP").then_some(path),
        protocol,
        port,
        interval: annotations.get(&key::CHECK_INTERVAL).unwrap_or(interval),
        timeout: annotations.get(&key::CHECK_TIMEOUT).or(timeout),
        healthy: annotations.get(&key::CHECK_HEALTHY).unwrap_or(healthy),
        unhealthy: annotations.get(&key::CHECK_UNHEALTHY).unwrap_or(unhealthy),
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::{ConfigFile, Setup};
    use serde_json::{Value, json};

    use super::*;

    /// A Service with these annotations, without their prefix, as `key=value` with blanks between them.
    fn parsed(annotations: &str, spec: &Value) -> Parsed<Spec> {
        let pairs = annotations.split_whitespace().map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (format!("{PREFIX}{key}"), Value::from(value))
        });
        let annotations: serde_json::Map<_, _> = pairs.collect();
        let mut service = json!({"metadata": {"uid": "u", "annotations": annotations}, "spec": {
            "type": "LoadBalancer", "ports": [{"name": "web", "port": 443, "nodePort": 8080}]}});
        service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let file = ConfigFile { path: "cloud.conf".to_owned(), text: "[Global]\nRegion = us-west-2\n".to_owned() };
        Spec::of(&serde_json::from_value(service).unwrap(), &Config::read(&Setup::of(file)).unwrap())
    }

    #[test]
    fn listeners_follow_certificate_and_backend_protocol() {
        let table = [
            ("", "TCP TCP -"),
            ("backend-protocol=http", "HTTP HTTP -"),
            ("backend-protocol=https", "TCP TCP -"),
            ("ssl-cert=arn", "SSL TCP arn"),
            ("ssl-cert=arn backend-protocol=https", "HTTPS HTTPS arn"),
            ("ssl-cert=arn backend-protocol=http", "HTTPS HTTP arn"),
            ("ssl-cert=arn backend-protocol=ssl", "SSL SSL arn"),
            ("ssl-cert=arn backend-protocol=tcp", "SSL TCP arn"),
            ("ssl-cert=arn ssl-ports=1234,5678", "TCP TCP -"),
            ("ssl-cert=arn ssl-ports=WEB", "SSL TCP arn"),
            ("type=nlb ssl-cert=arn", "TLS TCP arn"),
            ("type=nlb ssl-cert=arn backend-protocol=ssl", "TLS TLS arn"),
            ("type=nlb", "TCP TCP -"),
        ];
        for (annotations, expected) in table {
            let Spec { ports, .. } = parsed(annotations, &json!({})).spec;
            let Port { listener, target, .. } = &ports[0];
            let instance = listener.instance_protocol.as_deref().unwrap_or(target);
            let certificate = listener.certificate.as_deref().unwrap_or("-");
            assert_eq!(format!("{} {instance} {certificate}", listener.protocol), expected, "{annotations}");
        }
    }

    #[test]
    fn health_checks_follow_traffic_policy_and_annotations() {
        let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32213});
        let table = [
            ("", json!({}), "TCP:8080 10 5 2 6"),
            (
                "healthcheck-protocol=HTTPS healthcheck-path=/healthz healthcheck-port=31224",
                json!({}),
                "HTTPS:31224/healthz 10 5 2 6",
            ),
            (
                "healthcheck-protocol=ssl healthcheck-path=/healthz healthcheck-port=3124",
                json!({}),
                "SSL:3124 10 5 2 6",
            ),
            ("backend-protocol=ssl", json!({}), "SSL:8080 10 5 2 6"),
            ("", local.clone(), "HTTP:32213/healthz 10 5 2 6"),
            ("healthcheck-port=traffic-port", local.clone(), "HTTP:8080/healthz 10 5 2 6"),
            ("type=nlb", json!({}), "TCP:traffic-port 30 0 3 3"),
            ("type=nlb healthcheck-interval=23", json!({}), "TCP:traffic-port 23 0 3 3"),
            ("type=nlb", local, "HTTP:32213/healthz 10 0 2 2"),
        ];
        for (annotations, spec, expected) in table {
            let pools = parsed(annotations, &spec).spec.pools;
            let it = &pools.values().next().unwrap().health;
            let numbers = format!("{} {} {} {}", it.interval, it.timeout.unwrap_or_default(), it.healthy, it.unhealthy);
            assert_eq!(format!("{} {numbers}", it.target()), expected, "{annotations}");
        }
    }

    #[test]
    fn mistakes_are_found_without_a_request() {
        let udp = json!({"ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}]});
        let shared = json!({"ports": [{"port": 53, "nodePort": 1}, {"port": 53, "protocol": "UDP", "nodePort": 2}]});
        let table = [
            ("ssl-cert=arn backend-protocol=bacon", json!({}), "backend-protocol"),
            ("healthcheck-timeout=1", json!({}), "healthcheck-timeout"),
            ("healthcheck-timeout=3.3", json!({}), "healthcheck-timeout"),
            ("proxy-protocol=yes", json!({}), "proxy-protocol"),
            ("type=nlb extra-security-groups", json!({}), "extra-security-groups"),
            ("target-group-attributes=proxy_protocol_v2.enabled=true", json!({}), "target-group-attributes"),
            ("type=nlb target-group-attributes=Preserve_client_ip.enabled=true", json!({}), "target-group-attributes"),
            ("type=nlb target-group-attributes=preserve_client_ip.enabled=false", udp.clone(), "with UDP"),
            ("type=nlb subnets=a,b eip-allocations=e", json!({}), "one for each"),
            ("", udp, "\"UDP\" is not one of TCP"),
            ("type=nlb", shared, "the same nodePort"),
            ("", json!({"sessionAffinity": "ClientIP"}), "sessionAffinity"),
            ("", json!({"loadBalancerIP": "192.0.2.1"}), "loadBalancerIP"),
            ("", json!({"ports": []}), "no ports"),
            ("", json!({"ipFamilies": ["IPv6"]}), "has no IPv6"),
        ];
        for (annotations, spec, expected) in table {
            let error = parsed(annotations, &spec).check().unwrap_err().to_string();
            assert!(error.contains(expected), "{annotations}: {error}");
        }
        for fine in
            ["type=external ssl-cert=arn proxy-protocol=yes", "type=nlb-ip extra-security-groups", "proxy-protocol=*"]
        {
            parsed(fine, &json!({})).check().unwrap();
        }
    }
}
