//! A Service, parsed once: the spec of its load balancer, except for facts from the cloud.

use cloud_provider::Service;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::load_balancers::{ServicePort, filled, service_ports};
use provider_kit::source_ranges::{allows_all, configured_source_ranges};

use super::object::{
    ForwardingRule, HealthCheck, KUBE_PROXY_PATH, LoadBalancer, Normal, Sources, StickySessions,
};
use crate::annotations as key;
use crate::annotations::{Network, NetworkStack, Protocol};
use crate::config::{Config, LoadBalancerType};

/// The port at which kube-proxy answers health checks of all Services.
const KUBE_PROXY_PORT: u16 = 10256;
/// Ports that network load balancers keep for themselves.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 50053..=50055;

/// Load balancer configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    /// The load balancer without its certificate, targets, region and owner.
    pub(crate) load_balancer: LoadBalancer,
    /// The certificate of the rules that end TLS.
    pub(crate) certificate: Option<Certificate>,
    /// If set, an annotation sets the type; the next flag is the same for the network.
    pub(crate) states_type: bool,
    pub(crate) states_network: bool,
    /// If set, the load balancer may be replaced; the next flag also permits an interruption.
    pub(crate) allows_recreation: bool,
    pub(crate) allows_interruption: bool,
    /// The name that the Service shows instead of addresses.
    pub(crate) hostname: Option<String>,
    /// Warnings for the user about settings that work.
    pub(crate) warnings: Vec<String>,
}

/// A certificate, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    Id(String),
    Name(String),
}

/// Protocols of the ports.
struct Protocols {
    default: Protocol,
    http: Vec<u16>,
    tls: Vec<u16>,
    http2: Vec<u16>,
    http3: Option<u16>,
    passthrough: bool,
    has_certificate: bool,
}

impl Spec {
    /// Parses a Service's annotations and ports.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let text = |text: Option<String>| {
            text.map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let states_type = annotations.is_set(&key::TYPE);
        let states_network = annotations.is_set(&key::NETWORK);
        let kind = annotations
            .get(&key::TYPE)
            .unwrap_or(config.load_balancer_type);
        let id = text(annotations.get(&key::CERTIFICATE_ID));
        let name = text(annotations.get(&key::CERTIFICATE_NAME));
        let certificate = id.map(Certificate::Id).or(name.map(Certificate::Name));
        let ports = ports(service, &mut annotations);
        let forwarding_rules = match kind {
            LoadBalancerType::Regional => {
                let protocols = Protocols::of(&mut annotations, certificate.is_some(), &ports);
                let rules = ports
                    .iter()
                    .map(|port| protocols.rule(*port, &mut annotations));
                let mut rules: Vec<_> = rules.collect();
                rules.extend(protocols.http3_rule(&ports, &mut annotations));
                rules
            }
            LoadBalancerType::RegionalNetwork => {
                warn_of_proxy_settings(&mut annotations);
                ports
                    .iter()
                    .map(|port| network_rule(*port, &mut annotations))
                    .collect()
            }
        };
        let filled: LoadBalancer = filled(&mut annotations);
        let wanted_ip = || text(service.spec.as_ref()?.load_balancer_ip.clone());
        let load_balancer = LoadBalancer {
            name: super::name_of(service),
            kind,
            forwarding_rules,
            size_unit: filled.size_unit.filter(|unit| *unit != 0),
            ip: filled.ip.clone().or_else(wanted_ip),
            vpc_uuid: config.vpc.clone(),
            health_check: health_check(service, &ports, &mut annotations).normal(),
            sticky_sessions: sticky_sessions(&mut annotations).normal(),
            firewall: sources(service, &mut annotations).normal(),
            ..filled
        };
        if load_balancer.size.is_some() && load_balancer.size_unit.is_some() {
            let size = key::SIZE_SLUG.key();
            let unit = key::SIZE_UNIT.key();
            annotations.mistake(format!(
                "annotations {size} and {unit} are both set: only one can be"
            ));
        }
        if load_balancer.network == Network::Internal
            && load_balancer.network_stack == Some(NetworkStack::Dualstack)
        {
            let stack = key::NETWORK_STACK.key();
            let network = key::NETWORK.key();
            annotations.mistake(format!(
                "annotation {stack}: DUALSTACK is not possible with annotation {network}: INTERNAL"
            ));
        }
        // Read to report an invalid value, although it is not used here.
        annotations.get(&key::ID);
        annotations.get(&key::NAME);
        annotations.get(&key::DISOWN);
        annotations.get(&key::FIREWALL_MANAGED);
        // Both together are a mistake, which is enough.
        let passes_tls = annotations.get(&key::TLS_PASSTHROUGH) == Some(true);
        if certificate.is_some()
            && !passes_tls
            && kind == LoadBalancerType::Regional
            && !load_balancer
                .forwarding_rules
                .iter()
                .any(ForwardingRule::ends_tls)
        {
            let id = key::CERTIFICATE_ID.key();
            let tls = key::TLS_PORTS.key();
            annotations.warning(format!(
                "annotation {id} or {} has no effect: no port of the Service speaks TLS; add port 443, or set annotation {tls}",
                key::CERTIFICATE_NAME.key()
            ));
        }
        let affinity = service
            .spec
            .as_ref()
            .and_then(|spec| spec.session_affinity.as_deref());
        if affinity == Some("ClientIP") && kind == LoadBalancerType::Regional {
            annotations.warning(format!(
                "sessionAffinity: ClientIP has no effect on the load balancer, which sends its own address to Nodes; set annotation \
                 {}: cookies for HTTP",
                key::STICKY_TYPE.key()
            ));
        }
        let hostname = annotations
            .get(&key::HOSTNAME)
            .filter(|name| !name.is_empty());
        annotations.unknown(key::PREFIX, key::ALL);
        annotations.unknown(key::DISOWN_PREFIX, key::OTHERS);
        annotations.unknown(key::CLUSTER_PREFIX, key::OTHERS);
        let allows_recreation = annotations.get(&key::ALLOW_RECREATE).unwrap_or_default();
        let allows_interruption = annotations
            .get(&key::ALLOW_INTERRUPTION)
            .unwrap_or_default();
        let warnings = annotations.warnings().to_vec();
        annotations.parsed(Self {
            load_balancer,
            certificate,
            states_type,
            states_network,
            allows_recreation,
            allows_interruption,
            hostname,
            warnings,
        })
    }

    /// Returns `true` if a rule ends TLS.
    pub(crate) fn needs_certificate(&self) -> bool {
        self.load_balancer
            .forwarding_rules
            .iter()
            .any(ForwardingRule::ends_tls)
    }
}

impl ForwardingRule {
    /// Returns `true` if the load balancer decrypts the traffic, for which it needs a certificate.
    pub(crate) fn ends_tls(&self) -> bool {
        let is_encrypted = matches!(
            self.entry_protocol,
            Protocol::Https | Protocol::Http2 | Protocol::Http3
        );
        is_encrypted && !self.tls_passthrough
    }
}

/// Returns the ports of the Service, and reports errors in them.
fn ports(service: &Service, annotations: &mut Annotations<'_>) -> Vec<ServicePort> {
    service_ports(service, &["TCP", "UDP"]).unwrap_or_else(|error| {
        annotations.mistake(error.to_string());
        Vec::new()
    })
}

impl Protocols {
    fn of(annotations: &mut Annotations<'_>, has_certificate: bool, ports: &[ServicePort]) -> Self {
        let passthrough = annotations.get(&key::TLS_PASSTHROUGH).unwrap_or_default();
        let http = annotations.get(&key::HTTP_PORTS);
        let http2 = annotations.get(&key::HTTP2_PORTS);
        let http = http.unwrap_or_default();
        let http2 = http2.unwrap_or_default();
        let mut tls = annotations.get(&key::TLS_PORTS).unwrap_or_default();
        let is_secured = has_certificate || passthrough;
        if is_secured && !annotations.is_set(&key::TLS_PORTS) && !http2.contains(&443) {
            tls.push(443);
        }
        let mut all: Vec<u16> = http.iter().chain(&tls).chain(&http2).copied().collect();
        all.sort_unstable();
        let twice: Vec<_> = all
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0].to_string())
            .collect();
        if !twice.is_empty() {
            let [http, tls, http2] = [key::HTTP_PORTS, key::TLS_PORTS, key::HTTP2_PORTS]
                .map(|declaration| declaration.key());
            annotations.mistake(format!(
                "annotations {http}, {tls} and {http2}: ports {} are in two of them",
                twice.join(", ")
            ));
        }
        if has_certificate && passthrough && ports.iter().any(|port| tls.contains(&port.number)) {
            let id = key::CERTIFICATE_ID.key();
            let tls = key::TLS_PASSTHROUGH.key();
            annotations.mistake(format!(
                "annotations {id} and {tls} are both set: only one can be"
            ));
        }
        let default = annotations.get(&key::PROTOCOL).unwrap_or_default();
        let http3 = annotations.get(&key::HTTP3_PORT);
        Self {
            default,
            http,
            tls,
            http2,
            http3,
            passthrough,
            has_certificate,
        }
    }

    fn rule(&self, port: ServicePort, annotations: &mut Annotations<'_>) -> ForwardingRule {
        let is_in = |ports: &[u16]| ports.contains(&port.number);
        let entry_protocol = match port.protocol {
            "UDP" => Protocol::Udp,
            _ if is_in(&self.http2) => Protocol::Http2,
            _ if is_in(&self.tls) => Protocol::Https,
            _ if is_in(&self.http) => Protocol::Http,
            _ => self.default,
        };
        let rule = ForwardingRule {
            entry_protocol,
            entry_port: port.number,
            target_protocol: entry_protocol,
            target_port: port.node_port,
            ..ForwardingRule::default()
        };
        match entry_protocol {
            Protocol::Https | Protocol::Http2 | Protocol::Http3 if self.passthrough => {
                ForwardingRule {
                    tls_passthrough: true,
                    ..rule
                }
            }
            Protocol::Https | Protocol::Http2 | Protocol::Http3 => {
                if !self.has_certificate {
                    let [id, name, tls] = [
                        key::CERTIFICATE_ID.key(),
                        key::CERTIFICATE_NAME.key(),
                        key::TLS_PASSTHROUGH.key(),
                    ];
                    annotations.mistake(format!(
                        "port {} speaks TLS: set annotation {id}, {name} or {tls}",
                        port.number
                    ));
                }
                ForwardingRule {
                    target_protocol: Protocol::Http,
                    ..rule
                }
            }
            _ => rule,
        }
    }

    /// Returns the rule for HTTP/3, in addition to the one for TCP on its port.
    fn http3_rule(
        &self,
        ports: &[ServicePort],
        annotations: &mut Annotations<'_>,
    ) -> Option<ForwardingRule> {
        let number = self.http3?;
        if self.passthrough || !self.has_certificate {
            annotations.mistake(format!(
                "annotation {}: HTTP/3 needs a certificate, not passthrough",
                key::HTTP3_PORT.key()
            ));
        }
        let port = ports
            .iter()
            .find(|port| port.number == number && port.protocol == "TCP")?;
        Some(ForwardingRule {
            entry_protocol: Protocol::Http3,
            entry_port: number,
            target_protocol: Protocol::Http,
            target_port: port.node_port,
            ..ForwardingRule::default()
        })
    }
}

/// Warns of settings that a network load balancer does not have.
fn warn_of_proxy_settings(annotations: &mut Annotations<'_>) {
    let settings = [
        (key::PROTOCOL.key(), annotations.is_set(&key::PROTOCOL)),
        (key::HTTP_PORTS.key(), annotations.is_set(&key::HTTP_PORTS)),
        (key::TLS_PORTS.key(), annotations.is_set(&key::TLS_PORTS)),
        (
            key::HTTP2_PORTS.key(),
            annotations.is_set(&key::HTTP2_PORTS),
        ),
        (key::HTTP3_PORT.key(), annotations.is_set(&key::HTTP3_PORT)),
        (
            key::TLS_PASSTHROUGH.key(),
            annotations.is_set(&key::TLS_PASSTHROUGH),
        ),
        (
            key::CERTIFICATE_ID.key(),
            annotations.is_set(&key::CERTIFICATE_ID),
        ),
        (
            key::CERTIFICATE_NAME.key(),
            annotations.is_set(&key::CERTIFICATE_NAME),
        ),
    ];
    for (setting, _) in settings.into_iter().filter(|(_, is_set)| *is_set) {
        annotations.warning(format!(
            "annotation {setting} has no effect unless {} is REGIONAL",
            key::TYPE.key()
        ));
    }
}

/// Returns the rule of a network load balancer. Such a load balancer changes neither the port nor the destination
/// address of packets.
fn network_rule(port: ServicePort, annotations: &mut Annotations<'_>) -> ForwardingRule {
    if RESERVED_PORTS.contains(&port.number) {
        annotations.mistake(format!(
            "port {} is reserved: network load balancers do not take 50053 to 50055",
            port.number
        ));
    }
    let protocol = if port.protocol == "UDP" {
        Protocol::Udp
    } else {
        Protocol::Tcp
    };
    ForwardingRule {
        entry_protocol: protocol,
        entry_port: port.number,
        target_protocol: protocol,
        target_port: port.number,
        ..ForwardingRule::default()
    }
}

fn sticky_sessions(annotations: &mut Annotations<'_>) -> StickySessions {
    if annotations.get(&key::STICKY_TYPE) != Some(true) {
        for (setting, is_set) in [
            (
                key::STICKY_NAME.key(),
                annotations.is_set(&key::STICKY_NAME),
            ),
            (key::STICKY_TTL.key(), annotations.is_set(&key::STICKY_TTL)),
        ] {
            if is_set {
                let kind = key::STICKY_TYPE.key();
                annotations.warning(format!(
                    "annotation {setting} has no effect without annotation {kind}: cookies"
                ));
            }
        }
        return StickySessions::default();
    }
    let has_name = annotations.is_set(&key::STICKY_NAME);
    let has_lifetime = annotations.is_set(&key::STICKY_TTL);
    let mut require = |key: &str, is_set: bool| {
        if !is_set {
            annotations.mistake(format!(
                "annotation {key} is required with annotation {}: cookies",
                key::STICKY_TYPE.key()
            ));
        }
    };
    require(key::STICKY_NAME.key(), has_name);
    require(key::STICKY_TTL.key(), has_lifetime);
    StickySessions {
        kind: "cookies".to_owned(),
        cookie_name: annotations.get(&key::STICKY_NAME),
        cookie_ttl_seconds: annotations.get(&key::STICKY_TTL),
    }
}

/// Returns the port of the Nodes for the health checks of a Service: the default, unless the Service has another.
pub(crate) fn check_port(service: &Service) -> u16 {
    let node_health_check = provider_kit::health_check::HealthCheck::of(service);
    node_health_check
        .and_then(|check| u16::try_from(check.port).ok())
        .unwrap_or(KUBE_PROXY_PORT)
}

fn health_check(
    service: &Service,
    ports: &[ServicePort],
    annotations: &mut Annotations<'_>,
) -> HealthCheck {
    let check = HealthCheck {
        protocol: Protocol::Http,
        port: check_port(service),
        path: Some(KUBE_PROXY_PATH.to_owned()),
        check_interval_seconds: annotations.get(&key::CHECK_INTERVAL).unwrap_or_default(),
        response_timeout_seconds: annotations.get(&key::CHECK_TIMEOUT).unwrap_or_default(),
        unhealthy_threshold: annotations.get(&key::CHECK_UNHEALTHY).unwrap_or_default(),
        healthy_threshold: annotations.get(&key::CHECK_HEALTHY).unwrap_or_default(),
        proxy_protocol: None,
    };
    let wanted = annotations.get(&key::CHECK_PORT);
    let path = annotations
        .get(&key::CHECK_PATH)
        .filter(|path| !path.is_empty());
    let protocol = annotations.get(&key::CHECK_PROTOCOL);
    if !annotations.is_set(&key::CHECK_OVERRIDE) {
        for (setting, is_set) in [
            (key::CHECK_PORT.key(), wanted.is_some()),
            (key::CHECK_PATH.key(), path.is_some()),
            (key::CHECK_PROTOCOL.key(), protocol.is_some()),
        ] {
            if is_set {
                annotations.warning(format!(
                    "annotation {setting} has no effect without annotation {}: health checks are those of kube-proxy, HTTP on \
                     port {} with path {KUBE_PROXY_PATH}",
                    key::CHECK_OVERRIDE.key(),
                    check.port
                ));
            }
        }
        return check;
    }
    let mut tcp = ports.iter().filter(|port| port.protocol == "TCP");
    let port = match wanted {
        Some(wanted) => tcp.find(|port| port.number == wanted),
        None => tcp.next(),
    };
    if port.is_none() && !ports.is_empty() {
        let key = key::CHECK_PORT.key();
        annotations.mistake(match wanted {
            Some(wanted) => format!("annotation {key}: the Service has no TCP port {wanted}"),
            None => format!(
                "annotation {}: the Service has no TCP port to check",
                key::CHECK_OVERRIDE.key()
            ),
        });
    }
    let default = if path.is_some() {
        Protocol::Http
    } else {
        Protocol::Tcp
    };
    let port = port.map_or(0, |port| port.node_port);
    HealthCheck {
        protocol: protocol.unwrap_or(default),
        port,
        path,
        ..check
    }
}

fn sources(service: &Service, annotations: &mut Annotations<'_>) -> Sources {
    let mut allow = annotations.get(&key::ALLOW_RULES).unwrap_or_default();
    let deny = annotations.get(&key::DENY_RULES);
    match configured_source_ranges(service) {
        Ok(ranges) if ranges.is_empty() => {}
        Ok(ranges) if allows_all(&ranges) => allow = Vec::new(),
        Ok(ranges) => allow = ranges.iter().map(|range| format!("cidr:{range}")).collect(),
        Err(error) => annotations.mistake(error.to_string()),
    }
    Sources {
        allow,
        deny: deny.unwrap_or_default(),
    }
}
