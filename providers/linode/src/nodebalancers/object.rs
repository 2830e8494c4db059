//! NodeBalancers and their configurations, as the API reads and writes them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cloud_provider::{LoadBalancerIngress, Result, Service};
use provider_kit::load_balancers::{
    Attributes, Field, ObservedLoadBalancer, Resource, ResourceGraph, Targets,
};
use provider_kit::status::shown;
use provider_kit::text_tags::{ADOPTED, TextTags};
use serde::{Deserialize, Serialize};

use crate::annotations::{self as key, Protocol};

/// The name of the only pool: each configuration has the same backends, on its own node port.
pub(crate) const POOL: &str = "main";
/// The owner, among tags of 3 to 50 characters.
pub(crate) const OWNER_TAGS: TextTags = TextTags::of_length(50);

/// A NodeBalancer, as the API shows it.
#[derive(Clone, Deserialize)]
pub(crate) struct NodeBalancer {
    pub(crate) id: u64,
    #[serde(default)]
    label: Option<String>,
    region: Option<String>,
    hostname: Option<String>,
    ipv4: Option<String>,
    ipv6: Option<String>,
    #[serde(default)]
    client_conn_throttle: u32,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    /// Type of the frontend address: `public` or `vpc`.
    frontend_address_type: Option<String>,
    frontend_vpc_subnet_id: Option<u64>,
    /// Operations that the API refuses, such as `cannot_delete`.
    pub(crate) locks: Option<Vec<String>>,
}

/// The settings of the NodeBalancer itself.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Settings {
    pub(crate) region: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) ipv4: Option<String>,
    pub(crate) client_conn_throttle: u32,
    pub(crate) tags: Vec<String>,
    pub(crate) firewall_id: Option<u64>,
    /// The network in which clients reach the NodeBalancer: `the Internet` or `subnet 71`.
    pub(crate) frontend: Option<String>,
}

/// Setting of a NodeBalancer that says where clients reach it. It is no field of a request.
pub(crate) const FRONTEND: &str = "frontend";
/// Observed setting of a NodeBalancer: the IDs of attached firewalls that were not created for it.
pub(crate) const ATTACHED: &str = "attached_firewalls";

/// Returns the value of [`FRONTEND`].
pub(crate) fn frontend(subnet: Option<u64>) -> String {
    subnet.map_or_else(|| "the Internet".to_owned(), |id| format!("subnet {id}"))
}

impl Resource for Settings {
    const FIELDS: &'static [Field] = &[
        Field::create_only("region"),
        Field::create_only("type").setting(&key::TYPE),
        Field::create_only("ipv4").setting(&key::RESERVED_IP),
        Field::update("client_conn_throttle").setting(&key::THROTTLE_LIMIT),
        Field::update("tags").setting(&key::TAGS).unordered_list(),
        Field::update("firewall_id").setting(&key::FIREWALL_ID),
        Field::create_only(FRONTEND).setting(&key::FRONTEND_SUBNET_ID),
    ];
}

/// A configuration: how one port is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PortConfig {
    #[serde(skip_serializing)]
    pub(crate) id: u64,
    #[serde(skip_serializing)]
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    pub(crate) proxy_protocol: Option<String>,
    pub(crate) algorithm: String,
    pub(crate) stickiness: Option<String>,
    pub(crate) check: String,
    pub(crate) check_interval: Option<u32>,
    pub(crate) check_timeout: Option<u32>,
    pub(crate) check_attempts: Option<u32>,
    pub(crate) check_path: Option<String>,
    pub(crate) check_body: Option<String>,
    pub(crate) check_passive: bool,
    pub(crate) udp_check_port: Option<u16>,
    pub(crate) ssl_fingerprint: Option<String>,
    /// The port of all nodes; `None` if they differ, or are not those of the other configurations.
    #[serde(skip_deserializing)]
    pub(crate) node_port: Option<u16>,
}

impl Resource for PortConfig {
    const FIELDS: &'static [Field] = &[
        Field::update("protocol").setting(&key::PROTOCOL),
        Field::update("proxy_protocol").setting(&key::PROXY_PROTOCOL),
        Field::update("algorithm").setting(&key::ALGORITHM),
        Field::update("stickiness").setting(&key::STICKY),
        Field::update("check").setting(&key::CHECK),
        Field::update("check_interval").setting(&key::CHECK_INTERVAL),
        Field::update("check_timeout").setting(&key::CHECK_TIMEOUT),
        Field::update("check_attempts").setting(&key::CHECK_ATTEMPTS),
        Field::update("check_path").setting(&key::CHECK_PATH),
        Field::update("check_body").setting(&key::CHECK_BODY),
        Field::update("check_passive").setting(&key::CHECK_PASSIVE),
        Field::update("udp_check_port").setting(&key::UDP_CHECK_PORT),
        Field::update("ssl_fingerprint"),
        Field::update("node_port"),
    ];
}

impl PortConfig {
    /// The settings that are compared where there are no backends.
    pub(crate) const WITHOUT_BACKENDS: [&str; 14] = [
        provider_kit::load_balancers::POOL,
        "protocol",
        "proxy_protocol",
        "algorithm",
        "stickiness",
        "check",
        "check_interval",
        "check_timeout",
        "check_attempts",
        "check_path",
        "check_body",
        "check_passive",
        "udp_check_port",
        "ssl_fingerprint",
    ];

    /// Returns the transport protocol. TCP and UDP can share a port.
    pub(crate) fn transport(&self) -> &'static str {
        if self.protocol == Protocol::Udp {
            "UDP"
        } else {
            "TCP"
        }
    }
}

/// A backend of one configuration.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Backend {
    pub(crate) id: u64,
    pub(crate) address: String,
}

impl Backend {
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        self.address.parse().ok()
    }
}

/// Returns the key by which the Go cloud-controller-manager finds a NodeBalancer: the ID in the annotation, else the
/// first address of the status, else its host name, which begins with the IPv4 address.
pub(crate) fn legacy_owner(service: &Service) -> Option<String> {
    let requested = requested_id(service).map(|id| format!("ID {id}"));
    let ip = || {
        shown(service)
            .iter()
            .find_map(|entry| Some(entry.ip.as_ref()?.parse::<IpAddr>().ok()?.to_string()))
    };
    let name = || {
        shown(service)
            .iter()
            .find_map(|entry| entry.hostname.clone())
    };
    let ip = || ip().or_else(|| named_address(&name()?).map(|ip| ip.to_string()));
    let subnet = key::FRONTEND_SUBNET_ID
        .text_on(service)
        .and_then(|text| text.trim().parse().ok());
    requested
        .or_else(|| ip().map(|ip| in_subnet(&ip, subnet)))
        .or_else(name)
}

/// Returns the addresses that the Service shows.
pub(crate) fn shown_addresses(service: &Service) -> Vec<String> {
    shown(service)
        .iter()
        .filter_map(|entry| entry.ip.clone())
        .collect()
}

/// Returns the legacy owner tag of a NodeBalancer with this address. In VPCs, several can have one address.
fn in_subnet(ip: &str, subnet: Option<u64>) -> String {
    subnet.map_or_else(
        || ip.to_owned(),
        |subnet| format!("{ip} in subnet {subnet}"),
    )
}

/// Returns the address in `203-0-113-9.ip.linodeusercontent.com`.
fn named_address(hostname: &str) -> Option<Ipv4Addr> {
    let name = hostname.split('.').next()?;
    name.strip_prefix("nb-")
        .unwrap_or(name)
        .replace('-', ".")
        .parse()
        .ok()
}

/// Returns the ID in the annotation. A text that is not a number is a mistake of the spec.
pub(crate) fn requested_id(service: &Service) -> Option<String> {
    let id = key::ID
        .text_on(service)?
        .trim()
        .parse::<u64>()
        .ok()
        .filter(|id| *id > 0)?;
    Some(id.to_string())
}

impl NodeBalancer {
    /// Returns `true` if the Go cloud controller manager would use this NodeBalancer for a Service with this legacy
    /// owner tag.
    pub(crate) fn is_found_by(&self, legacy_owner: &str) -> bool {
        let is_this_text = |text: &Option<String>| text.as_deref() == Some(legacy_owner);
        is_this_text(&self.ipv4)
            || is_this_text(
                &self
                    .ipv4
                    .as_deref()
                    .map(|ip| in_subnet(ip, self.frontend_vpc_subnet_id)),
            )
            || self.ipv6_address().as_deref() == Some(legacy_owner)
            || is_this_text(&self.hostname)
            || legacy_owner == format!("ID {}", self.id)
    }

    fn ipv6_address(&self) -> Option<String> {
        crate::vpcs::without_length(self.ipv6.as_deref()?).map(|ip| ip.to_string())
    }

    /// Converts the NodeBalancer to what the engine compares, without its resources.
    pub(crate) fn into_actual(mut self) -> ObservedLoadBalancer {
        let owner_tags = OWNER_TAGS.take_from(&mut self.tags);
        let adopted = self.tags.iter().any(|tag| tag == ADOPTED);
        self.tags.retain(|tag| tag != ADOPTED);
        let hostname = self.hostname.clone().filter(|name| !name.is_empty());
        let entry = |ip: String| LoadBalancerIngress {
            hostname: hostname.clone(),
            ..ObservedLoadBalancer::ip(&ip)
        };
        ObservedLoadBalancer {
            id: self.id.to_string(),
            ingress: self
                .ipv4
                .clone()
                .into_iter()
                .chain(self.ipv6_address())
                .map(entry)
                .collect(),
            name: self.label.unwrap_or_default(),
            owner_tags,
            adopted,
            labels: self
                .tags
                .into_iter()
                .map(|tag| (tag, String::new()))
                .collect(),
            legacy_owner: self
                .ipv4
                .as_deref()
                .map(|ip| in_subnet(ip, self.frontend_vpc_subnet_id)),
            ..ObservedLoadBalancer::default()
        }
    }

    fn settings(&self, firewall_id: Option<u64>) -> Settings {
        let mut tags = self.tags.clone();
        let _ = OWNER_TAGS.take_from(&mut tags);
        tags.retain(|tag| tag != ADOPTED);
        Settings {
            region: self.region.clone(),
            kind: self.kind.clone(),
            ipv4: self.ipv4.clone(),
            client_conn_throttle: self.client_conn_throttle,
            tags,
            firewall_id,
            frontend: self
                .frontend_address_type
                .as_ref()
                .map(|_| frontend(self.frontend_vpc_subnet_id)),
        }
    }

    /// Builds the resources from the configurations and their backends.
    pub(crate) fn graph(
        &self,
        configs: Vec<(PortConfig, Vec<Backend>)>,
        attached: &[u64],
    ) -> Result<ResourceGraph> {
        let ips = |backends: &[Backend]| -> Targets {
            let sockets = backends.iter().filter_map(Backend::socket);
            sockets.map(|address| address.ip().to_string()).collect()
        };
        let none = Targets::default();
        let targets = configs
            .iter()
            .fold(none, |all, (_, backends)| all.with(&ips(backends)));
        let settings = Attributes::observed(&self.settings(attached.first().copied()))?
            .set(ATTACHED, attached);
        let mut graph = ResourceGraph::default().balancer(settings);
        for (mut config, backends) in configs {
            let mut ports: Vec<u16> = backends
                .iter()
                .filter_map(|backend| Some(backend.socket()?.port()))
                .collect();
            ports.dedup();
            let is_whole = ips(&backends) == targets && ports.len() == 1;
            config.node_port = ports.first().copied().filter(|_| is_whole);
            config.check_path = config
                .check_path
                .filter(|check_path| !check_path.is_empty());
            config.check_body = config
                .check_body
                .filter(|check_body| !check_body.is_empty());
            let fingerprint = config
                .ssl_fingerprint
                .map(|ssl_fingerprint| ssl_fingerprint.replace(':', "").to_lowercase());
            config.ssl_fingerprint = fingerprint.filter(|fingerprint| !fingerprint.is_empty());
            graph = graph.listener(
                config.port,
                config.transport(),
                POOL,
                Attributes::observed(&config)?,
            );
        }
        Ok(graph.pool(POOL, Attributes::default(), Some(targets)))
    }
}
