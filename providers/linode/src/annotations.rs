//! The annotations of a Service. docs/providers/linode.md is generated from these declarations.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use provider_kit::declared::{Kind, Value};
use serde::{Deserialize, Serialize};

use crate::config::NodeBalancerType;

/// Prefix of all keys.
pub const PREFIX: &str = "service.beta.kubernetes.io/linode-loadbalancer-";

/// The label of a Node with the UUID of its Linode's host.
pub const HOST_UUID: &str = "node.k8s.linode.com/host-uuid";
/// The annotation of a Node with the private address to which NodeBalancers send traffic.
pub const PRIVATE_IP: &str = "node.k8s.linode.com/private-ip";
/// The annotation of a Node with its public IPv6 address.
pub const PUBLIC_IPV6: &str = "node.k8s.linode.com/public-ipv6";

/// Protocol that a NodeBalancer speaks on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names of protocols")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Http,
    Https,
}

impl Value for Protocol {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("tcp", Self::Tcp),
        ("udp", Self::Udp),
        ("http", Self::Http),
        ("https", Self::Https),
    ])
    .any_case();
}

/// The clients of an ACL firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// If set, only these clients are admitted; otherwise, all clients except these.
    pub allows: bool,
    /// Address ranges of the clients.
    pub ranges: Vec<IpNet>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AclText {
    allow_list: Option<AclRanges>,
    deny_list: Option<AclRanges>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AclRanges {
    #[serde(default)]
    ipv4: Vec<String>,
    #[serde(default)]
    ipv6: Vec<String>,
}

impl Value for Acl {
    const KIND: Kind<Self> = Kind::of(
        "JSON with one of allowList and denyList: {\"allowList\":{\"ipv4\":[\"192.0.2.0/24\"]}}",
        |text| {
            let (allows, list) = match serde_json::from_str(text).ok()? {
                AclText {
                    allow_list: Some(list),
                    deny_list: None,
                } => (true, list),
                AclText {
                    allow_list: None,
                    deny_list: Some(list),
                } => (false, list),
                AclText { .. } => return None,
            };
            let range = |text: &String| {
                IpNet::KIND.parse(text).or_else(|| {
                    text.parse()
                        .ok()
                        .map(|ip: std::net::IpAddr| IpNet::from(ip))
                })
            };
            let ranges = list
                .ipv4
                .iter()
                .chain(&list.ipv6)
                .map(range)
                .collect::<Option<Vec<_>>>()?;
            (!ranges.is_empty()).then_some(Self { allows, ranges })
        },
    );
}

const PROXY: Kind<String> = Kind::of("one of none, v1, v2", |text| {
    one_of(text, &["none", "v1", "v2"])
});
const ALGORITHMS: Kind<String> =
    Kind::of("one of roundrobin, leastconn, source, ring_hash", |text| {
        one_of(text, &["roundrobin", "leastconn", "source", "ring_hash"])
    });
const STICKINESS: Kind<String> = Kind::of(
    "one of none, table, http_cookie, session, source_ip",
    |text| {
        one_of(
            text,
            &["none", "table", "http_cookie", "session", "source_ip"],
        )
    },
);
const CHECKS: Kind<String> = Kind::of("one of none, connection, http, http_body", |text| {
    one_of(text, &["none", "connection", "http", "http_body"])
});
/// The paths that the API accepts.
const PATHS: Kind<String> = Kind::of("a path of letters, digits and /-%?&=.", |text| {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"/-%?&=.".contains(&byte);
    text.bytes().all(is_inner).then(|| text.to_owned())
});
const THROTTLE: Kind<u32> = Kind::of("a whole number from 0 to 20", |text| {
    Some(text.parse::<i64>().map_or(0, |number| {
        u32::try_from(number.clamp(0, 20)).unwrap_or_default()
    }))
});
const V4_RANGE: Kind<IpNet> = Kind::of("an IPv4 range", |text| {
    text.parse::<Ipv4Net>()
        .ok()
        .map(|range| IpNet::V4(range.trunc()))
});
const V6_RANGE: Kind<IpNet> = Kind::of("an IPv6 range", |text| {
    text.parse::<Ipv6Net>()
        .ok()
        .map(|range| IpNet::V6(range.trunc()))
});

/// Returns the text, if it is one of `choices`.
pub(crate) fn one_of(text: &str, choices: &[&str]) -> Option<String> {
    choices
        .iter()
        .find(|choice| **choice == text)
        .map(|choice| (*choice).to_owned())
}

provider_kit::declare! {
    /// The annotations except `port-<number>`, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/linode-loadbalancer-";

    /// ID of the NodeBalancer that the Service uses, instead of one that is created.
    pub ID: u64 = "nodebalancer-id", kind(Kind::number(1, i64::MAX)),
        reaches("adopt any NodeBalancer of the account that has no owner and no targets");
    /// Kind of a new NodeBalancer. A later change has no effect, and gets a warning.
    pub TYPE: NodeBalancerType = "nodebalancer-type", default_description("`--default-nodebalancer-type`"), lenient();
    /// Keeps the NodeBalancer when the Service is deleted or moves to another one.
    pub PRESERVE: bool = "preserve", default("false"), lenient(),
        costs("leave behind a NodeBalancer that you pay for");
    /// Further tags of the NodeBalancer.
    pub TAGS: Vec<String> = "tags",
        reaches("set any tag but those of owners, such as one that selects objects for billing or other programs");
    /// New connections a second that a client may open; 0 is without limit.
    pub THROTTLE_LIMIT: u32 = "throttle", kind(THROTTLE), default("0");
    /// Protocol of all ports, unless `port-<number>` says otherwise.
    pub PROTOCOL: Protocol = "default-protocol", default_description("the protocol of the port");
    /// Tells backends the address of the client by the PROXY protocol. Not with UDP.
    pub PROXY_PROTOCOL: String = "default-proxy-protocol", kind(PROXY), default("none"),
        aliases(&["service.beta.kubernetes.io/linode-loadbalancer-proxy-protocol"]);
    /// Choice of a backend. TCP and HTTP: `roundrobin`, `leastconn`, `source`; UDP: `roundrobin`, `leastconn`, `ring_hash`.
    pub ALGORITHM: String = "default-algorithm", kind(ALGORITHMS), default_description("`roundrobin`");
    /// Keeps a client at its backend. HTTP: `none`, `table`, `http_cookie`; UDP: `none`, `session`, `source_ip`.
    pub STICKY: String = "default-stickiness", kind(STICKINESS), default_description("`table`, for UDP `session`");
    /// Port at which backends of UDP ports are checked.
    pub UDP_CHECK_PORT: u16 = "udp-check-port", kind(Kind::number(1, 65535)), default("80");
    /// Kind of health check of the backends.
    pub CHECK: String = "check-type", kind(CHECKS), default_description("`connection`, for UDP `none`");
    /// Path of `http` and `http_body` checks.
    pub CHECK_PATH: String = "check-path", kind(PATHS), default("/");
    /// Text that the answer to an `http_body` check must contain.
    pub CHECK_BODY: String = "check-body";
    /// Seconds between two health checks.
    pub CHECK_INTERVAL: u32 = "check-interval", kind(Kind::number(2, 3600)), default("5");
    /// Seconds that a check may take.
    pub CHECK_TIMEOUT: u32 = "check-timeout", kind(Kind::number(1, 30)), default("3");
    /// Failed checks until a backend is left out.
    pub CHECK_ATTEMPTS: u32 = "check-attempts", kind(Kind::number(1, 30)), default("2");
    /// Leaves out backends that fail requests of clients, too. Not with UDP.
    pub CHECK_PASSIVE: bool = "check-passive", default("true");
    /// Reserved address of a new NodeBalancer. A later change has no effect.
    pub RESERVED_IP: Ipv4Addr = "reserved-ipv4",
        reaches("use any reserved address of the account that is free");
    /// Keeps the reserved address when the NodeBalancer is deleted.
    pub RETAIN_IP: bool = "retain-reserved-ipv4", default("true"), lenient(),
        reaches("release a reserved address for ever");
    /// The status of the Service has the host name only.
    pub HOSTNAME_ONLY: bool = "hostname-only-ingress", default_description("`LINODE_HOSTNAME_ONLY_INGRESS`"), lenient();
    /// The status of the Service has the IPv6 address, too.
    pub IPV6_INGRESS: bool = "enable-ipv6-ingress", default_description("`--enable-ipv6-for-loadbalancers`"), lenient();
    /// Backends are the public IPv6 addresses of the Nodes.
    pub IPV6_BACKENDS: bool = "enable-ipv6-backends", default_description("`--enable-ipv6-for-nodebalancer-backends`"), lenient();
    /// ID of a firewall of yours that protects the NodeBalancer.
    pub FIREWALL_ID: u64 = "firewall-id",
        reaches("attach any firewall of the account");
    /// Clients that are admitted or refused, by a firewall that is created. Without effect if there is `firewall-id`.
    pub FIREWALL_ACL: Acl = "firewall-acl";
    /// Range of a VPC subnet for the backend side of a new NodeBalancer.
    pub BACKEND_RANGE: IpNet = "backend-ipv4-range", kind(V4_RANGE),
        reaches("use any range of a VPC subnet");
    /// Label of the VPC of the backends.
    pub BACKEND_VPC: String = "backend-vpc-name", default_description("the first VPC of the configuration"),
        reaches("use any VPC of the account");
    /// Label of the subnet of the backends.
    pub BACKEND_SUBNET: String = "backend-subnet-name", default_description("the first subnet of the configuration"),
        reaches("use any VPC subnet of the account");
    /// ID of the subnet of the backends.
    pub BACKEND_SUBNET_ID: u64 = "backend-subnet-id",
        reaches("use any VPC subnet of the account");
    /// ID of the VPC subnet in which a new NodeBalancer is reached, instead of the Internet. A later change is refused.
    pub FRONTEND_SUBNET_ID: u64 = "frontend-subnet-id",
        reaches("use any VPC subnet of the account");
    /// Label of the VPC of that subnet, with `frontend-subnet-name` and instead of the ID.
    pub FRONTEND_VPC: String = "frontend-vpc-name",
        reaches("use any VPC of the account");
    /// Label of that subnet.
    pub FRONTEND_SUBNET: String = "frontend-subnet-name",
        reaches("use any VPC subnet of the account");
    /// IPv4 range in that subnet.
    pub FRONTEND_V4: IpNet = "frontend-ipv4-range", kind(V4_RANGE),
        reaches("use any range of a VPC subnet");
    /// IPv6 range in that subnet.
    pub FRONTEND_V6: IpNet = "frontend-ipv6-range", kind(V6_RANGE),
        reaches("use any range of a VPC subnet");
}
