//! The annotations of Services, and the Service parsed into the settings of its load balancer.

use cloud_provider::Service;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::declared::{Kind, Value};
use provider_kit::load_balancers::{ServicePort, service_ports};

use crate::config::{Config, MAX_SCALE, SERVICE_PORTS};

/// The prefix of all annotations.
pub const PREFIX: &str = "service.beta.kubernetes.io/rancher-load-balancer-";
/// The port at which Rancher checks the health of load balancers.
const CHECK_PORT: u16 = 42;

/// The protocol that a port of a load balancer speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Connections are passed on.
    #[default]
    Tcp,
    /// Requests are passed on.
    Http,
    /// Requests are decrypted and passed on.
    Https,
    /// Connections are decrypted and passed on.
    Tls,
}

impl Protocol {
    const ALL: [(Self, &str); 4] = [
        (Self::Tcp, "tcp"),
        (Self::Http, "http"),
        (Self::Https, "https"),
        (Self::Tls, "tls"),
    ];

    fn of(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, name)| *name == word)
            .map(|(protocol, _)| *protocol)
    }

    /// Returns the word of the API.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(protocol, _)| *protocol == self)
            .map_or("tcp", |(_, name)| name)
    }
}

/// The protocol of one port, written `443=https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortProtocol {
    port: u16,
    protocol: Protocol,
}

const PORT_PROTOCOLS: Kind<Vec<PortProtocol>> = Kind::of(
    "a list such as 80=http,443=https of ports and the protocols tcp, http, https, tls",
    |text| {
        let one = |text: &str| {
            let (port, protocol) = text.split_once('=')?;
            Some(PortProtocol {
                port: port.trim().parse().ok()?,
                protocol: Protocol::of(protocol.trim())?,
            })
        };
        text.split(',').map(one).collect()
    },
);

impl Value for PortProtocol {
    const KIND: Kind<Self> = Kind::of("a port and its protocol, such as 443=https", |text| {
        PORT_PROTOCOLS.parse(text)?.pop()
    });
}

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/rancher-load-balancer-";

    /// Number of containers of the load balancer, each on a host of its own. The variable `CATTLE_MAX_SCALE` limits it.
    pub SCALE: u32 = "scale", kind(Kind::number(1, 1000)), default_description("Rancher's: 1"),
        reaches("run up to 1000 containers on hosts of all tenants, or as many as `CATTLE_MAX_SCALE` allows");
    /// Protocols of ports, such as `80=http,443=https`. A port that is not named speaks `tcp`.
    pub PROTOCOLS: Vec<PortProtocol> = "protocols", kind(PORT_PROTOCOLS);
    /// IDs of certificates in Rancher for the protocols `https` and `tls`, such as `1c5`. The first one is the default.
    pub CERTIFICATES: Vec<String> = "certificate-ids", reaches("use any certificate of the environment");
    /// Name of a cookie that keeps a client at one Node. It needs the protocol `http` or `https`.
    pub COOKIE: String = "stickiness-cookie";
}

/// Load balancer configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadBalancerSpec {
    pub(crate) ports: Vec<PortSpec>,
    pub(crate) scale: Option<u32>,
    pub(crate) certificates: Option<Vec<String>>,
    pub(crate) cookie: Option<String>,
}

/// A port of a Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortSpec {
    pub(crate) number: u16,
    pub(crate) node_port: u16,
    pub(crate) protocol: Protocol,
}

impl LoadBalancerSpec {
    /// Parses the annotations and ports of a Service.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let scale = annotations.get(&SCALE);
        let certificates = annotations.get(&CERTIFICATES);
        let protocols = annotations.get(&PROTOCOLS).unwrap_or_default();
        let cookie = annotations.get(&COOKIE);
        annotations.unknown(PREFIX, ALL);
        let ports = service_ports(service, &["TCP"]).unwrap_or_else(|error| {
            annotations.mistake(error.to_string());
            Vec::new()
        });
        let protocol = |number| {
            protocols
                .iter()
                .find(|port_protocol| port_protocol.port == number)
                .map(|port_protocol| port_protocol.protocol)
        };
        let port = |port: &ServicePort| PortSpec {
            number: port.number,
            node_port: port.node_port,
            protocol: protocol(port.number).unwrap_or_default(),
        };
        let ports: Vec<_> = ports.iter().map(port).collect();
        let speaks = |all: &[Protocol]| ports.iter().any(|port| all.contains(&port.protocol));
        if let Some(other) = protocols
            .iter()
            .find(|other| !ports.iter().any(|port| port.number == other.port))
        {
            annotations.mistake(format!(
                "annotation {}: the Service has no port {}",
                PROTOCOLS.key(),
                other.port
            ));
        }
        if speaks(&[Protocol::Https, Protocol::Tls])
            && certificates.as_ref().is_none_or(Vec::is_empty)
        {
            let [certificates, protocols] = [CERTIFICATES.key(), PROTOCOLS.key()];
            annotations.mistake(format!(
                "annotation {protocols}: https and tls need annotation {certificates}"
            ));
        }
        if cookie.is_some() && !speaks(&[Protocol::Http, Protocol::Https]) {
            let [cookie, protocols] = [COOKIE.key(), PROTOCOLS.key()];
            annotations.mistake(format!(
                "annotation {cookie}: only http and https have cookies; set annotation {protocols}"
            ));
        }
        let max = config.max_scale;
        if let Some(scale) = scale.filter(|scale| *scale > max) {
            let key = SCALE.key();
            let limit = MAX_SCALE.key();
            annotations.mistake(format!(
                "annotation {key}: {scale} is more than {limit} of the program allows; use at most {max}"
            ));
        }
        if let Some(allowed) = &config.service_ports {
            for port in ports.iter().filter(|port| !allowed.contains(port.number)) {
                annotations.mistake(format!(
                    "port {}: load balancers may not publish it on hosts; use one of those that {} of the program allows: {allowed}",
                    port.number,
                    SERVICE_PORTS.key()
                ));
            }
        }
        if ports.iter().any(|port| port.number == CHECK_PORT) {
            annotations.mistake(format!(
                "port {CHECK_PORT}: Rancher reserves it for the health check of load balancers"
            ));
        }
        let spec = service.spec.clone().unwrap_or_default();
        if spec.load_balancer_ip.is_some_and(|ip| !ip.is_empty()) {
            annotations
                .mistake("spec.loadBalancerIP: a load balancer of Rancher has the addresses of its hosts; remove it");
        }
        if let Some(affinity) = spec
            .session_affinity
            .filter(|session_affinity| !session_affinity.is_empty() && session_affinity != "None")
        {
            let cookie = COOKIE.key();
            annotations.mistake(format!(
                "spec.sessionAffinity: {affinity:?} is not supported, only \"None\"; use annotation {cookie} for http"
            ));
        }
        annotations.parsed(Self {
            ports,
            scale,
            certificates,
            cookie,
        })
    }
}
