//! The environment variables. docs/providers/hetzner.md is generated from these declarations.

use std::time::Duration;

use ipnet::IpNet;
use provider_kit::addresses::AddressFamily;
use provider_kit::declared::{Kind, Value};

use crate::annotations::{Algorithm, SECONDS};
use crate::balancers::adoption::AdoptionLabel;

/// The manner in which servers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// Reads always list all servers.
    All,
    /// Reads get one server at a time.
    One,
    /// Reads get one server at a time, and nothing is cached.
    Off,
}

impl Value for CacheMode {
    const KIND: Kind<Self> =
        Kind::one_of(&[("all", Self::All), ("one", Self::One), ("off", Self::Off)]);
}

provider_kit::declare! {
    /// The variables with the prefix `HCLOUD_`, in the order of the reference page.
    pub HCLOUD: "HCLOUD_";

    /// API token of the project, for reading and writing. Required.
    pub TOKEN: String = "TOKEN", secret();
    /// Base URL of the API.
    pub ENDPOINT: String = "ENDPOINT", default("https://api.hetzner.cloud/v1");
    /// Logs requests and responses, without the token.
    pub DEBUG: bool = "DEBUG", default("false");
    /// Percentage of the project's rate limit that is left to its other users. (Not known to the Go program.)
    pub RATE_LIMIT_LEFT_TO_OTHERS: u16 = "RATE_LIMIT_LEFT_TO_OTHERS", kind(Kind::number(0, 90)), default("10");
    /// Name or id of the private network. It must exist.
    pub NETWORK: String = "NETWORK";
    /// Skips the check at the start that this machine is attached to the network. Needed on a machine that is not a
    /// cloud server.
    pub NETWORK_DISABLE_ATTACHED_CHECK: bool = "NETWORK_DISABLE_ATTACHED_CHECK", default("false");
    /// Creates routes for Pod CIDRs in the network.
    pub NETWORK_ROUTES_ENABLED: bool = "NETWORK_ROUTES_ENABLED", default_description("`true` with a network");
    /// Address family of a Node's public addresses.
    pub INSTANCES_ADDRESS_FAMILY: AddressFamily = "INSTANCES_ADDRESS_FAMILY", default("ipv4");
    /// Sets the zone label on Nodes of cloud servers.
    pub INSTANCES_ZONE_LABEL_ENABLED: bool = "INSTANCES_ZONE_LABEL_ENABLED", default("true");
    /// Mode of reading servers: always list all (`all`), always get one (`one`), or get one and cache nothing (`off`).
    pub SERVER_CACHE_MODE: CacheMode = "SERVER_CACHE_MODE", default_description("what is cheapest");
    /// TTL of cached servers.
    pub SERVER_CACHE_MAX_AGE: Duration = "SERVER_CACHE_MAX_AGE", default("10s");
    /// Serves the metrics also over plain HTTP, without authentication.
    pub METRICS_ENABLED: bool = "METRICS_ENABLED", default("true");
    /// Listen address of the metrics over plain HTTP.
    pub METRICS_ADDRESS: String = "METRICS_ADDRESS", default(":8233");
    /// Creates load balancers for Services.
    pub LOAD_BALANCERS_ENABLED: bool = "LOAD_BALANCERS_ENABLED", default("true");
    /// Default of the annotation `location`. Not together with a network zone.
    pub LOAD_BALANCERS_LOCATION: String = "LOAD_BALANCERS_LOCATION";
    /// Default of `network-zone`. Not together with a location.
    pub LOAD_BALANCERS_NETWORK_ZONE: String = "LOAD_BALANCERS_NETWORK_ZONE";
    /// Default of the annotation `type`.
    pub LOAD_BALANCERS_TYPE: String = "LOAD_BALANCERS_TYPE",
        default_description("`lb11`, with the event `LoadBalancerTypeUnconfigured`");
    /// Default of the annotation `algorithm-type`.
    pub LOAD_BALANCERS_ALGORITHM_TYPE: Algorithm = "LOAD_BALANCERS_ALGORITHM_TYPE", default_description("the API's: `round_robin`");
    /// Default of the annotation `use-private-ip`.
    pub LOAD_BALANCERS_USE_PRIVATE_IP: bool = "LOAD_BALANCERS_USE_PRIVATE_IP", default("false");
    /// Default of the annotation `private-subnet-ip-range`.
    pub LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE: IpNet = "LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE",
        default_description("the network chooses");
    /// Default of the annotation `disable-private-ingress`.
    pub LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS: bool = "LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", default("false");
    /// Default of the annotation `disable-public-network`.
    pub LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK: bool = "LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", default_description("left as it is");
    /// Default of the annotation `ipv6-disabled`.
    pub LOAD_BALANCERS_DISABLE_IPV6: bool = "LOAD_BALANCERS_DISABLE_IPV6", default("false");
    /// Default of the annotation `uses-proxyprotocol`.
    pub LOAD_BALANCERS_USES_PROXYPROTOCOL: bool = "LOAD_BALANCERS_USES_PROXYPROTOCOL", default_description("left as it is");
    /// A label (`KEY` or `KEY=VALUE`) that a load balancer must have to be adopted by its name. (Not known to the Go
    /// program.)
    pub LOAD_BALANCERS_ADOPTION_LABEL: AdoptionLabel = "LOAD_BALANCERS_ADOPTION_LABEL", default_description("none is needed");
    /// Default of the annotation `health-check-interval`.
    pub LOAD_BALANCERS_HEALTH_CHECK_INTERVAL: u64 = "LOAD_BALANCERS_HEALTH_CHECK_INTERVAL",
        kind(SECONDS), default_description("the API's");
    /// Default of the annotation `health-check-timeout`.
    pub LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT: u64 = "LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT",
        kind(SECONDS), default_description("the API's");
    /// Default of the annotation `health-check-retries`.
    pub LOAD_BALANCERS_HEALTH_CHECK_RETRIES: u32 = "LOAD_BALANCERS_HEALTH_CHECK_RETRIES", default_description("the API's");
}

provider_kit::declare! {
    /// The variables with the prefix `ROBOT_`, in the order of the reference page.
    pub ROBOT: "ROBOT_";

    /// Supports dedicated servers as Nodes, too. Not together with routes.
    pub ROBOT_ENABLED: bool = "ENABLED", default("false");
    /// User of the Robot web service. Without a user, no request is sent to Robot.
    pub ROBOT_USER: String = "USER", secret();
    /// Password of the Robot web service; required with a user, and only then.
    pub ROBOT_PASSWORD: String = "PASSWORD", secret();
    /// TTL of the cached list of dedicated servers.
    pub ROBOT_CACHE_TIMEOUT: Duration = "CACHE_TIMEOUT", default("5m");
    /// Time without requests to Robot after its rate limit was exceeded; use 5m or more.
    pub ROBOT_RATE_LIMIT_WAIT_TIME: Duration = "RATE_LIMIT_WAIT_TIME", default("0s");
    /// Keeps the internal addresses that the kubelet set on Nodes of dedicated servers.
    pub ROBOT_FORWARD_INTERNAL_IPS: bool = "FORWARD_INTERNAL_IPS", default("true");
}
