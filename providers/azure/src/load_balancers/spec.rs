//! A Service, parsed once: the rules, probes, addresses and security rules that it asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cloud_provider::Service;
use ipnet::IpNet;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::HealthCheck;
use provider_kit::load_balancers::{Field, Resource, each_port};
use serde::{Deserialize, Serialize};

use crate::annotations as key;
use crate::annotations::{PREFIX, ProbeProtocol};
use crate::config::Config;

/// A health probe of Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Probe {
    pub(crate) protocol: String,
    pub(crate) port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_path: Option<String>,
    pub(crate) interval_in_seconds: u32,
    pub(crate) probe_threshold: u32,
    /// If set, all Services share the probe.
    #[serde(default, rename = "shared")]
    pub(crate) is_shared: bool,
}

/// A rule of the load balancer, with its probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) protocol: String,
    pub(crate) backend_port: u16,
    #[serde(rename = "enableFloatingIP")]
    pub(crate) floating: bool,
    pub(crate) idle_timeout_in_minutes: u32,
    pub(crate) load_distribution: String,
    pub(crate) enable_tcp_reset: bool,
    pub(crate) disable_outbound_snat: bool,
    pub(crate) probe: Option<Probe>,
}

impl Resource for Rule {
    const FIELDS: &'static [Field] = &[
        Field::update("protocol"),
        Field::update("backendPort"),
        Field::update("enableFloatingIP").setting(&key::NO_FLOATING_IP),
        Field::update("idleTimeoutInMinutes").setting(&key::IDLE_TIMEOUT),
        Field::update("loadDistribution"),
        Field::update("enableTcpReset").setting(&key::NO_TCP_RESET),
        Field::update("disableOutboundSnat"),
        Field::update("probe").null_removes(),
    ];
}

/// A port of the Service: transport protocol, port, and its rule.
#[derive(Clone, Debug)]
pub(crate) struct SpecPort {
    pub(crate) number: u16,
    pub(crate) transport: &'static str,
    pub(crate) rule: Rule,
}

/// Load balancer configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(crate) is_internal: bool,
    pub(crate) is_ipv6: bool,
    pub(crate) subnet: Option<String>,
    /// The subnet, if an annotation names it: it is part of the names of frontend and rules.
    pub(crate) named_subnet: Option<String>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) address_name: Option<String>,
    pub(crate) address_group: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) ip_tags: Option<BTreeMap<String, String>>,
    pub(crate) address_tags: BTreeMap<String, String>,
    pub(crate) dns_label: Option<String>,
    pub(crate) additional: Vec<IpAddr>,
    pub(crate) ports: Vec<SpecPort>,
    /// `None`: the security group is left alone.
    pub(crate) security: Option<BTreeSet<String>>,
    /// If set, security rules admit traffic to the Nodes instead of the load balancer's address.
    pub(crate) to_nodes: bool,
}

const SHARED_PORT: u16 = 10256;

impl Spec {
    /// Parses a Service's annotations and ports.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let text = |text: Option<String>| text.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        let spec = service.spec.as_ref();
        let families: Vec<&str> =
            spec.and_then(|it| it.ip_families.as_ref()).into_iter().flatten().map(String::as_str).collect();
        if families.len() > 1 {
            annotations
                .mistake("ipFamilies: Services with two families are not supported; set ipFamilyPolicy to SingleStack");
        }
        let has = |key: &str| {
            service.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(&format!("{PREFIX}{key}")))
        };
        for (key, why) in key::REFUSED {
            if has(key) {
                annotations.mistake(format!("annotation {PREFIX}{key}: {why}; remove it"));
            }
        }
        let is_ipv6 = families.first() == Some(&"IPv6");
        let is_internal = annotations.get(&key::INTERNAL) == Some(true);
        let named_subnet = text(annotations.get(&key::SUBNET)).filter(|_| is_internal);
        let by_family = if is_ipv6 { annotations.get(&key::IPV6) } else { annotations.get(&key::IPV4) };
        let of_spec = spec.and_then(|it| it.load_balancer_ip.as_deref()).filter(|it| !it.is_empty());
        let of_spec = of_spec.and_then(|it| {
            it.parse::<IpAddr>()
                .map_err(|_| annotations.mistake(format!("spec.loadBalancerIP: {it:?} is no IP address")))
                .ok()
        });
        let address = by_family.or(of_spec);
        if let Some(ip) = address.filter(|_| !is_internal)
            && !is_public(ip)
        {
            annotations.mistake(format!("address {ip}: a public load balancer needs a public address"));
        }
        let to_nodes = annotations.get(&key::NO_FLOATING_IP) == Some(true) || (is_internal && is_ipv6);
        let ports = ports(service, config, &mut annotations, is_internal, !to_nodes);
        let spec = Self {
            is_internal,
            is_ipv6,
            subnet: named_subnet.clone().or_else(|| text(Some(config.file.subnet_name.clone()))),
            named_subnet,
            address,
            address_name: text(annotations.get(&key::ADDRESS_NAME)),
            address_group: text(annotations.get(&key::GROUP)),
            prefix: text(annotations.get(&key::ADDRESS_PREFIX)),
            ip_tags: annotations.get(&key::IP_TAGS).map(|text| pairs(&text)),
            address_tags: annotations.get(&key::TAGS).unwrap_or_default(),
            dns_label: annotations.get(&key::DNS_LABEL).map(|it| it.trim().to_owned()),
            additional: annotations.get(&key::ADDITIONAL_ADDRESSES).unwrap_or_default(),
            security: security(service, config, &mut annotations, is_internal, is_ipv6, to_nodes),
            ports,
            to_nodes,
        };
        if spec.is_internal && spec.subnet.is_none() && !config.file.subscription_id.is_empty() {
            annotations.mistake(
                "an internal load balancer needs a subnet: set subnetName and vnetName in the cloud configuration",
            );
        }
        annotations.unknown(&format!("{PREFIX}azure-"), key::ALL);
        annotations.parsed(spec)
    }
}

/// Returns `true` for an address that Azure can give to a public load balancer.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_azure = ip.octets() == [168, 63, 129, 16];
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_unspecified()
                || is_shared
                || is_azure)
        }
        IpAddr::V6(ip) => {
            !(ip.is_loopback() || ip.is_multicast() || ip.is_unique_local() || ip.is_unicast_link_local())
        }
    }
}

/// Parses pairs; malformed ones are left out, and the last one of a key counts.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.trim(), value.trim()));
    pairs
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

/// The annotations of one port.
struct OfPort<'a>(&'a Service, u16);

impl<'a> OfPort<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        debug_assert!(key::OF_PORT.contains(&key), "{key}");
        let all = self.0.metadata.annotations.as_ref()?;
        all.get(&format!("{PREFIX}port_{}_{key}", self.1)).map(|it| it.trim()).filter(|it| !it.is_empty())
    }

    fn is_true(&self, key: &str) -> bool {
        self.text(key).is_some_and(|it| it.eq_ignore_ascii_case("true"))
    }

    fn number(&self, key: &str, least: u32, otherwise: Option<u32>, annotations: &mut Annotations<'_>) -> u32 {
        let otherwise = otherwise.unwrap_or(least);
        let Some(text) = self.text(key) else { return otherwise };
        text.parse().ok().filter(|number| *number >= least).unwrap_or_else(|| {
            let port = self.1;
            annotations.mistake(format!(
                "annotation {PREFIX}port_{port}_{key}: {text:?} is not a whole number from {least} on"
            ));
            otherwise
        })
    }
}

fn ports(
    service: &Service,
    config: &Config,
    annotations: &mut Annotations<'_>,
    is_internal: bool,
    floating: bool,
) -> Vec<SpecPort> {
    let all_ports = annotations.get(&key::ALL_PORTS) == Some(true) && is_internal;
    let is_sticky = service.spec.as_ref().and_then(|it| it.session_affinity.as_deref()) == Some("ClientIP");
    let idle = annotations.get(&key::IDLE_TIMEOUT).unwrap_or(4);
    let resets = annotations.get(&key::NO_TCP_RESET) != Some(true);
    let protocols: &[&'static str] = if is_internal { &["TCP", "UDP", "SCTP"] } else { &["TCP", "UDP"] };
    let mut found = Vec::new();
    for (index, port) in each_port(service, protocols).enumerate() {
        let port = match port {
            Ok(port) => port,
            Err(error) => {
                annotations.mistake(error.to_string());
                continue;
            }
        };
        let own = OfPort(service, port.number);
        if own.is_true("no_lb_rule") {
            continue;
        }
        if port.node_port == 0 && !floating {
            annotations.mistake(format!("port {}: has no node port; set allocateLoadBalancerNodePorts", port.number));
        }
        let is_tcp = port.protocol == "TCP";
        let probe = if own.is_true("no_probe_rule") || !is_tcp {
            None
        } else {
            Some(probe(service, config, annotations, index, port.node_port))
        };
        let protocol = match port.protocol {
            _ if all_ports => "All",
            "TCP" => "Tcp",
            "UDP" => "Udp",
            _ => "All",
        };
        found.push(SpecPort {
            number: port.number,
            transport: port.protocol,
            rule: Rule {
                protocol: protocol.to_owned(),
                // A rule for all protocols is one for all ports.
                backend_port: match (protocol, floating) {
                    ("All", _) => 0,
                    (_, true) => port.number,
                    (_, false) => port.node_port,
                },
                floating,
                idle_timeout_in_minutes: idle,
                load_distribution: if is_sticky { "SourceIP" } else { "Default" }.to_owned(),
                enable_tcp_reset: is_tcp && resets && protocol == "Tcp",
                disable_outbound_snat: config.file.disable_outbound_snat,
                probe,
            },
        });
    }
    if all_ports && let Some(mut first) = found.first().cloned() {
        first.rule.probe = found.iter().find_map(|it| it.rule.probe.clone());
        return vec![first];
    }
    found
}

fn probe(service: &Service, config: &Config, annotations: &mut Annotations<'_>, index: usize, node_port: u16) -> Probe {
    let spec = service.spec.as_ref();
    let port = spec.and_then(|it| it.ports.as_ref()).and_then(|it| it.get(index));
    let own = OfPort(service, port.and_then(|it| u16::try_from(it.port).ok()).unwrap_or_default());
    let interval = annotations.get(&key::PROBE_INTERVAL);
    let interval = own.number("health-probe_interval", 5, interval, annotations);
    let count = annotations.get(&key::PROBE_COUNT);
    let count = own.number("health-probe_num-of-probe", 2, count, annotations);
    if interval * count >= 120 {
        annotations.mistake(format!(
            "health probe of port {}: interval {interval} × {count} probes must be less than 120 seconds",
            own.1
        ));
    }
    let common = Probe { interval_in_seconds: interval, probe_threshold: count, ..Probe::default() };
    let http = |port: u16, path: &str| Probe {
        protocol: "Http".to_owned(),
        port,
        request_path: Some(path.to_owned()),
        interval_in_seconds: 5,
        probe_threshold: 2,
        ..Probe::default()
    };
    if let Some(check) = HealthCheck::of(service) {
        return http(u16::try_from(check.port).unwrap_or_default(), check.path);
    }
    if config.has_shared_probe {
        let path = Some(&*config.file.shared_probe_path).filter(|it| !it.is_empty()).unwrap_or("/healthz");
        return Probe { is_shared: true, ..http(config.file.shared_probe_port.unwrap_or(SHARED_PORT), path) };
    }
    let of_app = port.and_then(|it| it.app_protocol.as_deref());
    let of_service = annotations.get(&key::PROBE_PROTOCOL);
    let parsed = |text: &str| match text.to_ascii_lowercase().as_str() {
        "http" => ProbeProtocol::Http,
        "https" => ProbeProtocol::Https,
        _ => ProbeProtocol::Tcp,
    };
    let protocol = own.text("health-probe_protocol").or(of_app).map(parsed).or(of_service).unwrap_or_default();
    let path = own.text("health-probe_request-path").map(str::to_owned).or_else(|| annotations.get(&key::PROBE_PATH));
    Probe {
        protocol: protocol.text().to_owned(),
        port: probe_port(&own, annotations).unwrap_or(node_port),
        request_path: path.filter(|_| protocol != ProbeProtocol::Tcp),
        ..common
    }
}

/// Returns the port of a probe that an annotation names: a port of the Service, by name or number, or any number.
fn probe_port(own: &OfPort<'_>, annotations: &mut Annotations<'_>) -> Option<u16> {
    let text = own.text("health-probe_port")?;
    let ports = own.0.spec.as_ref().and_then(|it| it.ports.as_deref()).unwrap_or_default();
    let named = ports.iter().find(|it| it.name.as_deref() == Some(text) || it.port.to_string() == text);
    let port = match named {
        Some(port) => port.node_port.and_then(|it| u16::try_from(it).ok()),
        None => text.parse().ok().filter(|port| *port != 0),
    };
    if port.is_none() {
        annotations.mistake(format!("annotation {PREFIX}port_{}_health-probe_port: {text:?} is neither a port of the Service nor a number from 1 to 65535", own.1));
    }
    port
}

/// Returns the security rules of a Service, each as `<family> <protocol> <access> <sources> <ports>`; `None` if the
/// security group is left alone.
fn security(
    service: &Service,
    config: &Config,
    annotations: &mut Annotations<'_>,
    is_internal: bool,
    is_ipv6: bool,
    to_nodes: bool,
) -> Option<BTreeSet<String>> {
    let denies = annotations.get(&key::DENY_OTHERS) == Some(true);
    let tags = annotations.get(&key::ALLOWED_SERVICE_TAGS).unwrap_or_default();
    let ranges = annotations.get(&key::ALLOWED_RANGES).unwrap_or_default();
    let spec = service.spec.as_ref();
    let of_spec = spec.and_then(|it| it.load_balancer_source_ranges.clone()).unwrap_or_default();
    let annotation =
        service.metadata.annotations.as_ref().and_then(|it| it.get(&format!("{PREFIX}load-balancer-source-ranges")));
    let stated: Vec<&str> = ranges.split(',').chain(annotation.iter().flat_map(|it| it.split(','))).collect();
    let stated: Vec<&str> = stated.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect();
    if !of_spec.is_empty() && !stated.is_empty() {
        annotations.mistake(format!(
            "spec.loadBalancerSourceRanges and annotation {} are both set; remove one of them",
            key::ALLOWED_RANGES.key()
        ));
    }
    let mut networks: Vec<IpNet> = Vec::new();
    for text in of_spec.iter().map(String::as_str).chain(stated) {
        match text.trim().parse::<IpNet>() {
            Ok(network) if network.trunc() == network => networks.push(network),
            _ => annotations.mistake(format!("source range {text:?} is not a range such as 10.0.0.0/24")),
        }
    }
    if annotations.get(&key::NO_SECURITY_RULES) == Some(true) || config.file.security_group_name.is_empty() {
        return None;
    }
    let is_everything = |it: &IpNet| it.prefix_len() == 0;
    let nothing_stated = networks.is_empty() && tags.is_empty();
    let family = if is_ipv6 { "IPv6" } else { "IPv4" };
    let of_family = networks.iter().filter(|it| matches!(it, IpNet::V6(_)) == is_ipv6);
    let of_family: Vec<IpNet> = IpNet::aggregate(&of_family.copied().collect());
    let mut sources: Vec<Vec<String>> = tags.iter().map(|tag| vec![tag.clone()]).collect();
    let mut prefixes: Vec<String> = of_family.iter().map(ToString::to_string).collect();
    prefixes.sort();
    match (nothing_stated, is_internal) {
        (true, false) => sources.push(vec!["Internet".to_owned()]),
        (true, true) => {}
        // Traffic inside the virtual network is admitted anyway.
        (false, true) if of_family.iter().any(is_everything) => {}
        (false, _) if !prefixes.is_empty() => sources.push(prefixes),
        (false, _) => {}
    }
    let mut rules = BTreeSet::new();
    for (protocol, transport) in [("Tcp", "TCP"), ("Udp", "UDP"), ("*", "SCTP")] {
        let accepted = [transport];
        let ports = each_port(service, &accepted).filter_map(Result::ok);
        let ports = ports.filter(|it| !OfPort(service, it.number).is_true("no_lb_rule"));
        let mut numbers: Vec<String> =
            ports.map(|it| if to_nodes { it.node_port } else { it.number }.to_string()).collect();
        numbers.sort();
        if !numbers.is_empty() {
            rules.extend(
                sources.iter().map(|it| format!("{family} {protocol} Allow {} {}", it.join(","), numbers.join(","))),
            );
        }
    }
    if denies && !nothing_stated {
        rules.insert(format!("{family} * Deny * *"));
    }
    Some(rules)
}
