//! Load balancers, pools and listeners of both kinds, as they are compared.

use std::collections::BTreeMap;

use provider_kit::load_balancers::{Attributes, Field, Resource, ResourceKey};
use serde::{Deserialize, Serialize};

use crate::annotations as key;

/// The pool of a classic load balancer.
pub(super) const INSTANCES: &str = "instances";
/// The pool whose targets are the security groups of Nodes that admit the load balancer.
pub(super) const NODES: &str = "security groups of Nodes";
/// Firewall rules of a security group, or of [`NODES`].
pub(super) const RULES: &str = "rules";
/// ID or ARN of a resource.
pub(super) const ID: &str = "id";
/// Prefix of a setting that is a tag.
pub(super) const TAG: &str = "tag ";

/// Attributes of a load balancer: the setting, its name for classic and for network load balancers, and the value that a new
/// load balancer has.
pub(super) const ATTRIBUTES: [(&str, &str, &str, &str); 8] = [
    ("cross_zone", "CrossZoneLoadBalancing.Enabled", "load_balancing.cross_zone.enabled", "false"),
    ("access_log", "AccessLog.Enabled", "access_logs.s3.enabled", "false"),
    ("access_log_interval", "AccessLog.EmitInterval", "", ""),
    ("access_log_bucket", "AccessLog.S3BucketName", "access_logs.s3.bucket", ""),
    ("access_log_prefix", "AccessLog.S3BucketPrefix", "access_logs.s3.prefix", ""),
    ("draining", "ConnectionDraining.Enabled", "", "false"),
    ("draining_timeout", "ConnectionDraining.Timeout", "", ""),
    ("idle_timeout", "ConnectionSettings.IdleTimeout", "", "60"),
];

/// The load balancer itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) scheme: Option<String>,
    pub(super) subnets: Option<Vec<String>>,
    pub(super) security_groups: Option<Vec<String>>,
    pub(super) ip_address_type: Option<String>,
    pub(super) eip_allocations: Option<Vec<String>>,
    pub(super) private_addresses: Option<Vec<String>>,
    pub(super) cross_zone: Option<String>,
    pub(super) access_log: Option<String>,
    pub(super) access_log_interval: Option<String>,
    pub(super) access_log_bucket: Option<String>,
    pub(super) access_log_prefix: Option<String>,
    pub(super) draining: Option<String>,
    pub(super) draining_timeout: Option<String>,
    pub(super) idle_timeout: Option<String>,
}

impl Resource for Settings {
    const FIELDS: &'static [Field] = &[
        Field::create_only("scheme").setting(&key::INTERNAL_SCHEME),
        Field::update("subnets").setting(&key::SUBNETS).unordered_list(),
        Field::update("security_groups").setting(&key::SECURITY_GROUPS).unordered_list(),
        Field::update("ip_address_type"),
        Field::create_only("eip_allocations").filled_by(&key::EIP_ALLOCATIONS),
        Field::create_only("private_addresses").filled_by(&key::PRIVATE_ADDRESSES),
        Field::update("cross_zone").filled_by(&key::CROSS_ZONE),
        Field::update("access_log").filled_by(&key::ACCESS_LOG),
        Field::update("access_log_interval").filled_by(&key::ACCESS_LOG_INTERVAL),
        Field::update("access_log_bucket").filled_by(&key::ACCESS_LOG_BUCKET),
        Field::update("access_log_prefix").filled_by(&key::ACCESS_LOG_PREFIX),
        Field::update("draining").filled_by(&key::DRAINING),
        Field::update("draining_timeout").filled_by(&key::DRAINING_TIMEOUT),
        Field::update("idle_timeout").filled_by(&key::IDLE_TIMEOUT),
    ];
}

/// A health check. The port is a number or `traffic-port`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Health {
    pub(super) protocol: String,
    pub(super) port: String,
    pub(super) path: Option<String>,
    pub(super) interval: u32,
    pub(super) timeout: Option<u32>,
    pub(super) healthy: u32,
    pub(super) unhealthy: u32,
}

impl Health {
    /// Returns the target of a classic health check, such as `HTTP:30080/healthz`.
    pub(super) fn target(&self) -> String {
        format!("{}:{}{}", self.protocol, self.port, self.path.as_deref().unwrap_or_default())
    }

    /// Sets protocol, port and path from the target of a classic health check.
    pub(super) fn at(self, target: &str) -> Self {
        let (protocol, rest) = target.split_once(':').unwrap_or((target, ""));
        let (port, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = Some(path).filter(|path| !path.is_empty()).map(str::to_owned);
        Self { protocol: protocol.to_owned(), port: port.to_owned(), path, ..self }
    }
}

/// The targets on one node port, or all of a classic load balancer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Pool {
    pub(super) protocol: String,
    pub(super) port: u16,
    pub(super) family: Option<String>,
    pub(super) health: Health,
    pub(super) client_ip: Option<String>,
    pub(super) proxy_protocol: Option<String>,
    /// If set, ccm-rs has created the target group.
    pub(super) is_ours: Option<bool>,
    pub(super) id: Option<String>,
}

impl Resource for Pool {
    const FIELDS: &'static [Field] = &[
        Field::create_only("protocol"),
        Field::create_only("port"),
        Field::create_only("family"),
        Field::update("health.protocol").setting(&key::CHECK_PROTOCOL),
        Field::update("health.port").setting(&key::CHECK_PORT),
        Field::update("health.path").setting(&key::CHECK_PATH).null_removes(),
        Field::update("health.interval").setting(&key::CHECK_INTERVAL),
        Field::update("health.timeout").setting(&key::CHECK_TIMEOUT),
        Field::update("health.healthy").setting(&key::CHECK_HEALTHY),
        Field::update("health.unhealthy").setting(&key::CHECK_UNHEALTHY),
        Field::update("client_ip").setting(&key::TARGET_GROUP_ATTRIBUTES),
        Field::update("proxy_protocol").setting(&key::TARGET_GROUP_ATTRIBUTES),
        Field::observed("is_ours"),
        Field::observed(ID),
    ];
}

/// A listener. Protocols are in upper case; the instance port and protocol are of classic load balancers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Listener {
    pub(super) protocol: String,
    pub(super) certificate: Option<String>,
    pub(super) policy: Option<String>,
    pub(super) instance_protocol: Option<String>,
    pub(super) instance_port: Option<u16>,
    pub(super) proxy_protocol: Option<bool>,
    pub(super) id: Option<String>,
}

impl Resource for Listener {
    const FIELDS: &'static [Field] = &[
        Field::update("protocol"),
        Field::update("certificate").setting(&key::CERTIFICATE).null_removes(),
        Field::update("policy").setting(&key::TLS_POLICY),
        Field::update("instance_protocol").setting(&key::BACKEND_PROTOCOL),
        Field::update("instance_port"),
        Field::update("proxy_protocol").setting(&key::PROXY_PROTOCOL),
        Field::observed(ID),
    ];
}

impl Listener {
    /// Returns `true` if clients speak TLS.
    pub(super) fn is_tls(&self) -> bool {
        matches!(&*self.protocol, "SSL" | "HTTPS" | "TLS")
    }
}

/// Returns the resource that is the security group of a load balancer.
pub(super) fn group_resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(0, GROUP, name)
}

/// The kind of that resource.
pub(super) const GROUP: &str = "security group";

/// Adds one setting for each tag.
pub(super) fn tagged(attributes: Attributes, tags: &BTreeMap<String, String>) -> Attributes {
    tags.iter().fold(attributes, |all, (key, value)| all.set(format!("{TAG}{key}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_health_checks_are_read_as_they_are_written() {
        for target in ["TCP:8080", "HTTPS:31224/healthz", "SSL:3124", "HTTP:1/a/b"] {
            assert_eq!(Health::default().at(target).target(), target);
        }
    }

    #[test]
    fn every_field_has_a_rule() {
        let text = Some(String::new());
        let list = Some(Vec::new());
        let settings = Settings {
            scheme: text.clone(),
            subnets: list.clone(),
            security_groups: list.clone(),
            eip_allocations: list.clone(),
            private_addresses: list,
            ..Settings::default()
        };
        assert_eq!(Settings::undeclared_fields(&settings).unwrap(), Vec::<String>::new());
        assert_eq!(Pool::undeclared_fields(&Pool::default()).unwrap(), Vec::<String>::new());
        assert_eq!(Listener::undeclared_fields(&Listener::default()).unwrap(), Vec::<String>::new());
    }
}
