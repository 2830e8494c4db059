//! Load balancers as the API reads and writes them, and as the kit compares them.
//!
//! A service of the API becomes a listener whose settings are named by their path in the service
//! (`health_check.http.path`), so that settings without an annotation stay unchanged.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cloud_provider::{Result, TargetHealth};
use provider_kit::load_balancers::{
    self as kit, Attributes, Field, ObservedLoadBalancer, OwnerTags, Port, Resource, ResourceGraph,
    ResourceKey, Targets,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::adoption::ADOPTED;
use crate::annotations as key;

/// The legacy owner tag: the label that the Go cloud controller manager writes.
pub(super) const LEGACY_OWNER_LABEL: &str = "hcloud-ccm/service-uid";
/// The name of the only pool: targets are those of the whole load balancer.
pub(super) const POOL: &str = "main";
pub(super) const NETWORK: &str = "network";
pub(super) const CERTIFICATE: &str = "certificate";
pub(super) const CERTIFICATES: &str = "http.certificates";
/// Setting with the present location of a load balancer, beside the settings that choose the location at creation: the
/// desired state overwrites these.
pub(super) const LOCATION: &str = "current_location";
pub(super) const NETWORK_ZONE: &str = "current_network_zone";

/// Settings of the load balancer itself, by name.
#[derive(Serialize)]
pub(super) struct BalancerSettings(pub(super) Value);

impl Resource for BalancerSettings {
    const FIELDS: &'static [Field] = &[
        Field::update("name").setting(&key::NAME),
        Field::update("type").setting(&key::TYPE),
        Field::create_only("location").setting(&key::LOCATION),
        Field::create_only("network_zone").setting(&key::NETWORK_ZONE),
        Field::update("algorithm").setting(&key::ALGORITHM_TYPE),
        Field::update("public"),
        Field::update("ipv4_rdns").setting(&key::IPV4_RDNS),
        Field::update("ipv6_rdns").setting(&key::IPV6_RDNS),
        Field::observed(LOCATION),
        Field::observed(NETWORK_ZONE),
        Field::observed("ipv4"),
        Field::observed("ipv6"),
        Field::observed("protected"),
    ];
}

/// A service, as the API writes it.
#[derive(Serialize)]
pub(super) struct ServiceSettings(pub(super) Value);

impl Resource for ServiceSettings {
    const FIELDS: &'static [Field] = &[
        Field::update("protocol").setting(&key::PROTOCOL),
        Field::update("destination_port"),
        Field::update("proxyprotocol").setting(&key::USES_PROXYPROTOCOL),
        Field::update("http.cookie_name").setting(&key::HTTP_COOKIE_NAME),
        Field::update("http.cookie_lifetime").setting(&key::HTTP_COOKIE_LIFETIME),
        Field::update("http.timeout_idle").setting(&key::HTTP_TIMEOUT_IDLE),
        Field::update(CERTIFICATES)
            .setting(&key::HTTP_CERTIFICATES)
            .unordered_list(),
        Field::update("http.redirect_http").setting(&key::HTTP_REDIRECT_HTTP),
        Field::update("http.sticky_sessions").setting(&key::HTTP_STICKY_SESSIONS),
        Field::update("health_check.protocol").setting(&key::HEALTH_CHECK_PROTOCOL),
        Field::update("health_check.port").setting(&key::HEALTH_CHECK_PORT),
        Field::update("health_check.interval").setting(&key::HEALTH_CHECK_INTERVAL),
        Field::update("health_check.timeout").setting(&key::HEALTH_CHECK_TIMEOUT),
        Field::update("health_check.retries").setting(&key::HEALTH_CHECK_RETRIES),
        Field::update("health_check.http.domain").setting(&key::HEALTH_CHECK_HTTP_DOMAIN),
        Field::update("health_check.http.path").setting(&key::HEALTH_CHECK_HTTP_PATH),
        Field::update("health_check.http.status_codes")
            .setting(&key::HTTP_STATUS_CODES)
            .unordered_list(),
        Field::update("health_check.http.tls")
            .setting(&key::HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE),
    ];
}

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
    created: String,
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
    #[serde(default)]
    health_status: Vec<Health>,
}

#[derive(Deserialize)]
struct Health {
    listen_port: u16,
    status: String,
}

#[derive(Deserialize)]
struct Server {
    id: u64,
}

#[derive(Deserialize)]
struct TargetIp {
    ip: String,
}

/// Returns the resource for an attachment to a network. The one to the configured network has no name.
pub(super) fn network_resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(1, NETWORK, name)
}

/// Returns the resource for a certificate that does not exist yet.
pub(super) fn certificate_resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(0, CERTIFICATE, name)
}

/// Returns `true` if each interface has its address.
pub(super) fn has_addresses(graph: &ResourceGraph) -> bool {
    let is_public = |settings: &Attributes| settings.get("public") == Some(&json!(true));
    let public = graph
        .balancer_attributes()
        .is_none_or(|settings| !is_public(settings) || settings.text("ipv4").is_some());
    let is_there = |(resource, settings): (&ResourceKey, &Attributes)| {
        !resource.is_of_kind(NETWORK) || settings.text("ip").is_some()
    };
    public && graph.resources.iter().all(is_there)
}

/// Returns a server as a target.
pub(super) fn server_target(id: u64, is_private: bool) -> String {
    format!("server:{id}{}", if is_private { ":private" } else { "" })
}

/// Returns an address as a target, however it is written.
pub(super) fn ip_target(ip: &str) -> String {
    ip.parse()
        .map_or_else(|_| format!("ip:{ip}"), |ip: IpAddr| format!("ip:{ip}"))
}

/// Returns a name in the DNS as it is compared.
pub(super) fn domain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns a target without the way it is reached: a load balancer has each machine only once.
pub(super) fn machine(target: &str) -> &str {
    target.strip_suffix(":private").unwrap_or(target)
}

/// Returns the target of a request that adds it.
pub(super) fn to_add(target: &str) -> Value {
    let mut value = to_remove(target);
    if target.starts_with("server:") {
        value["use_private_ip"] = json!(machine(target) != target);
    }
    value
}

/// Returns the target of a request that removes it.
pub(super) fn to_remove(target: &str) -> Value {
    match machine(target).split_once(':') {
        Some(("server", id)) => {
            json!({"type": "server", "server": {"id": id.parse::<u64>().unwrap_or_default()}})
        }
        _ => json!({"type": "ip", "ip": {"ip": target.trim_start_matches("ip:")}}),
    }
}

/// Returns the service to send: all settings, but none of HTTP where HTTP is not spoken.
pub(super) fn to_service(port: &Port, settings: &Attributes) -> Value {
    let is_tcp = |key| settings.text(key) == Some("tcp");
    let mut service = settings.clone().set("listen_port", port.number).nested();
    let mut remove = |place: &str, name: &str| {
        service
            .pointer_mut(place)
            .and_then(Value::as_object_mut)
            .and_then(|object| object.remove(name));
    };
    remove("", kit::POOL);
    if is_tcp("protocol") {
        remove("", "http");
    }
    if is_tcp("health_check.protocol") {
        remove("/health_check", "http");
    }
    service
}

impl LoadBalancer {
    /// Converts the load balancer to what the engine compares. `network`: the configured one.
    pub(super) fn into_actual(mut self, network: Option<u64>) -> ObservedLoadBalancer {
        let owner_tags = OwnerTags::take_from(&mut self.labels);
        let public = [&self.public_net.ipv4, &self.public_net.ipv6]
            .into_iter()
            .flatten()
            .map(|address| &address.ip);
        let all = public
            .chain(self.private_net.iter().map(|network| &network.ip))
            .flatten();
        ObservedLoadBalancer {
            id: self.id.to_string(),
            ingress: all.map(|ip| ObservedLoadBalancer::ip(ip)).collect(),
            graph: self.graph(network).ok(),
            name: self.name,
            owner_tags,
            legacy_owner: self.labels.get(LEGACY_OWNER_LABEL).cloned(),
            adopted: self.labels.contains_key(ADOPTED),
            created: self.created.parse().ok(),
            labels: self.labels,
            ..ObservedLoadBalancer::default()
        }
    }

    fn graph(&mut self, network: Option<u64>) -> Result<ResourceGraph> {
        let enabled = self.public_net.enabled;
        let [ipv4, ipv6] = [&mut self.public_net.ipv4, &mut self.public_net.ipv6]
            .map(|address| address.take().unwrap_or_default());
        let balancer = BalancerSettings(json!({
            "name": self.name,
            "type": self.load_balancer_type.name,
            "location": self.location.name,
            "network_zone": self.location.network_zone,
            LOCATION: self.location.name,
            NETWORK_ZONE: self.location.network_zone,
            "algorithm": self.algorithm.r#type,
            "public": enabled,
            "ipv4": ipv4.ip,
            "ipv6": ipv6.ip,
            "ipv4_rdns": ipv4.dns_ptr.as_deref().map(domain),
            "ipv6_rdns": ipv6.dns_ptr.as_deref().map(domain),
            "protected": self.protection.delete.then_some("yes"),
        }));
        let balancer = Attributes::observed(&balancer)?;
        let targets: Targets = self.targets.iter().filter_map(Target::text).collect();
        let mut graph = ResourceGraph::default().balancer(balancer).pool(
            POOL,
            Attributes::default(),
            Some(targets),
        );
        graph = graph.limit(POOL, self.load_balancer_type.max_targets);
        self.private_net
            .sort_by_key(|private_net| Some(private_net.network) != network);
        for (number, PrivateNet { network, ip }) in self.private_net.iter().enumerate() {
            let name = if number == 0 {
                String::new()
            } else {
                network.to_string()
            };
            let settings = Attributes::default().set("network", network).set("ip", ip);
            graph = graph.resource(network_resource(&name), settings);
        }
        for service in std::mem::take(&mut self.services) {
            let port = service["listen_port"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok());
            if let Some(port) = port {
                graph = graph.listener(
                    port,
                    "TCP",
                    POOL,
                    Attributes::observed(&ServiceSettings(service))?,
                );
            }
        }
        Ok(graph)
    }
}

impl LoadBalancer {
    /// Returns the health of the targets that the cloud has checked.
    pub(super) fn health(&self) -> BTreeMap<String, TargetHealth> {
        self.targets
            .iter()
            .filter_map(|target| Some((target.text()?, target.health()?)))
            .collect()
    }
}

impl Target {
    fn health(&self) -> Option<TargetHealth> {
        let is_healthy = self
            .health_status
            .iter()
            .all(|health| health.status == "healthy");
        let bad = self
            .health_status
            .iter()
            .filter(|health| health.status != "healthy");
        let detail = bad
            .map(|health| format!("port {}: {}", health.listen_port, health.status))
            .collect::<Vec<_>>()
            .join(", ");
        (!self.health_status.is_empty()).then_some(TargetHealth { is_healthy, detail })
    }

    /// Returns `None` for a target that no Service has, such as a label selector: it is left unchanged.
    fn text(&self) -> Option<String> {
        match (&self.server, &self.ip) {
            (Some(server), _) => Some(server_target(server.id, self.use_private_ip)),
            (None, Some(ip)) => Some(ip_target(&ip.ip)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_of_a_target_names_the_ports_that_fail() {
        let health = |port: u16, status: &str| json!({"listen_port": port, "status": status});
        let server = |id: u64, health: Value| json!({"type": "server", "server": {"id": id}, "health_status": health});
        let shown = json!({
            "id": 1, "name": "web", "public_net": {"enabled": false, "ipv4": null, "ipv6": null},
            "load_balancer_type": {"name": "lb11", "max_targets": 25}, "algorithm": {"type": "round_robin"},
            "targets": [
                server(1, json!([health(80, "healthy"), health(443, "healthy")])),
                server(2, json!([health(80, "healthy"), health(443, "unhealthy")])),
                server(3, json!([])),
            ],
        });
        let shown: LoadBalancer = serde_json::from_value(shown).unwrap();
        let health = shown.health();
        assert!(health["server:1"].is_healthy);
        let failing = TargetHealth {
            is_healthy: false,
            detail: "port 443: unhealthy".into(),
        };
        assert_eq!(
            (health.get("server:2"), health.get("server:3")),
            (Some(&failing), None)
        );
    }
}
