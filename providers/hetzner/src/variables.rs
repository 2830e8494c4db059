//! The environment variables (§1): one declaration each; docs/providers/hetzner.md is made from them.
#![expect(missing_docs, reason = "each declaration says what it is for")]

use std::time::Duration;

use ipnet::IpNet;
use provider_kit::declared::{Declared, Kind};
use provider_kit::variables::Variable;

use crate::config::{AddressFamily, Algorithm};

/// How the servers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// The whole list.
    All,
    /// One server at a time.
    One,
    /// One server at a time, and nothing is kept.
    Off,
}

/// Algorithms by the API's names.
pub(crate) const ALGORITHMS: Kind<Algorithm> =
    Kind::one_of(&[("round_robin", Algorithm::RoundRobin), ("least_connections", Algorithm::LeastConnections)])
        .any_case();
const FAMILIES: Kind<AddressFamily> = Kind::one_of(&[
    ("ipv4", AddressFamily::Ipv4),
    ("ipv6", AddressFamily::Ipv6),
    ("dualstack", AddressFamily::Dualstack),
]);
const CACHE_MODES: Kind<CacheMode> =
    Kind::one_of(&[("all", CacheMode::All), ("one", CacheMode::One), ("off", CacheMode::Off)]);

pub const HCLOUD_TOKEN: Variable<String> =
    Variable::new("HCLOUD_TOKEN", Kind::text(), "API token of the project, with write access. Required.").secret();
pub const HCLOUD_ENDPOINT: Variable<String> =
    Variable::new("HCLOUD_ENDPOINT", Kind::text(), "Base URL of the API.").default("https://api.hetzner.cloud/v1");
pub const HCLOUD_DEBUG: Variable<bool> =
    Variable::new("HCLOUD_DEBUG", Kind::truth(), "Requests and answers go to the log, without the token.")
        .default("false");
pub const HCLOUD_NETWORK: Variable<String> =
    Variable::new("HCLOUD_NETWORK", Kind::text(), "Name or id of the private network. It must exist.");
pub const HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK: Variable<bool> = Variable::new(
    "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK",
    Kind::truth(),
    "Starts also on a machine that is not attached to the network, or is no cloud server.",
)
.default("false");
pub const HCLOUD_NETWORK_ROUTES_ENABLED: Variable<bool> =
    Variable::new("HCLOUD_NETWORK_ROUTES_ENABLED", Kind::truth(), "Pod CIDRs get routes in the network.")
        .otherwise("`true` with a network");
pub const HCLOUD_INSTANCES_ADDRESS_FAMILY: Variable<AddressFamily> =
    Variable::new("HCLOUD_INSTANCES_ADDRESS_FAMILY", FAMILIES, "Which public addresses a Node gets.").default("ipv4");
pub const HCLOUD_INSTANCES_ZONE_LABEL_ENABLED: Variable<bool> =
    Variable::new("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", Kind::truth(), "Nodes of cloud servers get the zone label.")
        .default("true");
pub const HCLOUD_SERVER_CACHE_MODE: Variable<CacheMode> = Variable::new(
    "HCLOUD_SERVER_CACHE_MODE",
    CACHE_MODES,
    "How servers are read: always the whole list, always one at a time, or one at a time and nothing is kept.",
)
.otherwise("what is cheapest");
pub const HCLOUD_SERVER_CACHE_MAX_AGE: Variable<Duration> =
    Variable::new("HCLOUD_SERVER_CACHE_MAX_AGE", Kind::duration(), "So long what was read is used.").default("10s");
pub const HCLOUD_METRICS_ENABLED: Variable<bool> = Variable::new(
    "HCLOUD_METRICS_ENABLED",
    Kind::truth(),
    "Metrics are also served without TLS and without authorization.",
)
.default("true");
pub const HCLOUD_METRICS_ADDRESS: Variable<String> =
    Variable::new("HCLOUD_METRICS_ADDRESS", Kind::text(), "Where.").default(":8233");
pub const HCLOUD_LOAD_BALANCERS_ENABLED: Variable<bool> =
    Variable::new("HCLOUD_LOAD_BALANCERS_ENABLED", Kind::truth(), "Services get load balancers.").default("true");
pub const HCLOUD_LOAD_BALANCERS_LOCATION: Variable<String> = Variable::new(
    "HCLOUD_LOAD_BALANCERS_LOCATION",
    Kind::text(),
    "Default of the annotation. Not together with a network zone.",
);
pub const HCLOUD_LOAD_BALANCERS_NETWORK_ZONE: Variable<String> = Variable::new(
    "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
    Kind::text(),
    "Default of the annotation. Not together with a location.",
);
pub const HCLOUD_LOAD_BALANCERS_TYPE: Variable<String> =
    Variable::new("HCLOUD_LOAD_BALANCERS_TYPE", Kind::text(), "Default of the annotation.")
        .otherwise("`lb11`, with the warning event `LoadBalancerTypeUnconfigured`");
pub const HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE: Variable<Algorithm> =
    Variable::new("HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", ALGORITHMS, "Default of the annotation.")
        .otherwise("the API's: `round_robin`");
pub const HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP: Variable<bool> =
    Variable::new("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", Kind::truth(), "Default of the annotation.").default("false");
pub const HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE: Variable<IpNet> =
    Variable::new("HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE", Kind::range(), "Default of the annotation.")
        .otherwise("the network chooses");
pub const HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS: Variable<bool> =
    Variable::new("HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", Kind::truth(), "Default of the annotation.")
        .default("false");
pub const HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK: Variable<bool> =
    Variable::new("HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", Kind::truth(), "Default of the annotation.")
        .otherwise("left as it is");
pub const HCLOUD_LOAD_BALANCERS_DISABLE_IPV6: Variable<bool> =
    Variable::new("HCLOUD_LOAD_BALANCERS_DISABLE_IPV6", Kind::truth(), "Default of the annotation `ipv6-disabled`.")
        .default("false");
pub const HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL: Variable<bool> =
    Variable::new("HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", Kind::truth(), "Default of the annotation.")
        .otherwise("left as it is");
pub const HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL: Variable<Duration> =
    Variable::new("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", Kind::seconds(), "Default of the annotation.")
        .otherwise("the API's");
pub const HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT: Variable<Duration> =
    Variable::new("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", Kind::seconds(), "Default of the annotation.")
        .otherwise("the API's");
pub const HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES: Variable<u32> = Variable::new(
    "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES",
    Kind::number(0, i32::MAX as i64),
    "Default of the annotation.",
)
.otherwise("the API's");
pub const ROBOT_ENABLED: Variable<bool> =
    Variable::new("ROBOT_ENABLED", Kind::truth(), "Dedicated servers may be Nodes, too. Not together with routes.")
        .default("false");
pub const ROBOT_USER: Variable<String> =
    Variable::new("ROBOT_USER", Kind::text(), "User of the Robot web service; without it nothing is asked there.")
        .secret();
pub const ROBOT_PASSWORD: Variable<String> =
    Variable::new("ROBOT_PASSWORD", Kind::text(), "Its password: both or neither.").secret();
pub const ROBOT_CACHE_TIMEOUT: Variable<Duration> =
    Variable::new("ROBOT_CACHE_TIMEOUT", Kind::duration(), "So long the list of dedicated servers is used.")
        .default("5m");
pub const ROBOT_RATE_LIMIT_WAIT_TIME: Variable<Duration> = Variable::new(
    "ROBOT_RATE_LIMIT_WAIT_TIME",
    Kind::duration(),
    "So long nothing is asked after Robot refused because of its limit; use 5m or more.",
)
.default("0s");
pub const ROBOT_FORWARD_INTERNAL_IPS: Variable<bool> = Variable::new(
    "ROBOT_FORWARD_INTERNAL_IPS",
    Kind::truth(),
    "Nodes of dedicated servers keep the internal addresses that their kubelet gave them.",
)
.default("true");

/// All of them, in the order of the reference page.
pub const ALL: &[&dyn Declared] = &[
    &HCLOUD_TOKEN,
    &HCLOUD_ENDPOINT,
    &HCLOUD_DEBUG,
    &HCLOUD_NETWORK,
    &HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK,
    &HCLOUD_NETWORK_ROUTES_ENABLED,
    &HCLOUD_INSTANCES_ADDRESS_FAMILY,
    &HCLOUD_INSTANCES_ZONE_LABEL_ENABLED,
    &HCLOUD_SERVER_CACHE_MODE,
    &HCLOUD_SERVER_CACHE_MAX_AGE,
    &HCLOUD_METRICS_ENABLED,
    &HCLOUD_METRICS_ADDRESS,
    &HCLOUD_LOAD_BALANCERS_ENABLED,
    &HCLOUD_LOAD_BALANCERS_LOCATION,
    &HCLOUD_LOAD_BALANCERS_NETWORK_ZONE,
    &HCLOUD_LOAD_BALANCERS_TYPE,
    &HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE,
    &HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP,
    &HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE,
    &HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS,
    &HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK,
    &HCLOUD_LOAD_BALANCERS_DISABLE_IPV6,
    &HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL,
    &HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL,
    &HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT,
    &HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES,
    &ROBOT_ENABLED,
    &ROBOT_USER,
    &ROBOT_PASSWORD,
    &ROBOT_CACHE_TIMEOUT,
    &ROBOT_RATE_LIMIT_WAIT_TIME,
    &ROBOT_FORWARD_INTERNAL_IPS,
];
