//! Load balancers and their resources as AWS reads and writes them. The same structs are compared: their settings have
//! the names of AWS.

use std::collections::BTreeMap;

use cloud_provider::Result;
use provider_kit::load_balancers::{Attributes, Field, Resource, ResourceKey, tag_key};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CLASSIC, NETWORK};
use crate::annotations as key;
use crate::api::{Tag, wire};

/// The pool of a classic load balancer.
pub(super) const INSTANCES: &str = "instances";
/// The pool whose targets are the security groups of Nodes that admit the load balancer.
pub(super) const NODES: &str = "security groups of Nodes";
/// Firewall rules of a security group, or of [`NODES`].
pub(super) const RULES: &str = "rules";
/// ID or ARN of a resource.
pub(super) const ID: &str = "id";
/// Setting of a classic listener: the name of its TLS policy.
pub(super) const POLICY: &str = "policy";
/// Setting of a classic listener: if set, instances get the PROXY protocol.
pub(super) const PROXY: &str = "proxy_protocol";
/// Setting of a target group that ccm-rs has created.
pub(super) const IS_OURS: &str = "is_ours";
/// The kind of resource that is the security group of a load balancer.
pub(super) const GROUP: &str = "security group";

/// Attributes of a new classic load balancer.
const FIRST_OF_CLASSIC: [(&str, &str); 4] = [
    ("CrossZoneLoadBalancing.Enabled", "false"),
    ("AccessLog.Enabled", "false"),
    ("ConnectionDraining.Enabled", "false"),
    ("ConnectionSettings.IdleTimeout", "60"),
];
/// Attributes of a new network load balancer.
const FIRST_OF_NETWORK: [(&str, &str); 2] = [
    ("load_balancing.cross_zone.enabled", "false"),
    ("access_logs.s3.enabled", "false"),
];
/// Attributes of a new target group.
pub(super) const FIRST_OF_GROUP: [(&str, &str); 2] = [
    ("preserve_client_ip.enabled", "true"),
    ("proxy_protocol_v2.enabled", "false"),
];

wire! { "PascalCase";
    /// An answer of the APIs for load balancers.
    Answer {
        #[serde(alias = "LoadBalancerDescriptions")] load_balancers: Vec<Balancer>, #[serde(rename = "DNSName")] dns_name: String,
        target_groups: Vec<TargetGroup>, listeners: Vec<Listener>, tag_descriptions: Vec<Tagged>, attributes: Vec<Tag>,
        target_health_descriptions: Vec<TargetDescription>, load_balancer_attributes: Value,
    }
    Tagged { #[serde(alias = "LoadBalancerName")] resource_arn: String, tags: Vec<Tag> }
    TargetDescription { target: Target, target_health: TargetHealth }
    Target { id: String, port: u16 }
    TargetHealth { state: String, reason: String }
    /// A load balancer of either kind. The zones of a classic one are texts.
    Balancer {
        load_balancer_arn: String, load_balancer_name: String, #[serde(rename = "DNSName")] dns_name: String, r#type: String,
        state: BalancerState, scheme: String, #[serde(alias = "VPCId")] vpc_id: String, created_time: String,
        ip_address_type: Option<String>, security_groups: Vec<String>, availability_zones: Vec<Value>, subnets: Vec<String>,
        listener_descriptions: Vec<ListenerDescription>, backend_server_descriptions: Vec<Backend>, instances: Vec<Instance>,
        health_check: HealthCheck,
    }
    BalancerState { code: String, reason: String }
    ListenerDescription { listener: ClassicListener, policy_names: Vec<String> }
    Backend { instance_port: u16, policy_names: Vec<String> }
    Instance { instance_id: String }
    /// A listener of a classic load balancer.
    ClassicListener {
        protocol: String, load_balancer_port: u16, instance_protocol: String, instance_port: u16,
        #[serde(rename = "SSLCertificateId")] certificate: Option<String>,
    }
    /// The health check of a classic load balancer; the target is such as `HTTP:30080/healthz`.
    HealthCheck { target: String, interval: u32, timeout: u32, healthy_threshold: u32, unhealthy_threshold: u32 }
    /// A listener of a network load balancer.
    Listener {
        listener_arn: String, port: u16, protocol: String, ssl_policy: Option<String>, certificates: Vec<Certificate>,
        default_actions: Vec<Action>,
    }
    Certificate { certificate_arn: String }
    Action { target_group_arn: String }
    /// The targets on one node port. The port of the health check is a number or `traffic-port`.
    TargetGroup {
        target_group_arn: String, target_group_name: String, protocol: String, port: u16, ip_address_type: Option<String>,
        health_check_protocol: String, health_check_port: String, health_check_path: Option<String>,
        health_check_interval_seconds: u32, health_check_timeout_seconds: Option<u32>, healthy_threshold_count: u32,
        unhealthy_threshold_count: u32, load_balancer_arns: Vec<String>,
        /// Tags of a target group without a load balancer.
        #[serde(skip)] tags: BTreeMap<String, String>,
    }
}

/// Settings of a load balancer, of both kinds: the attributes of network load balancers are in lower case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Settings(pub(super) Value);

impl Resource for Settings {
    const FIELDS: &'static [Field] = &[
        Field::create_only("Scheme").setting(&key::INTERNAL_SCHEME),
        Field::update("Subnets")
            .setting(&key::SUBNETS)
            .unordered_list(),
        Field::update("SecurityGroups")
            .setting(&key::SECURITY_GROUPS)
            .unordered_list(),
        Field::update("IpAddressType"),
        Field::create_only("EipAllocations").filled_by(&key::EIP_ALLOCATIONS),
        Field::create_only("PrivateAddresses").filled_by(&key::PRIVATE_ADDRESSES),
        Field::update("CrossZoneLoadBalancing.Enabled").filled_by(&key::CROSS_ZONE),
        Field::update("AccessLog.Enabled").filled_by(&key::ACCESS_LOG),
        Field::update("AccessLog.EmitInterval").filled_by(&key::ACCESS_LOG_INTERVAL),
        Field::update("AccessLog.S3BucketName").filled_by(&key::ACCESS_LOG_BUCKET),
        Field::update("AccessLog.S3BucketPrefix").filled_by(&key::ACCESS_LOG_PREFIX),
        Field::update("ConnectionDraining.Enabled").filled_by(&key::DRAINING),
        Field::update("ConnectionDraining.Timeout").filled_by(&key::DRAINING_TIMEOUT),
        Field::update("ConnectionSettings.IdleTimeout").filled_by(&key::IDLE_TIMEOUT),
        Field::update("load_balancing.cross_zone.enabled").filled_by(&key::CROSS_ZONE),
        Field::update("access_logs.s3.enabled").filled_by(&key::ACCESS_LOG),
        Field::update("access_logs.s3.bucket").filled_by(&key::ACCESS_LOG_BUCKET),
        Field::update("access_logs.s3.prefix").filled_by(&key::ACCESS_LOG_PREFIX),
    ];
}

impl Resource for TargetGroup {
    const FIELDS: &'static [Field] = &[
        Field::create_only("Protocol"),
        Field::create_only("Port"),
        Field::create_only("IpAddressType"),
        Field::update("HealthCheckProtocol").setting(&key::CHECK_PROTOCOL),
        Field::update("HealthCheckPort").setting(&key::CHECK_PORT),
        Field::update("HealthCheckPath")
            .setting(&key::CHECK_PATH)
            .null_removes(),
        Field::update("HealthCheckIntervalSeconds").setting(&key::CHECK_INTERVAL),
        Field::update("HealthCheckTimeoutSeconds").setting(&key::CHECK_TIMEOUT),
        Field::update("HealthyThresholdCount").setting(&key::CHECK_HEALTHY),
        Field::update("UnhealthyThresholdCount").setting(&key::CHECK_UNHEALTHY),
        Field::update("preserve_client_ip.enabled").setting(&key::TARGET_GROUP_ATTRIBUTES),
        Field::update("proxy_protocol_v2.enabled").setting(&key::TARGET_GROUP_ATTRIBUTES),
    ];
}

impl Resource for HealthCheck {
    const FIELDS: &'static [Field] = &[
        Field::update("Target").setting(&key::CHECK_PORT),
        Field::update("Interval").setting(&key::CHECK_INTERVAL),
        Field::update("Timeout").setting(&key::CHECK_TIMEOUT),
        Field::update("HealthyThreshold").setting(&key::CHECK_HEALTHY),
        Field::update("UnhealthyThreshold").setting(&key::CHECK_UNHEALTHY),
    ];
}

impl Resource for Listener {
    const FIELDS: &'static [Field] = &[
        Field::update("Protocol"),
        Field::update("Certificates").setting(&key::CERTIFICATE),
        Field::update("SslPolicy").setting(&key::TLS_POLICY),
    ];
}

impl Resource for ClassicListener {
    const FIELDS: &'static [Field] = &[
        Field::update("Protocol"),
        Field::update("SSLCertificateId")
            .setting(&key::CERTIFICATE)
            .null_removes(),
        Field::update("InstanceProtocol").setting(&key::BACKEND_PROTOCOL),
        Field::update("InstancePort"),
        Field::update(POLICY).setting(&key::TLS_POLICY),
        Field::update(PROXY).setting(&key::PROXY_PROTOCOL),
    ];
}

impl Balancer {
    pub(super) fn kind(&self) -> &'static str {
        if self.load_balancer_arn.is_empty() {
            CLASSIC
        } else {
            NETWORK
        }
    }

    pub(super) fn id(&self) -> &str {
        if self.kind() == NETWORK {
            &self.load_balancer_arn
        } else {
            &self.load_balancer_name
        }
    }

    pub(super) fn subnets(&self) -> Vec<&str> {
        let zones = self
            .availability_zones
            .iter()
            .filter_map(|zone| zone["SubnetId"].as_str());
        self.subnets.iter().map(|id| &**id).chain(zones).collect()
    }
}

impl TargetGroup {
    /// Returns the name of the pool.
    pub(super) fn pool(&self) -> String {
        format!("{}/{}", self.port, self.protocol)
    }

    /// Returns the settings of an existing target group.
    pub(super) fn settings(&self) -> Result<Attributes> {
        let health_check_path = self
            .health_check_path
            .clone()
            .filter(|_| self.health_check_protocol.starts_with("HTTP"));
        Ok(Attributes::observed(&Self {
            health_check_path,
            ..self.clone()
        })?
        .set(ID, &self.target_group_arn))
    }
}

impl From<&TargetGroup> for HealthCheck {
    fn from(group: &TargetGroup) -> Self {
        let path = group.health_check_path.as_deref().unwrap_or_default();
        Self {
            target: format!(
                "{}:{}{path}",
                group.health_check_protocol, group.health_check_port
            ),
            interval: group.health_check_interval_seconds,
            timeout: group.health_check_timeout_seconds.unwrap_or_default(),
            healthy_threshold: group.healthy_threshold_count,
            unhealthy_threshold: group.unhealthy_threshold_count,
        }
    }
}

/// Returns the resource that is the security group of a load balancer.
pub(super) fn group_resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(0, GROUP, name)
}

/// Returns the settings that are parameters of requests, under their names.
pub(super) fn parameters(settings: &Attributes) -> Attributes {
    settings.clone().matching(|key| {
        key.starts_with(|first: char| first.is_ascii_uppercase()) && !key.contains('.')
    })
}

/// Returns `true` for the settings that AWS calls attributes.
pub(super) fn is_attribute(key: &str) -> bool {
    key.contains('.') && tag_key(key).is_none()
}

/// Adds the attributes of a new load balancer, but for those that are set.
pub(super) fn with_first(kind: &str, settings: Attributes) -> Attributes {
    let first: &[(&'static str, &str)] = if kind == NETWORK {
        &FIRST_OF_NETWORK
    } else {
        &FIRST_OF_CLASSIC
    };
    let untold: Vec<_> = first
        .iter()
        .filter(|(key, _)| settings.get(key).is_none())
        .collect();
    untold
        .into_iter()
        .fold(settings, |all, (key, value)| all.set(*key, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the declared settings that the struct does not have.
    fn lost<R: Resource>(sample: &R) -> Vec<String> {
        let all = R::undeclared_fields(sample).unwrap().into_iter();
        let lost =
            all.filter_map(|text| text.strip_suffix(" (not in the sample)").map(str::to_owned));
        lost.filter(|lost| !is_attribute(lost) && lost != POLICY && lost != PROXY)
            .collect()
    }

    #[test]
    fn each_setting_is_a_field_of_aws() {
        assert_eq!(lost(&TargetGroup::default()), [""; 0]);
        assert_eq!(lost(&HealthCheck::default()), [""; 0]);
        assert_eq!(lost(&Listener::default()), [""; 0]);
        assert_eq!(lost(&ClassicListener::default()), [""; 0]);
    }

    #[test]
    fn zones_of_a_classic_load_balancer_are_texts() {
        let classic = json!({"AvailabilityZones": ["us-east-1a"], "Subnets": ["subnet-1"]});
        let network =
            json!({"AvailabilityZones": [{"ZoneName": "us-east-1a", "SubnetId": "subnet-1"}]});
        for object in [classic, network] {
            assert_eq!(
                serde_json::from_value::<Balancer>(object)
                    .unwrap()
                    .subnets(),
                ["subnet-1"]
            );
        }
    }
}
