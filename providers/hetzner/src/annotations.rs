//! The annotations of a Service. docs/providers/hetzner.md is generated from these declarations.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use provider_kit::declared::{Kind, Value, forms};
use provider_kit::node_selector::NodeSelector;
use serde::Serialize;

use crate::variables as var;

/// The type of a load balancer without a type in its annotation or variable.
pub(crate) const DEFAULT_TYPE: &str = "lb11";

/// The rule by which a load balancer chooses a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Targets in turn: `round_robin`.
    RoundRobin,
    /// The target with the fewest connections: `least_connections`.
    LeastConnections,
}

impl Value for Algorithm {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("round_robin", Self::RoundRobin),
        ("least_connections", Self::LeastConnections),
    ])
    .any_case();
}

/// The protocol of a port, or of a health check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Plain TCP connections: `tcp`.
    #[default]
    Tcp,
    /// HTTP without TLS: `http`.
    Http,
    /// HTTP over TLS: `https`.
    Https,
}

impl Value for Protocol {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("tcp", Self::Tcp),
        ("http", Self::Http),
        ("https", Self::Https),
    ])
    .any_case();
}

/// The origin of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateType {
    /// A user uploaded them.
    Uploaded,
    /// Hetzner obtains and renews the certificate, for domains of this account.
    Managed,
}

impl Value for CertificateType {
    const KIND: Kind<Self> =
        Kind::one_of(&[("uploaded", Self::Uploaded), ("managed", Self::Managed)]).any_case();
}

/// A certificate, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateRef {
    /// ID of the certificate.
    Id(u64),
    /// Name of the certificate.
    Name(String),
}

impl Value for CertificateRef {
    const KIND: Kind<Self> = Kind::of("an id or a name", |text| {
        Some(
            text.parse()
                .map_or_else(|_| Self::Name(text.to_owned()), Self::Id),
        )
    });
}

/// A duration, or a number of seconds, as the API takes it: in seconds.
pub(crate) const SECONDS: Kind<u64> = Kind::of(
    "a duration such as 30s or 1m30s, or a number of seconds",
    |text| Some(forms::seconds(text)?.as_secs()),
);
const IDLE: Kind<u64> = Kind::of("a duration from 30s to 5m", |text| {
    let time = forms::seconds(text).filter(|time| (30.0..=300.0).contains(&time.as_secs_f64()));
    Some(time?.as_secs())
});

/// A text without surrounding space.
const WORD: Kind<String> = Kind::of("a text", |text| Some(text.to_owned()));

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

/// The prefix of all keys.
pub const PREFIX: &str = "load-balancer.hetzner.cloud/";

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ALL: "load-balancer.hetzner.cloud/";

    /// Name of the load balancer. A later change renames it.
    pub NAME: String = "name", default_description("`a` and the Service's UID"),
        reaches("adopt any load balancer of the project that has no owner and the label of HCLOUD_LOAD_BALANCERS_ADOPTION_LABEL, or take any free name");
    /// Size of the load balancer, such as `lb21`. A later change resizes the load balancer. If the annotation is
    /// removed, the size stays, unless the variable is set.
    pub TYPE: String = "type", kind(WORD), fallback(&var::LOAD_BALANCERS_TYPE),
        costs("pay for a load balancer of any type");
    /// Location of the load balancer. A later change has no effect. An empty value cancels the variable. The location
    /// takes precedence over the network zone.
    pub LOCATION: String = "location", kind(WORD), fallback(&var::LOAD_BALANCERS_LOCATION);
    /// Network zone of the load balancer; Hetzner chooses the location. A later change has no effect. An empty value
    /// cancels the variable.
    pub NETWORK_ZONE: String = "network-zone", kind(WORD), fallback(&var::LOAD_BALANCERS_NETWORK_ZONE);
    /// Algorithm by which the load balancer chooses a target.
    pub ALGORITHM_TYPE: Algorithm = "algorithm-type", fallback(&var::LOAD_BALANCERS_ALGORITHM_TYPE);
    /// Restricts the targets to Nodes with these labels. While the selector is invalid, targets stay as they are.
    pub NODE_SELECTOR: NodeSelector = "node-selector", default_description("all Nodes"), decides_targets();
    /// Name that the Service's status shows instead of addresses.
    pub HOSTNAME: String = "hostname", kind(HOST), reaches("show any host name in the status");
    /// Reverse DNS of the public IPv4 address.
    pub IPV4_RDNS: String = "ipv4-rdns", kind(HOST), default_description("left as it is");
    /// Reverse DNS of the public IPv6 address.
    pub IPV6_RDNS: String = "ipv6-rdns", kind(HOST), default_description("left as it is");
    /// Leaves the IPv6 address out of the Service's status.
    pub IPV6_DISABLED: bool = "ipv6-disabled", fallback(&var::LOAD_BALANCERS_DISABLE_IPV6);
    /// If true, disables the public interface of the load balancer; if false, enables it.
    pub DISABLE_PUBLIC_NETWORK: bool = "disable-public-network", fallback(&var::LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK),
        default_description("`HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK`; else left as it is");
    /// Leaves private addresses out of the Service's status.
    pub DISABLE_PRIVATE_INGRESS: bool = "disable-private-ingress",
        fallback(&var::LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS);
    /// Reaches targets by their private addresses; needs a network.
    pub USE_PRIVATE_IP: bool = "use-private-ip", fallback(&var::LOAD_BALANCERS_USE_PRIVATE_IP),
        decides_targets();
    /// Address of the load balancer in the network. A change detaches and reattaches the load balancer.
    pub PRIVATE_IPV4: Ipv4Addr = "private-ipv4", default_description("the network chooses"),
        reaches("take any free address of the network");
    /// The subnet to attach the load balancer to. It must exist.
    pub PRIVATE_SUBNET_IP_RANGE: IpNet = "private-subnet-ip-range",
        fallback(&var::LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE), reaches("take an address of any subnet of the network");
    /// Protocol of all ports of the Service.
    pub PROTOCOL: Protocol = "protocol", default("tcp");
    /// Sends the client's address to targets by the PROXY protocol, which targets must expect.
    pub USES_PROXYPROTOCOL: bool = "uses-proxyprotocol", fallback(&var::LOAD_BALANCERS_USES_PROXYPROTOCOL);
    /// Name of the cookie of sticky sessions.
    pub HTTP_COOKIE_NAME: String = "http-cookie-name", default_description("the API's: `HCLBSTICKY`");
    /// Lifetime of the cookie of sticky sessions.
    pub HTTP_COOKIE_LIFETIME: u64 = "http-cookie-lifetime", kind(SECONDS), default_description("the API's: `5m`");
    /// Time after which an idle connection is closed.
    pub HTTP_TIMEOUT_IDLE: u64 = "http-timeout-idle", kind(IDLE), default_description("the API's");
    /// Sends each client to the same target, by a cookie. Applies to `http` and `https`.
    pub HTTP_STICKY_SESSIONS: bool = "http-sticky-sessions", default_description("the API's: `false`");
    /// Redirects HTTP to HTTPS. Applies to `https`.
    pub HTTP_REDIRECT_HTTP: bool = "http-redirect-http", default_description("the API's: `false`");
    /// Origin of the certificates: uploaded by you, or issued and renewed by Hetzner.
    pub CERTIFICATE_TYPE: CertificateType = "certificate-type", default("uploaded");
    /// Certificates for `https`, by ID or name; a whole number is an ID.
    pub HTTP_CERTIFICATES: Vec<CertificateRef> = "http-certificates", reaches("use any certificate of the project");
    /// Name of the managed certificate.
    pub HTTP_MANAGED_CERTIFICATE_NAME: String = "http-managed-certificate-name",
        default_description("`ccm-managed-certificate-` and the Service's UID"),
        reaches("take any free name of a certificate of the project");
    /// Domains of the managed certificate; required for the type `managed`. Hetzner must serve their DNS.
    pub HTTP_MANAGED_CERTIFICATE_DOMAINS: Vec<String> = "http-managed-certificate-domains",
        reaches("get a certificate for any domain whose DNS zone is in the project");
    /// Requests the managed certificate from a staging CA, which browsers do not trust. For tests.
    pub HTTP_MANAGED_CERTIFICATE_ACME_STAGING: bool = "http-managed-certificate-acme-staging", default("false"), lenient();
    /// Protocol of health checks.
    pub HEALTH_CHECK_PROTOCOL: Protocol = "health-check-protocol",
        default_description("the Service's `protocol` if anything else of the check is set, else `tcp`");
    /// Port of health checks.
    pub HEALTH_CHECK_PORT: u16 = "health-check-port", kind(Kind::number(1, 65535)), default_description("the node port");
    /// Interval between health checks.
    pub HEALTH_CHECK_INTERVAL: u64 = "health-check-interval", kind(SECONDS),
        fallback(&var::LOAD_BALANCERS_HEALTH_CHECK_INTERVAL);
    /// Time-out of a health check.
    pub HEALTH_CHECK_TIMEOUT: u64 = "health-check-timeout", kind(SECONDS),
        fallback(&var::LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT);
    /// Number of failed health checks after which a target receives no traffic.
    pub HEALTH_CHECK_RETRIES: u32 = "health-check-retries", fallback(&var::LOAD_BALANCERS_HEALTH_CHECK_RETRIES);
    /// Host name in HTTP health checks.
    pub HEALTH_CHECK_HTTP_DOMAIN: String = "health-check-http-domain";
    /// Path of HTTP health checks.
    pub HEALTH_CHECK_HTTP_PATH: String = "health-check-http-path";
    /// If set, a health check by `https` requires a valid certificate of the target.
    pub HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE: bool = "health-check-http-validate-certificate";
    /// Status codes that an HTTP health check accepts; `?` stands for one character, `*` for any number.
    pub HTTP_STATUS_CODES: Vec<String> = "http-status-codes", default_description("the API's: `2??,3??`");
    /// Reserved; nothing reads it.
    pub IPV4: String = "ipv4";
    /// Reserved; nothing reads it.
    pub IPV6: String = "ipv6";
    /// Reserved; nothing reads it.
    pub ID: String = "id";
}
