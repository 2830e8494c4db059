//! The spec of a Service's load balancer: annotations and fields, with the configuration for what they leave out.

use std::collections::BTreeSet;

use cloud_provider::{Node, Result, Service, StringMap};
use ipnet::IpNet;
use provider_kit::addresses::AddressFamily;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::declared::Defaults;
use provider_kit::gcfg::Key;
use provider_kit::load_balancers::{Attributes, ServicePort, each_port};
use provider_kit::source_ranges::configured_source_ranges;

use super::unused;
use crate::annotations::{self as key, ProxyProtocol, text};
use crate::config::Balancers;
use crate::keys;

/// Load balancer configuration of a Service.
pub(super) struct ServiceSpec {
    /// If set, the load balancer gets no floating IP.
    pub(super) internal: bool,
    /// Value of `spec.loadBalancerIP` of the Service.
    pub(super) address: Option<String>,
    /// Network, subnet and port of the VIP, for a new load balancer.
    pub(super) vip: VipPlacement,
    /// Subnet of members; `None`: the VIP's.
    pub(super) member_subnet: Option<String>,
    pub(super) floating: FloatingIpSource,
    /// Family of the VIP and of its members.
    pub(super) family: AddressFamily,
    /// Second family, if the Service has one.
    pub(super) second: Option<AddressFamily>,
    /// If set, one of the families is not enough.
    pub(super) needs_both: bool,
    pub(super) ports: Vec<ServicePort>,
    /// Source ranges of all requested families; there is at least one of the first family.
    pub(super) ranges: BTreeSet<IpNet>,
    /// If set, the ranges do not admit everybody.
    pub(super) is_restricted: bool,
    pub(super) selector: Selector,
    pub(super) lb_method: String,
    /// Requested algorithm that Octavia does not have.
    pub(super) unknown_method: Option<String>,
    /// Pool protocol `PROXY` or `PROXYV2`.
    pub(super) proxy: Option<&'static str>,
    pub(super) x_forwarded_for: bool,
    pub(super) tls_container: Option<String>,
    pub(super) connection_limit: Option<i32>,
    /// Timeouts of listeners in milliseconds.
    pub(super) timeouts: Attributes,
    pub(super) flavor: Option<String>,
    pub(super) availability_zone: Option<String>,
    /// If set, a client stays at its member.
    pub(super) is_sticky: bool,
    /// Settings of the health monitor, if members are checked.
    pub(super) monitor: Option<Attributes>,
    /// Port at which a Node reports that it has a Pod of the Service, if only such Nodes receive traffic, and health
    /// checks are enabled.
    pub(super) health_check_port: Option<u16>,
    /// Warnings about settings that probably do not do what the user intends.
    pub(super) warnings: Vec<String>,
}

/// Network, subnet and port of a VIP. Used only when the load balancer is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VipPlacement {
    pub(super) subnet: Option<String>,
    pub(super) network: Option<String>,
    /// ID of a Neutron port for the VIP; if set, network and subnet are ignored.
    pub(super) port: Option<String>,
}

/// Source of a floating IP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FloatingIpSource {
    /// Network of floating IPs; `None`: it is looked up.
    pub(super) network: Option<String>,
    pub(super) subnet: FloatingSubnet,
}

/// Subnet of a floating IP in its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum FloatingSubnet {
    #[default]
    Any,
    Id(String),
    /// The first subnet that fits and has a free address.
    Like {
        name: Option<String>,
        tags: Option<String>,
    },
}

/// Selector of the Nodes that are members: `k=v,k2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector(Vec<(String, String)>);

impl Selector {
    /// Returns the selector of a Service.
    pub(super) fn of(read: &mut Annotations<'_>) -> Self {
        Self::read(&text(read, &key::NODE_SELECTOR).unwrap_or_default())
    }

    /// Parses a selector; every text is one.
    fn read(text: &str) -> Self {
        let pairs = text
            .split(',')
            .map(|item| item.trim().split_once('=').unwrap_or((item.trim(), "")));
        Self(
            pairs
                .filter(|(key, _)| !key.is_empty())
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Returns `true` if a Node with these labels is a member.
    pub(super) fn matches(&self, labels: &StringMap) -> bool {
        self.0.iter().all(|(key, value)| {
            labels
                .get(key)
                .is_some_and(|key| value.is_empty() || key == value)
        })
    }

    pub(super) fn selects_all(&self) -> bool {
        self.0.is_empty()
    }
}

/// Accepted values of `lb_algorithm`.
const METHODS: [&str; 4] = [
    "ROUND_ROBIN",
    "LEAST_CONNECTIONS",
    "SOURCE_IP",
    "SOURCE_IP_PORT",
];

impl ServiceSpec {
    /// Parses annotations and fields of a Service. The spec is *invalid* if there are mistakes.
    pub(super) fn of(service: &Service, config: &Balancers) -> Parsed<Result<Self>> {
        let mut annotations = key::annotations_of(service);
        let class = class(&mut annotations, config).unwrap_or_default();
        let defaults = config.settings.clone().with(&class);
        let mut annotations = annotations.over(&defaults);
        let read = &mut annotations;
        let fields = service.spec.clone().unwrap_or_default();
        let (internal, is_unclear) = internal(read, service, config);
        let (family, second) = families(service);
        let (ranges, is_restricted) = ranges(read, service, family, second);
        let (monitor, health_check_port) = monitor(read, service, config);
        let subnet = text(read, &key::SUBNET_ID);
        let proxy = proxy(read);
        let x_forwarded_for = read.get(&key::X_FORWARDED_FOR).unwrap_or_default();
        if proxy.is_some() && x_forwarded_for {
            let proxy = key::PROXY_PROTOCOL.key();
            let header = key::X_FORWARDED_FOR.key();
            read.mistake(format!(
                "annotations {proxy} and {header} cannot be used together; remove one"
            ));
        }
        // The effect of an unknown algorithm is Octavia's decision; the configured one is used.
        let (lb_method, unknown_method) = match text(read, &key::LB_METHOD) {
            Some(method) if METHODS.contains(&&*method) => (method, None),
            other => (config.method(), other),
        };
        // Other code reads this annotation without reporting mistakes, so it is checked here.
        read.get(&key::KEEP_FLOATINGIP);
        let ports = ports(read, service);
        let has_tls = text(read, &key::DEFAULT_TLS_CONTAINER_REF).is_some();
        unused::warn(
            read,
            service,
            &unused::Settings {
                internal,
                has_monitor: monitor.is_some(),
                proxy: proxy.is_some(),
                http: x_forwarded_for,
                has_tls,
                ports: &ports,
            },
        );
        let spec = Self {
            internal,
            address: fields.load_balancer_ip.filter(|ip| !ip.is_empty()),
            member_subnet: text(read, &key::MEMBER_SUBNET_ID)
                .or_else(|| config.get(&keys::SUBNET_ID))
                .or_else(|| subnet.clone()),
            vip: vip(read, subnet, &class, internal),
            floating: floating(read, &class, config),
            family,
            second,
            needs_both: fields.ip_family_policy.as_deref() == Some("RequireDualStack"),
            ports,
            ranges,
            is_restricted,
            selector: Selector::of(read),
            lb_method,
            unknown_method,
            proxy,
            x_forwarded_for,
            tls_container: text(read, &key::DEFAULT_TLS_CONTAINER_REF),
            connection_limit: read.get(&key::CONNECTION_LIMIT),
            timeouts: Attributes::default()
                .set("timeout_client_data", read.get(&key::TIMEOUT_CLIENT_DATA))
                .set(
                    "timeout_member_connect",
                    read.get(&key::TIMEOUT_MEMBER_CONNECT),
                )
                .set("timeout_member_data", read.get(&key::TIMEOUT_MEMBER_DATA))
                .set("timeout_tcp_inspect", read.get(&key::TIMEOUT_TCP_INSPECT)),
            flavor: text(read, &key::FLAVOR_ID),
            availability_zone: text(read, &key::AVAILABILITY_ZONE),
            is_sticky: fields.session_affinity.as_deref() == Some("ClientIP"),
            monitor,
            health_check_port,
            warnings: read.warnings().to_vec(),
        };
        let unknown = spec.unknown_method_warning();
        let parsed = annotations.parsed(spec).warned(unknown);
        // Such a Service keeps its load balancer, whose members follow the Nodes.
        let is_all = is_unclear && parsed.review().errors.len() == 1;
        let checked = if is_all { Ok(()) } else { parsed.check() };
        parsed.map(|spec| checked.map(|()| spec))
    }

    /// Returns a warning about an algorithm that Octavia does not have.
    pub(super) fn unknown_method_warning(&self) -> Option<String> {
        let method = self.unknown_method.as_ref()?;
        let key = key::LB_METHOD.key();
        let used = &self.lb_method;
        Some(format!(
            "annotation {key}: {method:?} is no algorithm of Octavia's; {used} is used"
        ))
    }

    /// Returns `true` if the VIP has no use for a floating IP.
    pub(super) fn is_ipv6(&self) -> bool {
        self.family == AddressFamily::Ipv6
    }

    /// Returns the source ranges for a load balancer with a VIP of the first family alone, or of both.
    pub(super) fn allowed(&self, is_both: bool) -> Vec<String> {
        let allowed = self
            .ranges
            .iter()
            .filter(|range| is_both || self.family.has(range.addr()));
        allowed.map(ToString::to_string).collect()
    }

    /// Returns the protocol of a listener of this port. Only TCP can carry HTTP or TLS.
    pub(super) fn listener_protocol(&self, port: &ServicePort) -> &'static str {
        match port.protocol {
            "TCP" if self.tls_container.is_some() => "TERMINATED_HTTPS",
            "TCP" if self.x_forwarded_for => "HTTP",
            other => other,
        }
    }

    /// Returns the protocol of the members of this port. Only TCP can carry the PROXY protocol.
    pub(super) fn pool_protocol(&self, port: &ServicePort) -> &'static str {
        match (
            self.proxy.filter(|_| port.protocol == "TCP"),
            self.listener_protocol(port),
        ) {
            (Some(proxy), _) => proxy,
            (None, "TERMINATED_HTTPS") => "HTTP",
            (None, other) => other,
        }
    }

    /// Returns the address of a Node as a member: of the wanted family, preferably an internal one.
    pub(super) fn member_address<'a>(&self, node: &'a Node) -> Option<&'a str> {
        use cloud_provider::AddressType::{ExternalIP, InternalIP};
        [InternalIP, ExternalIP].iter().find_map(|kind| {
            let found = node
                .addresses
                .iter()
                .find(|address| address.kind == *kind && has(self.family, &address.address));
            found.map(|address| &*address.address)
        })
    }
}

/// Returns `true` if the load balancer gets no floating IP, and `true` if the annotation has a value that says neither.
fn internal(read: &mut Annotations<'_>, service: &Service, config: &Balancers) -> (bool, bool) {
    if config.flag(&keys::INTERNAL_LB) {
        return (true, false);
    }
    if key::INTERNAL.text_on(service).is_none() {
        return (false, false);
    }
    let internal = read.get(&key::INTERNAL);
    (internal.unwrap_or_default(), internal.is_none())
}

/// Returns the class that the Service names. An unknown one is a mistake.
fn class(read: &mut Annotations<'_>, config: &Balancers) -> Option<Defaults> {
    let name = text(read, &key::CLASS)?;
    let class = config.classes.get(&name).cloned();
    if class.is_none() && config.has_file {
        let known: Vec<_> = config.classes.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        let key = key::CLASS.key();
        read.mistake(format!(
            "annotation {key}: {name:?} is no [LoadBalancerClass] of the configuration; {known}"
        ));
    }
    class
}

/// Returns network, subnet and port of the VIP. For an external load balancer, the class takes precedence over
/// annotations.
fn vip(
    read: &mut Annotations<'_>,
    subnet: Option<String>,
    class: &Defaults,
    internal: bool,
) -> VipPlacement {
    let network = text(read, &key::NETWORK_ID);
    match text(read, &key::PORT_ID) {
        Some(port) => VipPlacement {
            port: Some(port),
            ..VipPlacement::default()
        },
        None if internal => VipPlacement {
            subnet,
            network,
            port: None,
        },
        None => VipPlacement {
            subnet: class.get(&keys::CLASS_SUBNET_ID).or(subnet),
            network: class.get(&keys::CLASS_NETWORK_ID).or(network),
            port: None,
        },
    }
}

/// Returns the source of the floating IP. The class takes precedence over annotations, and annotations over the
/// configuration.
fn floating(read: &mut Annotations<'_>, class: &Defaults, config: &Balancers) -> FloatingIpSource {
    let network = text(read, &key::FLOATING_NETWORK_ID);
    let annotated = [
        &key::FLOATING_SUBNET_ID,
        &key::FLOATING_SUBNET,
        &key::FLOATING_SUBNET_TAGS,
    ];
    let is_annotated = annotated.iter().any(|annotation| read.is_set(annotation));
    let annotated = annotated.map(|annotation| text(read, annotation));
    let in_class: [&Key<String>; 3] = [
        &keys::CLASS_FLOATING_SUBNET_ID,
        &keys::CLASS_FLOATING_SUBNET,
        &keys::CLASS_FLOATING_SUBNET_TAGS,
    ];
    let subnet = match subnet_of(in_class.map(|key| class.get(key))) {
        FloatingSubnet::Any if is_annotated => subnet_of(annotated),
        FloatingSubnet::Any => subnet_of(
            [
                &keys::FLOATING_SUBNET_ID,
                &keys::FLOATING_SUBNET,
                &keys::FLOATING_SUBNET_TAGS,
            ]
            .map(|key| config.get(key)),
        ),
        subnet => subnet,
    };
    FloatingIpSource {
        network: class.get(&keys::CLASS_FLOATING_NETWORK_ID).or(network),
        subnet,
    }
}

fn subnet_of(id_name_and_tags: [Option<String>; 3]) -> FloatingSubnet {
    match id_name_and_tags {
        [Some(id), ..] => FloatingSubnet::Id(id),
        [None, None, None] => FloatingSubnet::Any,
        [None, name, tags] => FloatingSubnet::Like { name, tags },
    }
}

/// Returns `true` if a text is an address of this family.
pub(super) fn has(family: AddressFamily, address: &str) -> bool {
    address.parse().is_ok_and(|ip| family.has(ip))
}

/// Returns the first family, which members have, and the second one, if there are two.
pub(super) fn families(service: &Service) -> (AddressFamily, Option<AddressFamily>) {
    let families = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ip_families.as_deref())
        .unwrap_or_default();
    let family = |name: &String| match &**name {
        "IPv6" => AddressFamily::Ipv6,
        "IPv4" => AddressFamily::Ipv4,
        _ => AddressFamily::Dualstack,
    };
    (
        families.first().map_or(AddressFamily::Dualstack, family),
        families.get(1).map(family),
    )
}

/// Returns the source ranges, in the families of its VIPs, and `true` if they do not admit everybody.
fn ranges(
    read: &mut Annotations<'_>,
    service: &Service,
    family: AddressFamily,
    second: Option<AddressFamily>,
) -> (BTreeSet<IpNet>, bool) {
    let mut ranges = configured_source_ranges(service).unwrap_or_else(|err| {
        read.mistake(err.to_string());
        BTreeSet::new()
    });
    let is_stated = !ranges.is_empty();
    let families: Vec<AddressFamily> = std::iter::once(family).chain(second).collect();
    ranges.retain(|range| families.iter().any(|family| family.has(range.addr())));
    let everybody = |family| {
        if family == AddressFamily::Ipv6 {
            "::/0"
        } else {
            "0.0.0.0/0"
        }
    };
    let of_first = |range: &&IpNet| family.has(range.addr());
    if !ranges.iter().any(|range| of_first(&range)) {
        if is_stated {
            let everybody = everybody(family);
            read.mistake(format!(
                "none of the source ranges is of the load balancer's family; add one, such as {everybody}"
            ));
        }
        ranges.extend(
            families
                .into_iter()
                .filter_map(|family| everybody(family).parse::<IpNet>().ok()),
        );
    }
    let is_restricted = is_stated
        && !ranges
            .iter()
            .filter(of_first)
            .any(|range| range.prefix_len() == 0);
    (ranges, is_restricted)
}

fn proxy(read: &mut Annotations<'_>) -> Option<&'static str> {
    match read.get(&key::PROXY_PROTOCOL)? {
        ProxyProtocol::Off => None,
        ProxyProtocol::V1 => Some("PROXY"),
        ProxyProtocol::V2 => Some("PROXYV2"),
    }
}

/// Returns the settings of the health monitor, and the port that it checks. With `externalTrafficPolicy: Local`,
/// members are checked unless an annotation disables it, because members without a Pod of the Service drop traffic.
fn monitor(
    read: &mut Annotations<'_>,
    service: &Service,
    config: &Balancers,
) -> (Option<Attributes>, Option<u16>) {
    let is_local = service
        .spec
        .as_ref()
        .is_some_and(|spec| spec.external_traffic_policy.as_deref() == Some("Local"));
    let port = health_check_node_port(service).filter(|_| is_local);
    let is_on = read.get(&key::ENABLE_HEALTH_MONITOR);
    let is_on = is_on.unwrap_or_else(|| config.flag(&keys::CREATE_MONITOR) || port.is_some());
    let monitor = Attributes::default()
        .set(
            "healthmonitor.delay",
            read.get(&key::HEALTH_MONITOR_DELAY)
                .map(|duration| duration.as_secs()),
        )
        .set(
            "healthmonitor.timeout",
            read.get(&key::HEALTH_MONITOR_TIMEOUT)
                .map(|duration| duration.as_secs()),
        )
        .set(
            "healthmonitor.max_retries",
            read.get(&key::HEALTH_MONITOR_MAX_RETRIES),
        )
        .set(
            "healthmonitor.max_retries_down",
            read.get(&key::HEALTH_MONITOR_MAX_RETRIES_DOWN),
        );
    (Some(monitor).filter(|_| is_on), port.filter(|_| is_on))
}

/// Returns the port at which Nodes report on their Pods.
pub(super) fn health_check_node_port(service: &Service) -> Option<u16> {
    let port = service.spec.as_ref()?.health_check_node_port?;
    u16::try_from(port).ok().filter(|port| *port > 0)
}

/// Returns the ports; those of other protocols are mistakes.
fn ports(read: &mut Annotations<'_>, service: &Service) -> Vec<ServicePort> {
    let mut ports = each_port(service, &["TCP", "UDP", "SCTP"]).peekable();
    if ports.peek().is_none() {
        read.mistake("the Service has no ports");
    }
    ports
        .filter_map(|port| port.map_err(|err| read.mistake(err.to_string())).ok())
        .collect()
}

#[cfg(test)]
mod tests;
