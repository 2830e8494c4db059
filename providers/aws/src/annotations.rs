//! The annotations of a Service. docs/providers/aws.md is generated from these declarations.

use std::collections::BTreeMap;

use provider_kit::declared::{Kind, Value, forms};
use provider_kit::node_selector::NodeSelector;

/// Prefix of all keys.
pub const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

/// Kind of load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalancerKind {
    /// A classic load balancer.
    #[default]
    Classic,
    /// A network load balancer.
    Network,
    /// A load balancer of another controller.
    Elsewhere,
}

impl Value for BalancerKind {
    const KIND: Kind<Self> = Kind::of(
        "`nlb`, `nlb-ip`, `external`; any other text is a classic load balancer",
        |text| {
            Some(match text {
                "nlb" => Self::Network,
                "nlb-ip" | "external" => Self::Elsewhere,
                _ => Self::Classic,
            })
        },
    );
}

const GROUP_ATTRIBUTES: Kind<BTreeMap<String, String>> = Kind::of(
    "a comma list of preserve_client_ip.enabled and proxy_protocol_v2.enabled, each =true or =false",
    |text| {
        let is_known = |key| matches!(key, "preserve_client_ip.enabled" | "proxy_protocol_v2.enabled");
        let pairs = text
            .split(',')
            .map(|item| item.split_once('=').filter(|(key, text)| is_known(*key) && matches!(*text, "true" | "false")));
        pairs.map(|pair| pair.map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
    },
)
.verbatim();
const INTERNAL: Kind<bool> = Kind::one_of(&[
    ("true", true),
    ("0.0.0.0/0", true),
    ("false", false),
    ("", false),
]);
const TAGS: Kind<BTreeMap<String, String>> = Kind::of("a comma list of key=value", |text| {
    let pairs = forms::items(text).map(|item| item.split_once('=').unwrap_or((item, "")));
    Some(
        pairs
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect(),
    )
});
const LABELS: Kind<NodeSelector> = Kind::explained("a comma list of key=value", |text| {
    let items: Vec<_> = text
        .split(',')
        .map(|item| item.trim().trim_end_matches('='))
        .collect();
    NodeSelector::parse(&items.join(","))
});
const FLAG: Kind<String> = Kind::of("true or false", |text| {
    forms::truth(text).map(|flag| flag.to_string())
});
const COUNT: Kind<String> = Kind::of("a whole number", |text| {
    text.parse().ok().map(|count: u32| count.to_string())
});
const EMIT: Kind<String> = Kind::of("5 or 60", |text| {
    matches!(text, "5" | "60").then(|| text.to_owned())
});
const IDLE: Kind<String> = Kind::of("a whole number from 1 to 4000", |text| {
    text.parse()
        .ok()
        .filter(|seconds| (1..=4000).contains(seconds))
        .map(|seconds: u32| seconds.to_string())
});
const BACKEND: Kind<String> = Kind::of("a protocol of the Pods", |text| {
    Some(text.to_ascii_lowercase())
});
const PROXY: Kind<bool> = Kind::one_of(&[("*", true), ("", false)]);
const CHECK: Kind<String> = Kind::of("one of TCP, HTTP, HTTPS, SSL", |text| {
    Some(text.to_ascii_uppercase())
        .filter(|text| matches!(&**text, "TCP" | "HTTP" | "HTTPS" | "SSL"))
});
const CHECK_PORT_FORM: Kind<String> = Kind::of("`traffic-port` or a port", |text| {
    (text == "traffic-port" || text.parse::<u16>().is_ok_and(|port| port > 0))
        .then(|| text.to_owned())
});

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/aws-load-balancer-";

    /// Kind of load balancer. `nlb-ip` and `external` leave the Service to another controller. A Service that changes its kind gets
    /// a new load balancer before it loses the old one.
    pub TYPE: BalancerKind = "type", default_description("a classic load balancer"),
        costs("pay for a second load balancer while the kind changes");
    /// Addresses of the VPC instead of public ones. AWS does not change the scheme of a load balancer, so a later change is
    /// refused.
    pub INTERNAL_SCHEME: bool = "internal", kind(INTERNAL), default("false");
    /// Subnets: IDs, or values of the tag `Name`. A network load balancer without the annotation keeps its subnets.
    pub SUBNETS: Vec<String> = "subnets", default_description("one tagged subnet in each availability zone"),
        reaches("use any subnet of the VPC");
    /// Further tags. A tag that is taken out of the annotation goes; tags of others stay.
    pub TAGS_OF_USER: BTreeMap<String, String> = "additional-resource-tags", kind(TAGS),
        reaches("set any tag but those of owners, such as one that decides about rights or bills");
    /// Labels of the Nodes that are targets; a label without value must exist.
    pub TARGET_LABELS: NodeSelector = "target-node-labels", kind(LABELS), default_description("all Nodes"), decides_targets();
    /// Security groups of yours, instead of one that is created. Network: only with `NLBSecurityGroupMode=Managed`.
    pub SECURITY_GROUPS: Vec<String> = "security-groups", default_description("a security group for each load balancer"),
        reaches("use any security group of the VPC that `ServiceSecurityGroups` allows, and open all ports of the Nodes to it");
    /// Classic: security groups of yours, in addition.
    pub EXTRA_GROUPS: Vec<String> = "extra-security-groups",
        reaches("use any security group of the VPC that `ServiceSecurityGroups` allows");
    /// ARN of the certificate.
    pub CERTIFICATE: String = "ssl-cert",
        reaches("use any certificate of the account");
    /// Ports with the certificate, by number or name; `*`: all.
    pub TLS_PORTS: Vec<String> = "ssl-ports", default("*");
    /// Name of a predefined TLS policy.
    pub TLS_POLICY: String = "ssl-negotiation-policy", default_description("that of AWS");
    /// Protocol towards Pods. Classic: `http`, `https`, `ssl`, `tcp`; network: `ssl`, or else TCP.
    pub BACKEND_PROTOCOL: String = "backend-protocol", kind(BACKEND), default_description("`tcp`");
    /// Classic: `*` tells Pods the address of the client, by the PROXY protocol.
    pub PROXY_PROTOCOL: bool = "proxy-protocol", kind(PROXY);
    /// Writes access logs to a bucket.
    pub ACCESS_LOG: String = "access-log-enabled", kind(FLAG), default("false");
    /// Classic: minutes between access logs.
    pub ACCESS_LOG_INTERVAL: String = "access-log-emit-interval", kind(EMIT);
    /// Bucket of access logs.
    pub ACCESS_LOG_BUCKET: String = "access-log-s3-bucket-name",
        reaches("write access logs to any bucket that admits load balancers of the account");
    /// Prefix of access logs in the bucket.
    pub ACCESS_LOG_PREFIX: String = "access-log-s3-bucket-prefix",
        reaches("write access logs under any prefix of such a bucket");
    /// Classic: lets connections end before a Node is no target any more.
    pub DRAINING: String = "connection-draining-enabled", kind(FLAG), default("false");
    /// Classic: seconds for that.
    pub DRAINING_TIMEOUT: String = "connection-draining-timeout", kind(COUNT), default_description("300");
    /// Classic: seconds after which an idle connection is closed.
    pub IDLE_TIMEOUT: String = "connection-idle-timeout", kind(IDLE), default("60");
    /// Sends traffic to Nodes in all zones.
    pub CROSS_ZONE: String = "cross-zone-load-balancing-enabled", kind(FLAG), default("false"),
        costs("pay for traffic between availability zones");
    /// Protocol of health checks. `SSL`: classic only.
    pub CHECK_PROTOCOL: String = "healthcheck-protocol", kind(CHECK), default_description("`TCP`; `HTTP` for `externalTrafficPolicy: Local`");
    /// Port of health checks.
    pub CHECK_PORT: String = "healthcheck-port", kind(CHECK_PORT_FORM),
        default_description("the node port; `healthCheckNodePort` for `externalTrafficPolicy: Local`"),
        reaches("open any port of the Nodes to the subnets of the load balancer");
    /// Path of HTTP and HTTPS health checks.
    pub CHECK_PATH: String = "healthcheck-path", default_description("`/`; `/healthz` for `externalTrafficPolicy: Local`");
    /// Seconds between health checks.
    pub CHECK_INTERVAL: u32 = "healthcheck-interval", kind(Kind::number(5, 300)), default_description("10; 30 for network without `Local`");
    /// Seconds that a health check may take.
    pub CHECK_TIMEOUT: u32 = "healthcheck-timeout", kind(Kind::number(2, 120)), default_description("5; network: that of AWS");
    /// Successful checks until a target is healthy.
    pub CHECK_HEALTHY: u32 = "healthcheck-healthy-threshold", kind(Kind::number(2, 10)), default_description("2; 3 for network without `Local`");
    /// Failed checks until a target is unhealthy.
    pub CHECK_UNHEALTHY: u32 = "healthcheck-unhealthy-threshold", kind(Kind::number(2, 10)), default_description("6; network: 3, or 2 for `Local`");
    /// Network: Elastic IPs, one for each subnet. A later change has no effect.
    pub EIP_ALLOCATIONS: Vec<String> = "eip-allocations",
        reaches("use any free Elastic IP of the account");
    /// Network: private addresses, one for each subnet. A later change has no effect.
    pub PRIVATE_ADDRESSES: Vec<String> = "private-ipv4-addresses",
        reaches("use any free address of the subnets");
    /// Network: `preserve_client_ip.enabled` and `proxy_protocol_v2.enabled`, each `=true` or `=false`.
    pub TARGET_GROUP_ATTRIBUTES: BTreeMap<String, String> = "target-group-attributes", kind(GROUP_ATTRIBUTES);
}
