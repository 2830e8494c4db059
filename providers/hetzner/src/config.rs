//! What the environment variables say (§1 of the provider's page).

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use provider_kit::transport::Credential;

/// The configuration, validated.
#[derive(Clone, Debug)]
pub struct Config {
    /// `HCLOUD_TOKEN`, or the file that `HCLOUD_TOKEN_FILE` names.
    pub token: Credential,
    /// `HCLOUD_ENDPOINT`, without a slash at its end.
    pub endpoint: String,
    /// `HCLOUD_DEBUG`: all requests and answers go to the log, without the token.
    pub debug: bool,
    /// The private network, if there is one.
    pub network: Option<Network>,
    /// Machines.
    pub instances: Instances,
    /// `HCLOUD_METRICS_ADDRESS`, unless `HCLOUD_METRICS_ENABLED` is false.
    pub metrics_address: Option<String>,
    /// Load balancers, unless `HCLOUD_LOAD_BALANCERS_ENABLED` is false.
    pub balancers: Option<Balancers>,
    /// Dedicated servers, if `ROBOT_ENABLED`.
    pub robot: Option<Robot>,
}

/// `HCLOUD_NETWORK…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// `HCLOUD_NETWORK`: name or id.
    pub name_or_id: String,
    /// Whether it is checked that this machine is attached to it.
    pub check_attached: bool,
    /// Whether Pod CIDRs are routed in it.
    pub routes: bool,
}

/// `HCLOUD_INSTANCES_…` and `HCLOUD_SERVER_CACHE_…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instances {
    /// Which public addresses become addresses of Nodes.
    pub address_family: AddressFamily,
    /// Whether cloud servers get a zone.
    pub zone_label: bool,
    /// How servers are read.
    pub cache: Cache,
}

/// `HCLOUD_INSTANCES_ADDRESS_FAMILY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4 only.
    #[default]
    Ipv4,
    /// IPv6 only.
    Ipv6,
    /// Both.
    Dualstack,
}

/// `HCLOUD_SERVER_CACHE_MODE` and `HCLOUD_SERVER_CACHE_MAX_AGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Nothing is set: the inventory that all loops share decides what is cheapest.
    Shared,
    /// `all`: always the whole list, kept for so long.
    All(Duration),
    /// `one`: always one server at a time, each kept for so long.
    One(Duration),
    /// `off`: nothing is kept.
    Off,
}

/// `HCLOUD_LOAD_BALANCERS_…`: defaults of the annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balancers {
    /// `…_LOCATION`.
    pub location: Option<String>,
    /// `…_NETWORK_ZONE`.
    pub network_zone: Option<String>,
    /// `…_TYPE`; `None`: `lb11`, with a warning.
    pub balancer_type: Option<String>,
    /// `…_ALGORITHM_TYPE`.
    pub algorithm: Option<Algorithm>,
    /// `…_USE_PRIVATE_IP`.
    pub use_private_ip: bool,
    /// `…_PRIVATE_SUBNET_IP_RANGE`.
    pub private_subnet: Option<IpNet>,
    /// `…_DISABLE_PRIVATE_INGRESS`.
    pub disable_private_ingress: bool,
    /// `…_DISABLE_PUBLIC_NETWORK`; `None`: left as it is.
    pub disable_public_network: Option<bool>,
    /// `…_DISABLE_IPV6`.
    pub disable_ipv6: bool,
    /// `…_USES_PROXYPROTOCOL`; `None`: left as it is.
    pub uses_proxyprotocol: Option<bool>,
    /// `…_HEALTH_CHECK_INTERVAL`.
    pub health_check_interval: Option<Duration>,
    /// `…_HEALTH_CHECK_TIMEOUT`.
    pub health_check_timeout: Option<Duration>,
    /// `…_HEALTH_CHECK_RETRIES`.
    pub health_check_retries: Option<u32>,
}

/// How a load balancer chooses a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `round_robin`.
    RoundRobin,
    /// `least_connections`.
    LeastConnections,
}

/// `ROBOT_…`.
#[derive(Clone, Debug)]
pub struct Robot {
    /// `ROBOT_USER` and `ROBOT_PASSWORD`, or their files; `None`: Robot servers are known to exist, and nothing is asked.
    pub credential: Option<Credential>,
    /// Base URL; only tests set another one.
    pub endpoint: String,
    /// `ROBOT_CACHE_TIMEOUT`.
    pub cache_timeout: Duration,
    /// `ROBOT_RATE_LIMIT_WAIT_TIME`; zero: no pause.
    pub rate_limit_wait: Duration,
    /// `ROBOT_FORWARD_INTERNAL_IPS`.
    pub forward_internal_ips: bool,
}

impl AddressFamily {
    /// Whether an address is of this family.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
            Self::Dualstack => true,
        }
    }
}

impl Algorithm {
    /// Its name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConnections => "least_connections",
        }
    }
}
