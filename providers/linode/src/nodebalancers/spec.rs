//! A Service, parsed once: the spec of its NodeBalancer, except for facts from the cloud.

use std::net::{IpAddr, Ipv4Addr};

use cloud_provider::{AddressType, Node, Service};
use ipnet::IpNet;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::load_balancers::{ReservedTags, ServicePort, service_ports};
use provider_kit::source_ranges::{allows_all, configured_source_ranges};
use serde::Deserialize;

use super::firewall;
use super::object::PortConfig;
use crate::annotations::{self as key, Acl, Protocol, one_of};
use crate::config::{Config, NodeBalancerType};
use crate::vpcs::without_length;

/// Tags by which this program knows NodeBalancers: those of all clouds.
const RESERVED_TAGS: ReservedTags = ReservedTags {
    prefixes: &[],
    keys: &[],
};

/// NodeBalancer configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeBalancerSpec {
    pub(crate) kind: NodeBalancerType,
    /// If set, an annotation sets the kind.
    pub(crate) states_kind: bool,
    pub(crate) throttle: u32,
    pub(crate) tags: Vec<String>,
    pub(crate) ports: Vec<PortSpec>,
    pub(crate) preserve: bool,
    pub(crate) reserved_ip: Option<Ipv4Addr>,
    pub(crate) releases_ip: bool,
    pub(crate) hostname_only: bool,
    pub(crate) ipv6_ingress: bool,
    pub(crate) ipv6_backends: bool,
    pub(crate) firewall_id: Option<u64>,
    pub(crate) acl: Option<Acl>,
    /// If set, an annotation sets the ACL; otherwise, source ranges do.
    pub(crate) states_acl: bool,
    pub(crate) backend: Subnet,
    pub(crate) frontend: Subnet,
    pub(crate) frontend_v6: Option<IpNet>,
    pub(crate) warnings: Vec<String>,
}

/// A subnet of a VPC, as a user names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Subnet {
    pub(crate) id: Option<u64>,
    pub(crate) vpc: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) range: Option<IpNet>,
}

/// A port of the Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortSpec {
    pub(crate) number: u16,
    pub(crate) config: PortConfig,
    /// The name of the Secret with the certificate.
    pub(crate) secret: Option<String>,
}

/// The annotation `port-<number>`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct PortText {
    protocol: Option<String>,
    proxy_protocol: Option<String>,
    algorithm: Option<String>,
    stickiness: Option<String>,
    tls_secret_name: Option<String>,
    udp_check_port: Option<String>,
}

/// Settings of the annotations for all ports.
struct Defaults {
    protocol: Option<Protocol>,
    proxy_protocol: Option<String>,
    algorithm: Option<String>,
    stickiness: Option<String>,
    udp_check_port: Option<u16>,
    check: Option<String>,
    check_path: Option<String>,
    check_body: Option<String>,
    interval: Option<u32>,
    timeout: Option<u32>,
    attempts: Option<u32>,
    passive: bool,
}

/// Warns of unknown annotations. `port-<number>` has no declaration.
fn warn_of_unknown(service: &Service, annotations: &mut Annotations<'_>) {
    let of_port = format!("{}port-", key::PREFIX);
    let known = service
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| !key.starts_with(&of_port));
    let mut view = Service::default();
    view.metadata.annotations = Some(
        known
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    );
    let mut declared = Annotations::of(&view);
    declared.unknown(key::PREFIX, key::ALL);
    declared
        .warnings()
        .iter()
        .for_each(|warning| annotations.warning(warning));
}

/// Warns of fields of the Service that NodeBalancers do not have.
fn warn_of_ignored_fields(
    service: &Service,
    ports: &[PortSpec],
    annotations: &mut Annotations<'_>,
) {
    let Some(spec) = &service.spec else { return };
    if let Some(ip) = spec
        .load_balancer_ip
        .as_ref()
        .filter(|ip| !ip.is_empty() && !annotations.is_set(&key::RESERVED_IP))
    {
        let annotation = key::RESERVED_IP.key();
        annotations.warning(format!(
            "loadBalancerIP: {ip} has no effect; set annotation {annotation} to a reserved address"
        ));
    }
    let is_kept = |port: &PortSpec| {
        port.config.algorithm == "source"
            || port
                .config
                .stickiness
                .as_deref()
                .is_some_and(|stickiness| stickiness != "none")
    };
    if spec.session_affinity.as_deref() == Some("ClientIP") && !ports.iter().all(is_kept) {
        let algorithm = key::ALGORITHM.key();
        let stickiness = key::STICKY.key();
        annotations.warning(format!(
            "sessionAffinity: ClientIP has no effect on NodeBalancers, which send their own address to Nodes; set annotation \
             {algorithm}: source, or {stickiness}"
        ));
    }
}

impl NodeBalancerSpec {
    /// Parses a Service's annotations and ports.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        warn_of_unknown(service, &mut annotations);
        let defaults = Defaults::of(&mut annotations);
        let ports = service_ports(service, &["TCP", "UDP"]).unwrap_or_else(|error| {
            annotations.mistake(error.to_string());
            Vec::new()
        });
        let ports: Vec<_> = ports
            .iter()
            .map(|port| defaults.port(service, *port, &mut annotations))
            .collect();
        let firewall_id = annotations.get(&key::FIREWALL_ID);
        let stated = annotations.get(&key::FIREWALL_ACL);
        let states_acl = stated.is_some();
        let acl = stated.or_else(|| source_ranges(service, &mut annotations));
        if let (Some(_), Some(_)) = (firewall_id, &acl) {
            let id = key::FIREWALL_ID.key();
            let acl = key::FIREWALL_ACL.key();
            let setting = if states_acl {
                format!("annotation {acl}")
            } else {
                "loadBalancerSourceRanges".to_owned()
            };
            annotations.warning(format!(
                "{setting} has no effect with annotation {id}: that firewall decides about clients"
            ));
        }
        let acl = acl.filter(|_| firewall_id.is_none());
        let too_large = acl.as_ref().and_then(|acl| {
            firewall::too_large(acl, ports.iter().map(|port| port.config.transport()))
        });
        if let Some(mistake) = too_large {
            annotations.mistake(mistake);
        }
        warn_of_ignored_fields(service, &ports, &mut annotations);
        let backend = Subnet {
            id: annotations.get(&key::BACKEND_SUBNET_ID),
            vpc: annotations.get(&key::BACKEND_VPC),
            label: annotations.get(&key::BACKEND_SUBNET),
            range: annotations.get(&key::BACKEND_RANGE),
        };
        if let (Some(range), Some(all)) = (backend.range, config.backend_range)
            && !all.contains(&range)
        {
            let annotation = key::BACKEND_RANGE.key();
            annotations.mistake(format!(
                "annotation {annotation}: {range} is not in --nodebalancer-backend-ipv4-subnet={all}"
            ));
        }
        let frontend = Subnet {
            id: annotations.get(&key::FRONTEND_SUBNET_ID),
            vpc: annotations.get(&key::FRONTEND_VPC),
            label: annotations.get(&key::FRONTEND_SUBNET),
            range: annotations.get(&key::FRONTEND_V4),
        };
        let frontend_v6 = annotations.get(&key::FRONTEND_V6);
        // Read to report an invalid value.
        annotations.get(&key::ID);
        let [id, vpc, label] = [
            key::FRONTEND_SUBNET_ID.key(),
            key::FRONTEND_VPC.key(),
            key::FRONTEND_SUBNET.key(),
        ];
        if frontend.id.is_none() && frontend.vpc.is_some() != frontend.label.is_some() {
            annotations.mistake(format!(
                "annotations {vpc} and {label}: only one is set; set both or neither"
            ));
        }
        if !frontend.is_named() && (frontend.range.is_some() || frontend_v6.is_some()) {
            annotations.mistake(format!(
                "a frontend range needs annotation {id}, or {vpc} and {label}"
            ));
        }
        let mut tags = annotations.get(&key::TAGS).unwrap_or_default();
        tags.retain(|tag| RESERVED_TAGS.allows(tag, &key::TAGS, &mut annotations));
        let spec = Self {
            kind: annotations.get(&key::TYPE).unwrap_or(config.kind),
            states_kind: annotations.is_set(&key::TYPE),
            throttle: annotations.get(&key::THROTTLE_LIMIT).unwrap_or_default(),
            tags,
            ports,
            preserve: annotations.get(&key::PRESERVE).unwrap_or_default(),
            reserved_ip: annotations.get(&key::RESERVED_IP),
            releases_ip: annotations.get(&key::RETAIN_IP) == Some(false),
            hostname_only: annotations
                .get(&key::HOSTNAME_ONLY)
                .unwrap_or(config.hostname_only),
            ipv6_ingress: annotations
                .get(&key::IPV6_INGRESS)
                .unwrap_or(config.ipv6_ingress),
            ipv6_backends: annotations
                .get(&key::IPV6_BACKENDS)
                .unwrap_or(config.ipv6_backends),
            firewall_id,
            acl,
            states_acl,
            backend,
            frontend,
            frontend_v6,
            warnings: annotations.warnings().to_vec(),
        };
        let follows = !spec.uses_vpc(config);
        annotations.parsed(spec).targets_follow_labels(follows)
    }

    /// Returns `true` if backends are addresses in a VPC.
    pub(crate) fn uses_vpc(&self, config: &Config) -> bool {
        config.uses_vpc_backends() && !self.ipv6_backends
    }

    /// Returns the address at which a Node is a backend.
    pub(crate) fn backend_address(&self, node: &Node, config: &Config) -> Option<String> {
        if self.ipv6_backends {
            let ip = node
                .annotations
                .get(key::PUBLIC_IPV6)
                .and_then(without_length);
            return ip.filter(IpAddr::is_ipv6).map(|ip| ip.to_string());
        }
        let annotated = node
            .annotations
            .get(key::PRIVATE_IP)
            .filter(|_| !self.uses_vpc(config));
        let internal = node
            .addresses
            .iter()
            .find(|address| address.kind == AddressType::InternalIP)
            .map(|address| &*address.address);
        annotated
            .or(internal)?
            .parse()
            .ok()
            .map(|ip: IpAddr| ip.to_string())
    }
}

impl Subnet {
    /// Returns `true` if the user names a subnet.
    pub(crate) fn is_named(&self) -> bool {
        self.id.is_some() || self.vpc.is_some() && self.label.is_some()
    }
}

/// Returns `spec.loadBalancerSourceRanges` as an ACL.
fn source_ranges(service: &Service, annotations: &mut Annotations<'_>) -> Option<Acl> {
    match configured_source_ranges(service) {
        Ok(ranges) if ranges.is_empty() || allows_all(&ranges) => None,
        Ok(ranges) => Some(Acl {
            allows: true,
            ranges: ranges.into_iter().collect(),
        }),
        Err(error) => {
            annotations.mistake(error.to_string());
            None
        }
    }
}

impl Defaults {
    fn of(annotations: &mut Annotations<'_>) -> Self {
        let check = annotations.get(&key::CHECK);
        let check_body = annotations
            .get(&key::CHECK_BODY)
            .filter(|check_body| !check_body.is_empty());
        for (setting, is_set, kinds) in [
            (
                key::CHECK_PATH.key(),
                annotations.is_set(&key::CHECK_PATH),
                &["http", "http_body"][..],
            ),
            (key::CHECK_BODY.key(), check_body.is_some(), &["http_body"]),
        ] {
            let kind = check.as_deref().unwrap_or("connection");
            if is_set && !kinds.contains(&kind) {
                let check = key::CHECK.key();
                let kinds = kinds.join(" or ");
                annotations.warning(format!(
                    "annotation {setting} has no effect with {check}: {kind}; set {check}: {kinds}"
                ));
            }
        }
        if check.as_deref() == Some("http_body") && check_body.is_none() {
            let [body, check] = [key::CHECK_BODY.key(), key::CHECK.key()];
            annotations.mistake(format!(
                "annotation {body} is required with annotation {check}: http_body"
            ));
        }
        Self {
            protocol: annotations.get(&key::PROTOCOL),
            proxy_protocol: annotations.get(&key::PROXY_PROTOCOL),
            algorithm: annotations.get(&key::ALGORITHM),
            stickiness: annotations.get(&key::STICKY),
            udp_check_port: annotations.get(&key::UDP_CHECK_PORT),
            check_path: annotations.get(&key::CHECK_PATH).filter(|_| {
                check
                    .as_deref()
                    .is_some_and(|text| text.starts_with("http"))
            }),
            check_body: check_body.filter(|_| check.as_deref() == Some("http_body")),
            check,
            interval: annotations.get(&key::CHECK_INTERVAL),
            timeout: annotations.get(&key::CHECK_TIMEOUT),
            attempts: annotations.get(&key::CHECK_ATTEMPTS),
            passive: annotations.get(&key::CHECK_PASSIVE).unwrap_or(true),
        }
    }

    fn port(
        &self,
        service: &Service,
        port: ServicePort,
        annotations: &mut Annotations<'_>,
    ) -> PortSpec {
        let annotation = format!("{}port-{}", key::PREFIX, port.number);
        let text = service
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(&annotation));
        let stated_ports = text.map_or_else(
            || Ok(PortText::default()),
            |text| serde_json::from_str(text),
        );
        let stated_ports: PortText = stated_ports.unwrap_or_else(|error| {
            annotations.mistake(format!(
                "annotation {annotation}: {error}; it must be a JSON object of texts"
            ));
            PortText::default()
        });
        let mut choose = |member: &str, value: &Option<String>, choices: &[&str]| {
            let value = value.as_deref()?;
            let choice = one_of(value, choices);
            if choice.is_none() {
                let accepted = choices.join(", ");
                annotations.mistake(format!(
                    "port {}: {member} {value:?} is not one of {accepted}",
                    port.number
                ));
            }
            choice
        };
        let named = stated_ports.protocol.map(|text| text.to_ascii_lowercase());
        let named = choose("protocol", &named, &["tcp", "udp", "http", "https"]);
        let named =
            named.and_then(|text| <Protocol as provider_kit::declared::Value>::KIND.parse(&text));
        // A default for TCP ports does not apply to UDP ports, and the reverse.
        let fits = |protocol: &Protocol| (*protocol == Protocol::Udp) == (port.protocol == "UDP");
        let plain = if port.protocol == "UDP" {
            Protocol::Udp
        } else {
            Protocol::Tcp
        };
        let protocol = named.or(self.protocol.filter(fits)).unwrap_or(plain);
        let is_udp = protocol == Protocol::Udp;
        let algorithms: &[&str] = if is_udp {
            &["roundrobin", "leastconn", "ring_hash"]
        } else {
            &["roundrobin", "leastconn", "source"]
        };
        let algorithm = choose(
            "algorithm",
            &stated_ports.algorithm.or(self.algorithm.clone()),
            algorithms,
        );
        let (sticky, default): (&[&str], _) = match protocol {
            Protocol::Tcp => (&[], None),
            Protocol::Udp => (&["none", "session", "source_ip"], Some("session")),
            Protocol::Http | Protocol::Https => (&["none", "table", "http_cookie"], Some("table")),
        };
        let stickiness = stated_ports
            .stickiness
            .or(self.stickiness.clone())
            .filter(|_| !sticky.is_empty());
        let stickiness = choose("stickiness", &stickiness, sticky).or(default.map(str::to_owned));
        let proxy = stated_ports.proxy_protocol.or(self.proxy_protocol.clone());
        let proxy = choose("proxy-protocol", &proxy, &["none", "v1", "v2"])
            .unwrap_or_else(|| "none".to_owned());
        let udp_check = stated_ports
            .udp_check_port
            .as_ref()
            .map(|text| text.parse::<u16>().ok().filter(|port| *port > 0));
        let secret = stated_ports.tls_secret_name.filter(|name| !name.is_empty());
        for (is_wrong, text) in [
            (
                is_udp && proxy != "none",
                "the PROXY protocol is not possible with UDP",
            ),
            (
                is_udp && secret.is_some(),
                "TLS is not possible with UDP: remove tls-secret-name",
            ),
            (
                protocol == Protocol::Https && secret.is_none(),
                "https needs tls-secret-name",
            ),
            (
                udp_check == Some(None),
                "udp-check-port is not a whole number from 1 to 65535",
            ),
        ] {
            if is_wrong {
                annotations.mistake(format!("annotation {annotation}: {text}"));
            }
        }
        let check = if is_udp {
            "none".to_owned()
        } else {
            self.check
                .clone()
                .unwrap_or_else(|| "connection".to_owned())
        };
        let config = PortConfig {
            port: port.number,
            protocol,
            proxy_protocol: Some(proxy),
            algorithm: algorithm.unwrap_or_else(|| "roundrobin".to_owned()),
            stickiness,
            check,
            check_interval: self.interval,
            check_timeout: self.timeout,
            check_attempts: self.attempts,
            check_path: self.check_path.clone().filter(|_| !is_udp),
            check_body: self.check_body.clone().filter(|_| !is_udp),
            check_passive: self.passive && !is_udp,
            udp_check_port: udp_check
                .flatten()
                .or(self.udp_check_port)
                .filter(|_| is_udp),
            node_port: Some(port.node_port),
            ..PortConfig::default()
        };
        PortSpec {
            number: port.number,
            config,
            secret: secret.filter(|_| protocol == Protocol::Https),
        }
    }
}
