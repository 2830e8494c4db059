//! What a Service may ask for (§3.2): one declaration each; docs/providers/hetzner.md is made from them.
#![expect(missing_docs, reason = "each declaration says what it is for")]

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::IpNet;
use provider_kit::annotations::Annotation;
use provider_kit::declared::{Declared, Kind, forms};
use provider_kit::node_selector::NodeSelector;

use crate::config::Algorithm;
use crate::variables::ALGORITHMS;

/// What all keys begin with.
pub const PREFIX: &str = "load-balancer.hetzner.cloud/";

macro_rules! key {
    ($name:literal) => {
        concat!("load-balancer.hetzner.cloud/", $name)
    };
}

/// What a load balancer speaks to clients, or to a target while it checks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// `tcp`.
    #[default]
    Tcp,
    /// `http`.
    Http,
    /// `https`.
    Https,
}

impl Protocol {
    /// Its name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Where certificates come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateType {
    /// Somebody uploaded them.
    Uploaded,
    /// Hetzner gets and renews it, for domains of this account.
    Managed,
}

/// A certificate, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateRef {
    /// By its id.
    Id(u64),
    /// By its name.
    Name(String),
}

const PROTOCOLS: Kind<Protocol> =
    Kind::one_of(&[("tcp", Protocol::Tcp), ("http", Protocol::Http), ("https", Protocol::Https)]).any_case();
const CERTIFICATE_TYPES: Kind<CertificateType> =
    Kind::one_of(&[("uploaded", CertificateType::Uploaded), ("managed", CertificateType::Managed)]).any_case();
const IDLE: Kind<Duration> = Kind::of("a duration from 30s to 5m", |text| {
    forms::seconds(text).filter(|time| (Duration::from_secs(30)..=Duration::from_secs(300)).contains(time))
});

pub const NAME: Annotation<String> =
    Annotation::new(key!("name"), Kind::text(), "Name of the load balancer. A later change renames it.")
        .otherwise("`a` and the Service's UID");
pub const TYPE: Annotation<String> = Annotation::new(
    key!("type"),
    Kind::text(),
    "Size of the load balancer, such as `lb21`. A later change changes the size; removing the annotation does not.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_TYPE`");
pub const LOCATION: Annotation<String> = Annotation::new(
    key!("location"),
    Kind::text(),
    "Where the load balancer is made; nothing moves it later. An empty one cancels the variable. It wins over the network zone.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_LOCATION`");
pub const NETWORK_ZONE: Annotation<String> = Annotation::new(
    key!("network-zone"),
    Kind::text(),
    "Where the load balancer is made, less exactly; nothing moves it later. An empty one cancels the variable.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_NETWORK_ZONE`");
pub const ALGORITHM_TYPE: Annotation<Algorithm> =
    Annotation::new(key!("algorithm-type"), ALGORITHMS, "How a target is chosen.")
        .otherwise("`HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE`");
pub const HOSTNAME: Annotation<String> =
    Annotation::new(key!("hostname"), Kind::text(), "The Service's status is this name alone, without addresses.");
pub const IPV4_RDNS: Annotation<String> =
    Annotation::new(key!("ipv4-rdns"), Kind::text(), "Reverse DNS of the public IPv4 address.")
        .otherwise("left as it is");
pub const IPV6_RDNS: Annotation<String> =
    Annotation::new(key!("ipv6-rdns"), Kind::text(), "Reverse DNS of the public IPv6 address.")
        .otherwise("left as it is");
pub const IPV4: Annotation<String> = Annotation::new(key!("ipv4"), Kind::text(), "Reserved; nothing reads it.");
pub const IPV6: Annotation<String> = Annotation::new(key!("ipv6"), Kind::text(), "Reserved; nothing reads it.");
pub const ID: Annotation<String> = Annotation::new(key!("id"), Kind::text(), "Reserved; nothing reads it.");
pub const IPV6_DISABLED: Annotation<bool> =
    Annotation::new(key!("ipv6-disabled"), Kind::truth(), "Leaves the IPv6 address out of the Service's status.")
        .otherwise("`HCLOUD_LOAD_BALANCERS_DISABLE_IPV6`");
pub const DISABLE_PUBLIC_NETWORK: Annotation<bool> =
    Annotation::new(key!("disable-public-network"), Kind::truth(), "Turns the public interface off, or on.")
        .otherwise("`HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK`; else left as it is");
pub const DISABLE_PRIVATE_INGRESS: Annotation<bool> = Annotation::new(
    key!("disable-private-ingress"),
    Kind::truth(),
    "Leaves private addresses out of the Service's status.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS`");
pub const USE_PRIVATE_IP: Annotation<bool> = Annotation::new(
    key!("use-private-ip"),
    Kind::truth(),
    "Reaches targets by their private addresses; needs a network.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP`");
pub const PRIVATE_IPV4: Annotation<Ipv4Addr> = Annotation::new(
    key!("private-ipv4"),
    Kind::of("an IPv4 address", |text| text.parse().ok()),
    "Address of the load balancer in the network. A change detaches it and attaches it anew.",
)
.otherwise("the network chooses");
pub const PRIVATE_SUBNET_IP_RANGE: Annotation<IpNet> = Annotation::new(
    key!("private-subnet-ip-range"),
    Kind::range(),
    "The subnet to attach the load balancer to. It must exist.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE`");
pub const NODE_SELECTOR: Annotation<NodeSelector> = Annotation::new(
    key!("node-selector"),
    Kind::explained("a label selector such as `env=prod,tier in (web, api)`", NodeSelector::parse),
    "Only these Nodes are targets. While it cannot be understood, targets stay as they are.",
)
.otherwise("all Nodes");
pub const PROTOCOL: Annotation<Protocol> =
    Annotation::new(key!("protocol"), PROTOCOLS, "What is spoken on all ports of the Service.").default("tcp");
pub const USES_PROXYPROTOCOL: Annotation<bool> = Annotation::new(
    key!("uses-proxyprotocol"),
    Kind::truth(),
    "Tells targets the client's address by the PROXY protocol; they must expect it.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL`");
pub const HTTP_COOKIE_NAME: Annotation<String> =
    Annotation::new(key!("http-cookie-name"), Kind::text(), "Name of the cookie of sticky sessions.")
        .otherwise("the API's: `HCLBSTICKY`");
pub const HTTP_COOKIE_LIFETIME: Annotation<Duration> =
    Annotation::new(key!("http-cookie-lifetime"), Kind::seconds(), "Life of the cookie of sticky sessions.")
        .otherwise("the API's: 5m");
pub const HTTP_TIMEOUT_IDLE: Annotation<Duration> =
    Annotation::new(key!("http-timeout-idle"), IDLE, "When an idle connection is closed.").otherwise("the API's");
pub const HTTP_STICKY_SESSIONS: Annotation<bool> = Annotation::new(
    key!("http-sticky-sessions"),
    Kind::truth(),
    "A client stays at its target, by a cookie. With `http` and `https`.",
)
.otherwise("the API's: `false`");
pub const HTTP_REDIRECT_HTTP: Annotation<bool> =
    Annotation::new(key!("http-redirect-http"), Kind::truth(), "Redirects port 80 to HTTPS. With `https`.")
        .otherwise("the API's: `false`");
pub const CERTIFICATE_TYPE: Annotation<CertificateType> = Annotation::new(
    key!("certificate-type"),
    CERTIFICATE_TYPES,
    "Whether certificates are there already, or Hetzner is to get and renew one.",
)
.default("uploaded");
pub const HTTP_CERTIFICATES: Annotation<Vec<CertificateRef>> = Annotation::new(
    key!("http-certificates"),
    Kind::of("a comma list of ids or names", |text| Some(forms::items(text).map(certificate).collect())),
    "Certificates for `https`; a whole number is an id.",
);
pub const HTTP_MANAGED_CERTIFICATE_NAME: Annotation<String> =
    Annotation::new(key!("http-managed-certificate-name"), Kind::text(), "Name of the managed certificate.")
        .otherwise("`ccm-managed-certificate-` and the Service's UID");
pub const HTTP_MANAGED_CERTIFICATE_DOMAINS: Annotation<Vec<String>> = Annotation::new(
    key!("http-managed-certificate-domains"),
    Kind::list(),
    "Domains of the managed certificate; required if that is the type. Their DNS must be Hetzner's.",
);
pub const HTTP_MANAGED_CERTIFICATE_ACME_STAGING: Annotation<bool> = Annotation::new(
    key!("http-managed-certificate-acme-staging"),
    Kind::truth(),
    "A certificate that no browser trusts: for Hetzner's own tests.",
)
.default("false")
.lenient();
pub const HEALTH_CHECK_PROTOCOL: Annotation<Protocol> =
    Annotation::new(key!("health-check-protocol"), PROTOCOLS, "How targets are checked.")
        .otherwise("the Service's `protocol` if anything else of the check is set, else `tcp`");
pub const HEALTH_CHECK_PORT: Annotation<u16> =
    Annotation::new(key!("health-check-port"), Kind::number(1, 65535), "Where targets are checked.")
        .otherwise("the node port");
pub const HEALTH_CHECK_INTERVAL: Annotation<Duration> =
    Annotation::new(key!("health-check-interval"), Kind::seconds(), "How often targets are checked.")
        .otherwise("`HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL`");
pub const HEALTH_CHECK_TIMEOUT: Annotation<Duration> =
    Annotation::new(key!("health-check-timeout"), Kind::seconds(), "How long a check may take.")
        .otherwise("`HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT`");
pub const HEALTH_CHECK_RETRIES: Annotation<u32> = Annotation::new(
    key!("health-check-retries"),
    Kind::number(0, i32::MAX as i64),
    "How many checks must fail before a target is left out.",
)
.otherwise("`HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES`");
pub const HEALTH_CHECK_HTTP_DOMAIN: Annotation<String> =
    Annotation::new(key!("health-check-http-domain"), Kind::text(), "Host that an HTTP check asks for.");
pub const HEALTH_CHECK_HTTP_PATH: Annotation<String> =
    Annotation::new(key!("health-check-http-path"), Kind::text(), "Path that an HTTP check asks for.");
pub const HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE: Annotation<bool> = Annotation::new(
    key!("health-check-http-validate-certificate"),
    Kind::truth(),
    "Whether a check by `https` wants a valid certificate of the target.",
);
pub const HTTP_STATUS_CODES: Annotation<Vec<String>> = Annotation::new(
    key!("http-status-codes"),
    Kind::list(),
    "Good answers to an HTTP check; `?` stands for one character, `*` for any number.",
)
.otherwise("the API's: `2??,3??`");

/// All of them, in the order of the reference page.
pub const ALL: &[&dyn Declared] = &[
    &NAME,
    &TYPE,
    &LOCATION,
    &NETWORK_ZONE,
    &ALGORITHM_TYPE,
    &NODE_SELECTOR,
    &HOSTNAME,
    &IPV4_RDNS,
    &IPV6_RDNS,
    &IPV6_DISABLED,
    &DISABLE_PUBLIC_NETWORK,
    &DISABLE_PRIVATE_INGRESS,
    &USE_PRIVATE_IP,
    &PRIVATE_IPV4,
    &PRIVATE_SUBNET_IP_RANGE,
    &PROTOCOL,
    &USES_PROXYPROTOCOL,
    &HTTP_COOKIE_NAME,
    &HTTP_COOKIE_LIFETIME,
    &HTTP_TIMEOUT_IDLE,
    &HTTP_STICKY_SESSIONS,
    &HTTP_REDIRECT_HTTP,
    &CERTIFICATE_TYPE,
    &HTTP_CERTIFICATES,
    &HTTP_MANAGED_CERTIFICATE_NAME,
    &HTTP_MANAGED_CERTIFICATE_DOMAINS,
    &HTTP_MANAGED_CERTIFICATE_ACME_STAGING,
    &HEALTH_CHECK_PROTOCOL,
    &HEALTH_CHECK_PORT,
    &HEALTH_CHECK_INTERVAL,
    &HEALTH_CHECK_TIMEOUT,
    &HEALTH_CHECK_RETRIES,
    &HEALTH_CHECK_HTTP_DOMAIN,
    &HEALTH_CHECK_HTTP_PATH,
    &HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE,
    &HTTP_STATUS_CODES,
    &IPV4,
    &IPV6,
    &ID,
];

fn certificate(text: &str) -> CertificateRef {
    text.parse().map_or_else(|_| CertificateRef::Name(text.to_owned()), CertificateRef::Id)
}
