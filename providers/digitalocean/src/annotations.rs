//! The annotations of a Service. docs/providers/digitalocean.md is generated from these declarations.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use provider_kit::declared::{Kind, Value};
use serde::{Deserialize, Serialize};

use crate::config::LoadBalancerType;

/// Protocol of a load balancer's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names of protocols")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Http,
    Https,
    Http2,
    Http3,
}

impl Value for Protocol {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("tcp", Self::Tcp),
        ("http", Self::Http),
        ("https", Self::Https),
        ("http2", Self::Http2),
        ("http3", Self::Http3),
    ]);
}

/// Reachability of a load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Network {
    /// Reachable from the internet.
    #[default]
    External,
    /// Reachable from the VPC only.
    Internal,
}

impl Value for Network {
    const KIND: Kind<Self> =
        Kind::one_of(&[("EXTERNAL", Self::External), ("INTERNAL", Self::Internal)]);
}

/// Address families of a load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NetworkStack {
    /// A load balancer with IPv4 only.
    #[default]
    Ipv4,
    /// A load balancer with IPv4 and IPv6.
    Dualstack,
}

impl Value for NetworkStack {
    const KIND: Kind<Self> = Kind::one_of(&[("IPV4", Self::Ipv4), ("DUALSTACK", Self::Dualstack)]);
}

const SIZES: Kind<String> = Kind::of("one of lb-small, lb-medium, lb-large", |text| {
    ["lb-small", "lb-medium", "lb-large"]
        .contains(&text)
        .then(|| text.to_owned())
});
const CHECKS: Kind<Protocol> = Kind::one_of(&[
    ("tcp", Protocol::Tcp),
    ("http", Protocol::Http),
    ("https", Protocol::Https),
]);
const STICKY: Kind<bool> = Kind::one_of(&[("cookies", true), ("none", false)]);
const ALGORITHMS: Kind<String> = Kind::of("one of round_robin, least_connections", |text| {
    ["round_robin", "least_connections"]
        .contains(&text)
        .then(|| text.to_owned())
});

/// The names of load balancers that the API accepts.
const NAMES: Kind<String> = Kind::of(
    "1 to 255 letters, digits, dots and dashes, with a letter or digit at both ends",
    |text| {
        let is_end = |byte: u8| byte.is_ascii_alphanumeric();
        let is_name = text.len() <= 255
            && text
                .bytes()
                .all(|byte| is_end(byte) || b".-".contains(&byte))
            && text.bytes().next().is_some_and(is_end)
            && text.bytes().last().is_some_and(is_end);
        (is_name || text.is_empty()).then(|| text.to_owned())
    },
);

/// A DNS name, the only form that the API server accepts in a status. An empty value counts as unset.
const HOST: Kind<String> = Kind::of("a DNS name such as lb.example.com", |text| {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |text: &str| {
        text.bytes().all(is_inner)
            && !text.is_empty()
            && !text.starts_with('-')
            && !text.ends_with('-')
    };
    let is_name =
        name.len() <= 253 && name.parse::<IpAddr>().is_err() && name.split('.').all(is_label);
    (is_name || text.is_empty()).then_some(name)
});

/// A source of a firewall rule, as the API writes it.
const SOURCES: Kind<Vec<String>> = Kind::of("a comma list of ip:ADDRESS and cidr:RANGE", |text| {
    let is_source = |item: &&str| match item.split_once(':') {
        Some(("ip", ip)) => ip.parse::<IpAddr>().is_ok(),
        Some(("cidr", range)) => range.parse::<IpNet>().is_ok(),
        _ => false,
    };
    let items: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect();
    items
        .iter()
        .all(is_source)
        .then(|| items.into_iter().map(str::to_owned).collect())
});

/// The IDs of load balancers. An empty value counts as unset.
const IDS: Kind<String> = Kind::of(
    "the UUID of a load balancer, such as 4de7ac8b-495b-4884-9a69-1050c6793cd6",
    |text| {
        if text.is_empty() {
            Some(String::new())
        } else {
            load_balancer_id(text)
        }
    },
);

/// Returns the ID of a load balancer, as the API writes it, if the text is one.
pub(crate) fn load_balancer_id(text: &str) -> Option<String> {
    let text = text.trim();
    let has_form = text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let is_id = has_form
        && text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_id.then(|| text.to_ascii_lowercase())
}

const PORTS: Kind<Vec<u16>> = Kind::of("a comma list of port numbers", |text| {
    text.split(',')
        .map(|item| item.trim().parse().ok().filter(|port| *port != 0))
        .collect()
});

/// The prefix of most keys.
pub const PREFIX: &str = "service.beta.kubernetes.io/do-loadbalancer-";
/// The prefix of [`DISOWN`].
pub const DISOWN_PREFIX: &str = "service.kubernetes.io/do-loadbalancer-";
/// The prefix of [`ID`] and [`FIREWALL_MANAGED`].
pub const CLUSTER_PREFIX: &str = "kubernetes.digitalocean.com/";

provider_kit::declare! {
    /// The annotations with other prefixes.
    pub OTHERS: "";

    /// ID of the load balancer. The controller sets it when it creates one. Set it yourself to have an existing load
    /// balancer adopted.
    pub ID: String = "kubernetes.digitalocean.com/load-balancer-id", kind(IDS),
        reaches("adopt any load balancer of the account that has no owner and no targets");
    /// Stops managing the load balancer: it is no longer created, changed or deleted.
    pub DISOWN: bool = "service.kubernetes.io/do-loadbalancer-disown", default("false"),
        costs("leave behind a load balancer that you pay for");
    /// Admits traffic to the Service in the worker firewall.
    pub FIREWALL_MANAGED: bool = "kubernetes.digitalocean.com/firewall-managed", default("true"), lenient(),
        reaches("decide if the worker firewall admits everybody to its ports");
}

provider_kit::declare! {
    /// The annotations with the common prefix, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/do-loadbalancer-";

    /// Name of the load balancer. A later change renames it.
    pub NAME: String = "name", kind(NAMES), default_description("`a` and the Service's UID"),
        reaches("adopt any load balancer of the account of that name that has no owner and no targets");
    /// Type of the load balancer. A later change needs `allow-recreate`.
    pub TYPE: LoadBalancerType = "type", default_description("`DEFAULT_LB_TYPE`");
    /// Network from which clients reach the load balancer. A later change needs `allow-recreate`.
    pub NETWORK: Network = "network", default("EXTERNAL");
    /// Permits the replacement of the load balancer, with another address, if another type or network requires it. The
    /// new load balancer works before the old one is deleted. Not an annotation of the Go program.
    pub ALLOW_RECREATE: bool = "allow-recreate", default("false");
    /// Permits an interruption, in addition to `allow-recreate`: the old load balancer is deleted first, because the new
    /// one needs its address. Not an annotation of the Go program.
    pub ALLOW_INTERRUPTION: bool = "allow-interruption", default("false");
    /// Address families of a new load balancer. A later change has no effect, and gets a warning.
    pub NETWORK_STACK: NetworkStack = "network-stack",
        default_description("`IPV4` for internal ones, `DUALSTACK` for `REGIONAL`, else what all Nodes have");
    /// Subnet of a new load balancer. A later change has no effect, and gets a warning.
    pub SUBNET: String = "subnet-uuid",
        reaches("use any subnet of the VPC");
    /// Your own address for a new load balancer. A later change has no effect, and gets a warning.
    pub IP: Ipv4Addr = "ip", default_description("`spec.loadBalancerIP`"),
        reaches("use any reserved address of the account that is free");
    /// Size by name. Not together with `size-unit`.
    pub SIZE_SLUG: String = "size-slug", kind(SIZES),
        costs("pay for the largest size");
    /// Size in nodes of the load balancer; 0 means unset. A load balancer is resized at most once an hour.
    pub SIZE_UNIT: u32 = "size-unit", kind(Kind::number(0, 200)), default_description("the API's: `1`"),
        costs("pay for up to 200 nodes of a load balancer");
    /// Protocol of all TCP ports of the Service.
    pub PROTOCOL: Protocol = "protocol", default("tcp");
    /// Ports that accept HTTP.
    pub HTTP_PORTS: Vec<u16> = "http-ports", kind(PORTS);
    /// Ports that accept HTTPS.
    pub TLS_PORTS: Vec<u16> = "tls-ports", kind(PORTS), default_description("443, with a certificate or passthrough");
    /// Ports that accept HTTP/2.
    pub HTTP2_PORTS: Vec<u16> = "http2-ports", kind(PORTS);
    /// Port that also accepts HTTP/3.
    pub HTTP3_PORT: u16 = "http3-port", kind(Kind::number(1, 65535));
    /// Passes TLS through to the targets.
    pub TLS_PASSTHROUGH: bool = "tls-passthrough", default("false"), lenient();
    /// ID of the certificate.
    pub CERTIFICATE_ID: String = "certificate-id",
        reaches("use any certificate of the account");
    /// Name of the certificate, if no ID is given.
    pub CERTIFICATE_NAME: String = "certificate-name",
        reaches("use any certificate of the account");
    /// Creates no DNS records for Let's Encrypt certificates.
    pub DISABLE_DNS_RECORDS: bool = "disable-lets-encrypt-dns-records", default("false");
    /// Redirects HTTP to HTTPS.
    pub REDIRECT: bool = "redirect-http-to-https", default("false");
    /// Sends the client's address to targets by the PROXY protocol, which targets must expect.
    pub PROXY_PROTOCOL: bool = "enable-proxy-protocol", default("false");
    /// Keeps connections to targets open.
    pub KEEPALIVE: bool = "enable-backend-keepalive", default("false");
    /// Seconds after which an idle HTTP connection is closed.
    pub IDLE_TIMEOUT: u32 = "http-idle-timeout-seconds", kind(Kind::number(30, 600)), default_description("the API's: `60`");
    /// Sends each client to the same target.
    pub STICKY_TYPE: bool = "sticky-sessions-type", kind(STICKY), default("none"), lenient();
    /// Name of the cookie; required with `cookies`.
    pub STICKY_NAME: String = "sticky-sessions-cookie-name";
    /// Lifetime of the cookie in seconds; required with `cookies`.
    pub STICKY_TTL: u32 = "sticky-sessions-cookie-ttl";
    /// Algorithm by which a load balancer chooses a target. Sent when the load balancer is created, but the API ignores
    /// it.
    pub ALGORITHM: String = "algorithm", kind(ALGORITHMS), default("round_robin"), lenient();
    /// Checks a port of the Service instead of kube-proxy's health check; `healthcheck-port`, `-path` and `-protocol`
    /// configure the check. Any value enables it.
    pub CHECK_OVERRIDE: String = "override-health-check";
    /// Port of the Service for health checks.
    pub CHECK_PORT: u16 = "healthcheck-port", kind(Kind::number(1, 65535)), default_description("the first TCP port");
    /// Path of HTTP health checks.
    pub CHECK_PATH: String = "healthcheck-path";
    /// Protocol of health checks.
    pub CHECK_PROTOCOL: Protocol = "healthcheck-protocol", kind(CHECKS), default_description("`http` with a path, else `tcp`");
    /// Seconds between two health checks.
    pub CHECK_INTERVAL: u32 = "healthcheck-check-interval-seconds", kind(Kind::number(3, 300)), default("3");
    /// Time-out of a health check, in seconds.
    pub CHECK_TIMEOUT: u32 = "healthcheck-response-timeout-seconds", kind(Kind::number(3, 300)), default("5");
    /// Number of failed health checks after which a target receives no traffic.
    pub CHECK_UNHEALTHY: u32 = "healthcheck-unhealthy-threshold", kind(Kind::number(2, 10)), default("3");
    /// Number of successful health checks after which a target receives traffic again.
    pub CHECK_HEALTHY: u32 = "healthcheck-healthy-threshold", kind(Kind::number(2, 10)), default("5");
    /// Clients that are refused.
    pub DENY_RULES: Vec<String> = "deny-rules", kind(SOURCES);
    /// Clients that are admitted; all others are refused. `spec.loadBalancerSourceRanges` takes precedence.
    pub ALLOW_RULES: Vec<String> = "allow-rules", kind(SOURCES);
    /// Name that the Service's status shows instead of addresses.
    pub HOSTNAME: String = "hostname", kind(HOST),
        reaches("show any host name in the status of its Service");
}
