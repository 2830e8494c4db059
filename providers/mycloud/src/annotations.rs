//! The annotations of a Service. Section `[LoadBalancerDefaults]` of the configuration sets defaults, except for
//! annotations with a key of their own in `[LoadBalancer]`.

use std::net::IpAddr;
use std::time::Duration;

use provider_kit::declared::Kind;

use crate::config::{self, Choice, words};

/// The beginning of all keys.
pub const PREFIX: &str = "service.beta.kubernetes.io/dlb-";

provider_kit::declare! {
    /// Annotations that concern one load balancer, so that the configuration has no defaults for them.
    pub OWN: "service.beta.kubernetes.io/dlb-";

    /// ID of the load balancer. The controller writes it. To have an existing load balancer adopted, set it together
    /// with `dlb-adopt`.
    pub ID: String = "id",
        reaches("adopt any load balancer of the account that has no owner, together with `dlb-adopt`");
    /// Adopts the load balancer of `dlb-id`, or of the Service's name, if it has no owner. It is not deleted with the
    /// Service.
    pub ADOPT: bool = "adopt", default("false"),
        reaches("adopt any load balancer of the account that has no owner");
    /// Permits the replacement of the load balancer, with another address, if another network, VPC, subnet, family or
    /// address requires it. The new load balancer works before the old one is deleted.
    pub ALLOW_RECREATE: bool = "allow-recreate", default("false");
    /// Permits an interruption, in addition to `dlb-allow-recreate`: the old load balancer is deleted first, because the
    /// new one needs its address.
    pub ALLOW_INTERRUPTION: bool = "allow-interruption", default("false");
    /// Static or reserved address. Default: `spec.loadBalancerIP`.
    pub IP: IpAddr = "ip",
        reaches("use any static or reserved address of the account that is free");
    /// Address families of the load balancer. Default: those of the Service.
    pub IP_FAMILY: Choice = "ip-family", kind(words!("ipv4", "ipv6", "dual")), decides_targets();
    /// DNS name that the Service's status shows instead of addresses.
    pub HOSTNAME: String = "hostname",
        reaches("show any host name in the status of its Service");
    /// Existing access list. Not together with source ranges.
    pub ACL_ID: String = "acl-id",
        reaches("use any access list of the account");
    /// Size of the load balancer.
    pub SPEC: Choice = "spec", kind(words!("small", "medium", "large", "xlarge")), fallback(&config::SPEC),
        costs("pay for the largest size");
    /// Network of the load balancer.
    pub NETWORK_TYPE: Choice = "network-type", kind(words!("internet", "intranet")), fallback(&config::NETWORK_TYPE);
    /// VPC of the load balancer.
    pub VPC_ID: String = "vpc-id", fallback(&config::VPC_ID),
        reaches("use any VPC of the account");
    /// Subnet of the load balancer.
    pub SUBNET_ID: String = "subnet-id", fallback(&config::SUBNET_ID),
        reaches("use any subnet of the account");
    /// Protects the load balancer against deletion by others.
    pub DELETE_PROTECTION: bool = "delete-protection", fallback(&config::DELETE_PROTECTION),
        costs("leave behind a load balancer that you pay for");
}

/// Declares annotations, and for each the key of the same name in `[LoadBalancerDefaults]` with the default.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $value:ty = $key:literal, $kind:expr $(, default($default:literal))?
            $(, costs($costs:literal))? $(, reaches($reaches:literal))? $(; $own:ident)?;
    )*) => {
        /// The keys of `[LoadBalancerDefaults]`.
        pub mod defaults {
            use std::time::Duration;

            use provider_kit::declared::Kind;

            use super::{LIST, TEXT, TRUTH, check_port, selector};
            use crate::config::{Choice, words};

            provider_kit::declare! {
                /// Every key of the section.
                pub ALL: "[LoadBalancerDefaults] ";
                $( $(#[doc = $doc])+ pub $name: $value = $key, kind($kind) $(, default($default))?; )*
            }
        }

        provider_kit::declare! {
            /// Annotations with defaults in the configuration.
            pub LOAD_BALANCER: "service.beta.kubernetes.io/dlb-";
            $( $(#[doc = $doc])+ pub $name: $value = $key, kind($kind), fallback(&defaults::$name) $(, costs($costs))? $(, reaches($reaches))? $(, $own())?; )*
        }
    };
}

/// A text that is not empty.
const TEXT: Kind<String> = Kind::of("a text", |text| (!text.is_empty()).then(|| text.to_owned()));
/// A truth value, `true` or `false`.
const TRUTH: Kind<bool> = <bool as provider_kit::declared::Value>::KIND;
/// A comma list of texts.
const LIST: Kind<Vec<String>> = <Vec<String> as provider_kit::declared::Value>::KIND;

settings! {
    /// Keeps the load balancer when the Service is deleted. Its listeners for the Service are removed.
    PRESERVE: bool = "preserve", TRUTH, default("false"), costs("leave behind a load balancer that you pay for");
    /// Bandwidth in Mbit/s. Only for `internet`.
    BANDWIDTH: u32 = "bandwidth-mbps", Kind::number(1, 10_000), costs("pay for up to 10,000 Mbit/s");
    /// Further labels of the load balancer, as `k=v,k=v`.
    TAGS: Vec<String> = "tags", LIST,
        reaches("set any label but those of owners, such as one that selects objects for billing or other programs");
    /// Protocol of the listener. Default: that of the port.
    LISTENER_PROTOCOL: Choice = "listener-protocol", words!("tcp", "udp", "http", "https", "tls");
    /// Maximum number of requests per second; for tcp and udp, of new connections per second. 0: no limit.
    LISTENER_MAX_QPS: u32 = "listener-maxqps", Kind::number(0, 1_000_000), default("0");
    /// Maximum number of concurrent connections. 0: no limit.
    LISTENER_MAX_CONNECTIONS: u32 = "listener-maxconn", Kind::number(0, 5_000_000), default("0");
    /// Maximum bandwidth of the listener in Mbit/s. 0: no limit.
    LISTENER_BANDWIDTH: u32 = "listener-bandwidth-mbps", Kind::number(0, 10_000), default("0");
    /// Algorithm by which a backend is chosen.
    LISTENER_SCHEDULER: Choice = "listener-scheduler", words!("wrr", "wlc", "source-hash"), default("wrr");
    /// Seconds after which an idle connection is closed. Default: 60 for http and https, else 900.
    LISTENER_IDLE_TIMEOUT: u32 = "listener-idle-timeout", Kind::number(10, 4000);
    /// Seconds within which a backend must answer. Only for http and https.
    LISTENER_REQUEST_TIMEOUT: u32 = "listener-request-timeout", Kind::number(1, 300), default("60");
    /// Sends a client to the same backend. Cookies need http or https. Default: `source-ip` for a Service with session affinity.
    LISTENER_STICKY: Choice = "listener-sticky", words!("off", "source-ip", "cookie-insert", "cookie-rewrite");
    /// Seconds for which a client keeps its backend. Default: the timeout of the session affinity, else 1000.
    LISTENER_STICKY_TIMEOUT: u32 = "listener-sticky-timeout", Kind::number(1, 86_400);
    /// Name of the cookie, of at most 64 characters. Required for `cookie-rewrite`.
    LISTENER_COOKIE_NAME: String = "listener-cookie-name",
        Kind::of("1 to 64 characters", |text| (1..=64).contains(&text.len()).then(|| text.to_owned()));
    /// Version of the PROXY protocol. Only for tcp and tls.
    LISTENER_PROXY_PROTOCOL: Choice = "listener-proxy-protocol", words!("off", "v1", "v2"), default("off");
    /// Adds `X-Forwarded-For`. Only for http and https.
    LISTENER_XFF: bool = "listener-xff", TRUTH, default("true");
    /// Offers HTTP/2. Only for https.
    LISTENER_HTTP2: bool = "listener-http2", TRUTH, default("true");
    /// IDs of certificates; the first is the default one. https and tls need it, or `dlb-listener-cert-secret`.
    LISTENER_CERTIFICATES: Vec<String> = "listener-cert-id", LIST,
        reaches("use any certificate of the account");
    /// Name of a Secret of type `kubernetes.io/tls` in the namespace of the Service, whose certificate is uploaded.
    LISTENER_SECRET: String = "listener-cert-secret", TEXT;
    /// Oldest version of TLS. Only for https and tls.
    LISTENER_TLS_POLICY: Choice = "listener-tls-policy", words!("tls-1-0", "tls-1-2", "tls-1-3"), default("tls-1-2");
    /// Port of the https listener to which the http listener redirects.
    LISTENER_REDIRECT: u16 = "listener-redirect", Kind::number(1, 65_535);
    /// Checks the health of backends.
    HEALTH_CHECK: bool = "health-check", TRUTH, default("true");
    /// Protocol of the check. Default: `http` with `externalTrafficPolicy: Local`, else `tcp`.
    HEALTH_CHECK_PROTOCOL: Choice = "health-check-protocol", words!("tcp", "http", "udp");
    /// Port of the check: a number, `traffic`, or `node-health`, which is the default with `externalTrafficPolicy: Local`.
    HEALTH_CHECK_PORT: String = "health-check-port", Kind::of("a port, traffic or node-health", check_port);
    /// Path of an http check. Default: `/healthz` on the port `node-health`, else `/`.
    HEALTH_CHECK_PATH: String = "health-check-path", TEXT;
    /// Host name of an http check.
    HEALTH_CHECK_HOST: String = "health-check-host", TEXT;
    /// Status codes of a healthy backend in an http check.
    HEALTH_CHECK_CODES: Vec<String> = "health-check-codes", LIST, default("2xx,3xx");
    /// Seconds between two checks.
    HEALTH_CHECK_INTERVAL: u32 = "health-check-interval", Kind::number(1, 50), default("5");
    /// Timeout of a check, in seconds.
    HEALTH_CHECK_TIMEOUT: u32 = "health-check-timeout", Kind::number(1, 300), default("3");
    /// Checks that succeed before a backend is healthy.
    HEALTHY_THRESHOLD: u32 = "health-check-healthy-threshold", Kind::number(2, 10), default("3");
    /// Checks that fail before a backend is unhealthy.
    UNHEALTHY_THRESHOLD: u32 = "health-check-unhealthy-threshold", Kind::number(2, 10), default("3");
    /// Nodes that are backends: `annotated`, `all`, or those with the labels `k=v,k2=v2`.
    BACKEND_SELECTOR: String = "backend-selector", Kind::of("annotated, all or labels k=v,k2=v2", selector), default("annotated"); decides_targets;
    /// Only Nodes whose ingress annotation has this value are backends.
    BACKEND_GROUP: String = "backend-group", TEXT; decides_targets;
    /// Weight of a backend whose Node has no weight.
    BACKEND_WEIGHT: u32 = "backend-default-weight", Kind::number(0, 256), default("100"); decides_targets;
    /// Meaning of the access list. Default: `white` with source ranges or `dlb-acl-id`.
    ACL_TYPE: Choice = "acl-type", words!("white", "black", "off");
    /// Seconds for which a backend gets no new connections before it is removed.
    DRAIN_TIMEOUT: Duration = "drain-timeout", Kind::seconds(), default("0");
}

fn check_port(text: &str) -> Option<String> {
    let is_port = text.parse::<u16>().is_ok_and(|port| port > 0);
    (is_port || text == "traffic" || text == "node-health").then(|| text.to_owned())
}

fn selector(text: &str) -> Option<String> {
    let is_label = |item: &str| item.split_once('=').is_some_and(|(key, _)| !key.is_empty());
    let is_selector = text == "annotated" || text == "all" || text.split(',').all(is_label);
    is_selector.then(|| text.to_owned())
}
