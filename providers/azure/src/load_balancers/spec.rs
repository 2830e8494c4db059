//! A Service, parsed once: the rules, probes, addresses and security rules that it asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cloud_provider::Service;
use ipnet::IpNet;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::load_balancers::{Field, ReservedTags, Resource, each_port};
use provider_kit::reserved_addresses::special;
use serde::{Deserialize, Serialize};

use super::link::{self, Link};
use super::probes::{OfPort, Probe, probe};
use crate::annotations as key;
use crate::annotations::PREFIX;
use crate::config::Config;

/// Keys of tags by which this program and the Go program know addresses.
const RESERVED_TAGS: ReservedTags = ReservedTags {
    prefixes: &["k8s-azure-", "kubernetes-"],
    keys: &["service"],
};

/// The distribution of a rule that states none.
fn default_distribution() -> String {
    "Default".to_owned()
}

/// A rule of the load balancer in the form of the API, with its probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) protocol: String,
    pub(crate) backend_port: u16,
    #[serde(rename = "enableFloatingIP")]
    pub(crate) floating: bool,
    pub(crate) idle_timeout_in_minutes: u32,
    #[serde(default = "default_distribution")]
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

/// A port of the Service: transport protocol, port, Node port, and its rule with a floating address.
#[derive(Clone, Debug)]
pub(crate) struct SpecPort {
    pub(crate) number: u16,
    transport: &'static str,
    /// If not set, only the security group admits traffic to the port.
    has_rule: bool,
    node_port: u16,
    rule: Rule,
}

impl SpecPort {
    /// Returns the number that traffic to an address of this family has at the Nodes.
    pub(crate) fn number_for(&self, family: &Family) -> u16 {
        if family.to_nodes {
            self.node_port
        } else {
            self.number
        }
    }

    /// Returns the key of the listener for a family, and its rule.
    pub(crate) fn listener(&self, family: &Family) -> (u16, String, Rule) {
        let backend_port = if self.rule.protocol == "All" {
            0
        } else {
            self.number_for(family)
        };
        let rule = Rule {
            floating: !family.to_nodes,
            backend_port,
            ..self.rule.clone()
        };
        (
            self.number,
            format!("{}{}", self.transport, family.suffix),
            rule,
        )
    }
}

/// An IP family of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family {
    pub(crate) is_ipv6: bool,
    /// The end of the names of elements: `-IPv6` for the second family of a Service with two, else empty.
    pub(crate) suffix: &'static str,
    pub(crate) address: Option<IpAddr>,
    pub(crate) address_name: Option<String>,
    pub(crate) prefix: Option<String>,
    /// If set, traffic goes to the node ports, and security rules admit it to the Nodes.
    pub(crate) to_nodes: bool,
}

impl Family {
    pub(crate) fn name(&self) -> &'static str {
        if self.is_ipv6 { "IPv6" } else { "IPv4" }
    }

    /// Returns the name of the pool for all Services of the family.
    pub(crate) fn pool(&self, cluster: &str) -> String {
        if self.is_ipv6 {
            format!("{cluster}{IPV6}")
        } else {
            cluster.to_owned()
        }
    }
}

/// The end of the names of elements for IPv6.
pub(crate) const IPV6: &str = "-IPv6";

/// Load balancer configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(crate) is_internal: bool,
    pub(crate) families: Vec<Family>,
    /// The load balancers that may serve the Service, if it names some.
    pub(crate) balancers: Vec<String>,
    pub(crate) subnet: Option<String>,
    /// The subnet, if an annotation names it: it is part of the names of frontend and rules.
    pub(crate) named_subnet: Option<String>,
    pub(crate) address_group: Option<String>,
    pub(crate) ip_tags: Option<BTreeMap<String, String>>,
    pub(crate) address_tags: BTreeMap<String, String>,
    pub(crate) dns_label: Option<String>,
    pub(crate) additional: Vec<IpAddr>,
    pub(crate) ports: Vec<SpecPort>,
    pub(crate) link: Option<Link>,
    /// `None`: the security group is left alone.
    pub(crate) security: Option<BTreeSet<String>>,
}

impl Spec {
    /// Parses a Service's annotations and ports.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let text = trimmed;
        let is_internal = annotations.get(&key::INTERNAL) == Some(true);
        let mut address_tags = annotations.get(&key::TAGS).unwrap_or_default();
        address_tags.retain(|tag, _| RESERVED_TAGS.allows(tag, &key::TAGS, &mut annotations));
        let families = families(service, &mut annotations, is_internal);
        let has = |key: &str| {
            service
                .metadata
                .annotations
                .as_ref()
                .is_some_and(|all| all.contains_key(&format!("{PREFIX}{key}")))
        };
        for (key, why) in key::REFUSED {
            if !has(key) {
                continue;
            }
            match config.file.is_basic() {
                true => annotations.mistake(format!("annotation {PREFIX}{key}: {why}; remove it")),
                false => annotations.warning(format!(
                    "annotation {PREFIX}{key} has no effect with the standard SKU: all Nodes share a load balancer"
                )),
            }
        }
        let named_subnet = text(annotations.get(&key::SUBNET)).filter(|_| is_internal);
        let ports = ports(service, config, &mut annotations, is_internal, &families);
        let may_link =
            families.iter().any(|family| !family.is_ipv6) && (is_internal || families[0].to_nodes);
        let link_subnet = named_subnet.as_deref().or(Some(&config.file.subnet_name));
        let link = link::parse(config, &mut annotations, link_subnet, may_link);
        let has_one_rule = is_internal && annotations.get(&key::ALL_PORTS) == Some(true);
        let security = security(
            service,
            config,
            &mut annotations,
            is_internal,
            (&families, &ports),
        );
        let ports: Vec<SpecPort> = ports.into_iter().filter(|port| port.has_rule).collect();
        let spec = Self {
            is_internal,
            balancers: annotations.get(&key::BALANCERS).unwrap_or_default(),
            subnet: named_subnet
                .clone()
                .or_else(|| text(Some(config.file.subnet_name.clone()))),
            named_subnet,
            address_group: text(annotations.get(&key::GROUP)),
            ip_tags: annotations.get(&key::IP_TAGS).map(|text| pairs(&text)),
            address_tags,
            dns_label: annotations
                .get(&key::DNS_LABEL)
                .map(|dns_label| dns_label.trim().to_owned()),
            additional: additional(&mut annotations, config),
            link,
            security,
            ports: if has_one_rule { for_all(&ports) } else { ports },
            families,
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

fn trimmed(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Returns the further addresses of a Service that may be addresses of a public load balancer.
fn additional(annotations: &mut Annotations<'_>, config: &Config) -> Vec<IpAddr> {
    let mut all = annotations
        .get(&key::ADDITIONAL_ADDRESSES)
        .unwrap_or_default();
    let key = key::ADDITIONAL_ADDRESSES.key();
    let ranges = &config.additional_ranges;
    all.retain(|ip| {
        let is_allowed = ranges.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(ip)));
        if !is_public(*ip) {
            annotations.mistake(format!("annotation {key}: {ip} is no public address; name public addresses only"));
        } else if !is_allowed {
            annotations.mistake(format!(
                "annotation {key}: {ip} is not in a range of additionalPublicIPRanges; name addresses of these ranges only"
            ));
        }
        is_public(*ip) && is_allowed
    });
    all
}

/// Returns the IP families of a Service, in its order.
fn families(
    service: &Service,
    annotations: &mut Annotations<'_>,
    is_internal: bool,
) -> Vec<Family> {
    let spec = service.spec.as_ref();
    let stated: Vec<bool> = spec
        .and_then(|spec| spec.ip_families.as_ref())
        .into_iter()
        .flatten()
        .map(|ip_families| ip_families == "IPv6")
        .collect();
    let stated = if stated.is_empty() {
        vec![false]
    } else {
        stated
    };
    let of_spec = spec
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        .filter(|load_balancer_ip| !load_balancer_ip.is_empty());
    let of_spec: Option<IpAddr> = of_spec.and_then(|entry| {
        entry
            .parse()
            .map_err(|_| {
                annotations.mistake(format!("spec.loadBalancerIP: {entry:?} is no IP address"));
            })
            .ok()
    });
    let is_dual = stated.len() > 1;
    let no_floating = annotations.get(&key::NO_FLOATING_IP) == Some(true);
    let mut family = |is_ipv6: bool| {
        let by_family = annotations.get(if is_ipv6 { &key::IPV6 } else { &key::IPV4 });
        let address = by_family.or(of_spec.filter(|ip| ip.is_ipv6() == is_ipv6));
        if let Some(ip) = address.filter(|address| !is_internal && !is_public(*address)) {
            annotations.mistake(format!(
                "address {ip}: a public load balancer needs a public address"
            ));
        }
        // A Service of IPv6 alone may have the annotations of either family.
        let mut of_family = |first, second| match (is_ipv6, is_dual) {
            (true, true) => trimmed(annotations.get(second)),
            (true, false) => {
                trimmed(annotations.get(second)).or_else(|| trimmed(annotations.get(first)))
            }
            (false, _) => trimmed(annotations.get(first)),
        };
        Family {
            is_ipv6,
            suffix: if is_ipv6 && is_dual { IPV6 } else { "" },
            address,
            address_name: of_family(&key::ADDRESS_NAME, &key::ADDRESS_NAME_IPV6),
            prefix: of_family(&key::ADDRESS_PREFIX, &key::ADDRESS_PREFIX_IPV6),
            to_nodes: no_floating || (is_internal && is_ipv6),
        }
    };
    stated.into_iter().map(&mut family).collect()
}

/// Returns `true` for an address that Azure can give to a public load balancer.
fn is_public(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    if special(ip).is_some() {
        return false;
    }
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_azure = ip.octets() == [168, 63, 129, 16];
            !(ip.is_private() || is_shared || is_azure)
        }
        IpAddr::V6(ip) => !ip.is_unique_local(),
    }
}

/// Parses pairs; malformed ones are left out, and the last one of a key counts.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()));
    pairs
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

fn ports(
    service: &Service,
    config: &Config,
    annotations: &mut Annotations<'_>,
    is_internal: bool,
    families: &[Family],
) -> Vec<SpecPort> {
    let is_basic = config.file.is_basic();
    let all_ports = annotations.get(&key::ALL_PORTS) == Some(true) && is_internal;
    if all_ports && is_basic {
        annotations.mistake(format!(
            "{}: needs a load balancer of the standard SKU",
            key::ALL_PORTS.key()
        ));
    }
    let is_sticky = service
        .spec
        .as_ref()
        .and_then(|spec| spec.session_affinity.as_deref())
        == Some("ClientIP");
    let idle = annotations.get(&key::IDLE_TIMEOUT).unwrap_or(4);
    let resets = annotations.get(&key::NO_TCP_RESET) != Some(true);
    let protocols: &[&'static str] = if is_internal && !is_basic {
        &["TCP", "UDP", "SCTP"]
    } else {
        &["TCP", "UDP"]
    };
    let mut found = Vec::new();
    for (index, port) in each_port(service, protocols).enumerate() {
        let port = match port {
            Ok(port) => port,
            Err(error) => {
                annotations.mistake(error.to_string());
                continue;
            }
        };
        let port_annotations = OfPort(service, port.number);
        let has_rule = !port_annotations.is_true("no_lb_rule");
        if port.node_port == 0 && families.iter().any(|family| family.to_nodes) {
            annotations.mistake(format!(
                "port {}: has no node port; set allocateLoadBalancerNodePorts",
                port.number
            ));
        }
        let is_tcp = port.protocol == "TCP";
        let probe = if port_annotations.is_true("no_probe_rule") || !is_tcp || !has_rule {
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
            has_rule,
            node_port: port.node_port,
            rule: Rule {
                protocol: protocol.to_owned(),
                idle_timeout_in_minutes: idle,
                load_distribution: if is_sticky { "SourceIP" } else { "Default" }.to_owned(),
                enable_tcp_reset: is_tcp && resets && !is_basic,
                disable_outbound_snat: config.file.disable_outbound_snat && !is_basic,
                probe,
                ..Rule::default()
            },
        });
    }
    found
}

/// Returns the port whose rule stands for all ports.
fn for_all(ports: &[SpecPort]) -> Vec<SpecPort> {
    let Some(mut first) = ports.first().cloned() else {
        return Vec::new();
    };
    first.rule.probe = ports.iter().find_map(|port| port.rule.probe.clone());
    vec![first]
}

/// Returns the security rules of a Service, each as `<family> <protocol> <access> <sources> <ports>`; `None` if the
/// security group is left alone.
fn security(
    service: &Service,
    config: &Config,
    annotations: &mut Annotations<'_>,
    is_internal: bool,
    (families, ports): (&[Family], &[SpecPort]),
) -> Option<BTreeSet<String>> {
    let denies = annotations.get(&key::DENY_OTHERS) == Some(true);
    let tags = annotations
        .get(&key::ALLOWED_SERVICE_TAGS)
        .unwrap_or_default();
    let ranges = annotations.get(&key::ALLOWED_RANGES).unwrap_or_default();
    let spec = service.spec.as_ref();
    let of_spec = spec
        .and_then(|spec| spec.load_balancer_source_ranges.clone())
        .unwrap_or_default();
    let annotation = service
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(&format!("{PREFIX}load-balancer-source-ranges")));
    let stated: Vec<&str> = ranges
        .split(',')
        .chain(
            annotation
                .iter()
                .flat_map(|annotation| annotation.split(',')),
        )
        .collect();
    let stated: Vec<&str> = stated
        .into_iter()
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
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
            _ => annotations.mistake(format!(
                "source range {text:?} is not a range such as 10.0.0.0/24"
            )),
        }
    }
    let is_left_alone =
        config.file.security_group_name.is_empty() || config.file.is_preconfigured(is_internal);
    if annotations.get(&key::NO_SECURITY_RULES) == Some(true) || is_left_alone {
        return None;
    }
    let is_everything = |network: &IpNet| network.prefix_len() == 0;
    let nothing_stated = networks.is_empty() && tags.is_empty();
    let mut rules = BTreeSet::new();
    for family in families {
        let of_family = networks
            .iter()
            .filter(|network| matches!(network, IpNet::V6(_)) == family.is_ipv6);
        let of_family: Vec<IpNet> = IpNet::aggregate(&of_family.copied().collect());
        let mut sources: Vec<String> = tags.clone();
        let mut prefixes: Vec<String> = of_family.iter().map(ToString::to_string).collect();
        prefixes.sort();
        match (nothing_stated, is_internal) {
            (true, false) => sources.push("Internet".to_owned()),
            // Traffic inside the virtual network is admitted anyway.
            (false, true) if of_family.iter().any(is_everything) => {}
            (false, _) if !prefixes.is_empty() => sources.push(prefixes.join(",")),
            _ => {}
        }
        for (protocol, transport) in [("Tcp", "TCP"), ("Udp", "UDP"), ("*", "SCTP")] {
            let of_protocol = ports.iter().filter(|port| port.transport == transport);
            let mut numbers: Vec<String> = of_protocol
                .map(|port| port.number_for(family).to_string())
                .collect();
            numbers.sort();
            if !numbers.is_empty() {
                let numbers = numbers.join(",");
                rules.extend(sources.iter().map(|source| {
                    format!("{} {protocol} Allow {source} {numbers}", family.name())
                }));
            }
        }
        if denies && !networks.is_empty() {
            rules.insert(format!("{} * Deny * *", family.name()));
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests;
