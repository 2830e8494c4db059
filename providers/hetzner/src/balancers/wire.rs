//! Load balancers as the API reads and writes them, and as the kit compares them.
//!
//! A service of the API becomes a listener whose settings are named by their place in the service
//! (`health_check.http.path`), so that what nobody states can stay as it is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use provider_kit::load_balancers::{Actual, Attributes, Marks, Part, Port, Targets, Tree};
use serde::Deserialize;
use serde_json::{Value, json};

use super::adoption::ADOPTED;

/// Whose it is, as the reference writes it.
pub(super) const SIGN: &str = "hcloud-ccm/service-uid";
/// Targets are those of the whole load balancer.
pub(super) const POOL: &str = "main";
pub(super) const NETWORK: &str = "network";
pub(super) const CERTIFICATE: &str = "certificate";
pub(super) const CERTIFICATES: &str = "http.certificates";
/// Where a load balancer stands. Not named as the settings that decide about it once, or a plan would overwrite them.
pub(super) const LOCATION: &str = "current_location";
pub(super) const NETWORK_ZONE: &str = "current_network_zone";

/// Settings of a service, by their place in it.
const SERVICE: [&str; 18] = [
    "protocol",
    "destination_port",
    "proxyprotocol",
    "http.cookie_name",
    "http.cookie_lifetime",
    "http.timeout_idle",
    CERTIFICATES,
    "http.redirect_http",
    "http.sticky_sessions",
    "health_check.protocol",
    "health_check.port",
    "health_check.interval",
    "health_check.timeout",
    "health_check.retries",
    "health_check.http.domain",
    "health_check.http.path",
    "health_check.http.status_codes",
    "health_check.http.tls",
];

/// A load balancer, as the API shows it.
#[derive(Deserialize)]
pub(super) struct LoadBalancer {
    id: u64,
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    public_net: PublicNet,
    #[serde(default)]
    private_net: Vec<PrivateNet>,
    load_balancer_type: Kind,
    #[serde(default)]
    location: Location,
    algorithm: Algorithm,
    #[serde(default)]
    protection: Protection,
    #[serde(default)]
    services: Vec<Value>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct PublicNet {
    enabled: bool,
    ipv4: Option<Address>,
    ipv6: Option<Address>,
}

#[derive(Default, Deserialize)]
struct Address {
    ip: Option<String>,
    dns_ptr: Option<String>,
}

#[derive(Deserialize)]
struct PrivateNet {
    network: u64,
    ip: Option<String>,
}

#[derive(Deserialize)]
struct Kind {
    name: String,
    max_targets: usize,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Location {
    name: String,
    network_zone: String,
}

#[derive(Deserialize)]
struct Algorithm {
    r#type: String,
}

#[derive(Default, Deserialize)]
struct Protection {
    delete: bool,
}

#[derive(Deserialize)]
struct Target {
    server: Option<Server>,
    ip: Option<TargetIp>,
    #[serde(default)]
    use_private_ip: bool,
}

#[derive(Deserialize)]
struct Server {
    id: u64,
}

#[derive(Deserialize)]
struct TargetIp {
    ip: String,
}

/// The part for an attachment to a network. The one that counts has no name.
pub(super) fn network_part(name: &str) -> Part {
    Part::support(1, NETWORK, name)
}

/// The part for a certificate that is still to be made.
pub(super) fn certificate_part(name: &str) -> Part {
    Part::support(0, CERTIFICATE, name)
}

/// Whether each interface has got its address.
pub(super) fn has_addresses(tree: &Tree) -> bool {
    let is_public = |it: &Attributes| it.get("public") == Some(&json!(true));
    let public = tree.balancer_attributes().is_none_or(|it| !is_public(it) || it.text("ipv4").is_some());
    let is_there = |(part, settings): (&Part, &Attributes)| !part.is_of_kind(NETWORK) || settings.text("ip").is_some();
    public && tree.parts.iter().all(is_there)
}

/// A server as a target.
pub(super) fn server_target(id: u64, is_private: bool) -> String {
    format!("server:{id}{}", if is_private { ":private" } else { "" })
}

/// An address as a target, however it is written.
pub(super) fn ip_target(ip: &str) -> String {
    ip.parse().map_or_else(|_| format!("ip:{ip}"), |ip: IpAddr| format!("ip:{ip}"))
}

/// A name in the DNS as it is compared.
pub(super) fn domain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// A target without the way it is reached: what is taken out, and what can be there only once.
pub(super) fn machine(target: &str) -> &str {
    target.strip_suffix(":private").unwrap_or(target)
}

/// A target, as the API is told to add it.
pub(super) fn to_add(target: &str) -> Value {
    let mut value = to_remove(target);
    if target.starts_with("server:") {
        value["use_private_ip"] = json!(machine(target) != target);
    }
    value
}

/// A target, as the API is told to take it out.
pub(super) fn to_remove(target: &str) -> Value {
    match machine(target).split_once(':') {
        Some(("server", id)) => json!({"type": "server", "server": {"id": id.parse::<u64>().unwrap_or_default()}}),
        _ => json!({"type": "ip", "ip": {"ip": target.trim_start_matches("ip:")}}),
    }
}

/// A service, as the API is told it: all that is set, but nothing for HTTP where there is none.
pub(super) fn to_service(port: &Port, settings: &Attributes) -> Value {
    let is_tcp = |key| settings.text(key) == Some("tcp");
    let (plain, unchecked) = (is_tcp("protocol"), is_tcp("health_check.protocol"));
    let is_void = |key: &&str| plain && key.starts_with("http.") || unchecked && key.starts_with("health_check.http.");
    let keys: Vec<&str> = SERVICE.into_iter().filter(|key| !is_void(key)).collect();
    settings.clone().only(&keys).set("listen_port", port.number).nested()
}

impl LoadBalancer {
    /// What the kit compares. `network`: the one that counts.
    pub(super) fn into_actual(mut self, network: Option<u64>) -> Actual {
        let marks = Marks::take_from(&mut self.labels);
        let public = [&self.public_net.ipv4, &self.public_net.ipv6].into_iter().flatten().map(|it| &it.ip);
        let all = public.chain(self.private_net.iter().map(|it| &it.ip)).flatten();
        Actual {
            id: self.id.to_string(),
            ingress: all.map(|ip| Actual::ip(ip)).collect(),
            tree: Some(self.tree(network)),
            name: self.name,
            marks,
            sign: self.labels.get(SIGN).cloned(),
            adopted: self.labels.contains_key(ADOPTED),
            labels: self.labels,
            ..Actual::default()
        }
    }

    fn tree(&mut self, network: Option<u64>) -> Tree {
        let enabled = self.public_net.enabled;
        let [ipv4, ipv6] =
            [&mut self.public_net.ipv4, &mut self.public_net.ipv6].map(|it| it.take().unwrap_or_default());
        let balancer = Attributes::default()
            .set("name", &self.name)
            .set("type", &self.load_balancer_type.name)
            .set(LOCATION, &self.location.name)
            .set(NETWORK_ZONE, &self.location.network_zone)
            .set("algorithm", &self.algorithm.r#type)
            .set("public", enabled)
            .set("ipv4", ipv4.ip)
            .set("ipv6", ipv6.ip)
            .set("ipv4_rdns", ipv4.dns_ptr.as_deref().map(domain))
            .set("ipv6_rdns", ipv6.dns_ptr.as_deref().map(domain))
            .set("protected", self.protection.delete.then_some("yes"))
            .to_make();
        let targets: Targets = self.targets.iter().filter_map(Target::text).collect();
        let mut tree = Tree::default().balancer(balancer).pool(POOL, Attributes::default(), Some(targets));
        tree = tree.limit(POOL, self.load_balancer_type.max_targets);
        self.private_net.sort_by_key(|it| Some(it.network) != network);
        for (number, PrivateNet { network, ip }) in self.private_net.iter().enumerate() {
            let name = if number == 0 { String::new() } else { network.to_string() };
            let settings = Attributes::default().set("network", network).set("ip", ip);
            tree = tree.part(network_part(&name), settings);
        }
        for service in &self.services {
            let port = service["listen_port"].as_u64().and_then(|port| u16::try_from(port).ok());
            if let Some(port) = port {
                tree = tree.listener(port, "TCP", POOL, Attributes::at(&SERVICE, service));
            }
        }
        tree
    }
}

impl Target {
    /// `None` for what nobody wants here, such as a label selector: it is left alone.
    fn text(&self) -> Option<String> {
        match (&self.server, &self.ip) {
            (Some(server), _) => Some(server_target(server.id, self.use_private_ip)),
            (None, Some(ip)) => Some(ip_target(&ip.ip)),
            (None, None) => None,
        }
    }
}
