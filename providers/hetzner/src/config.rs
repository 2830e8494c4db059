//! The configuration, as the environment variables state it.

use std::time::Duration;

use cloud_provider::{AdoptableTag, Result, Setup};
use ipnet::IpNet;
pub use provider_kit::addresses::AddressFamily;
use provider_kit::declared::{Declared, Defaults};
use provider_kit::transport::Credential;
use provider_kit::variables::{Secret, Variables};

pub use crate::balancers::adoption::AdoptionLabel;
use crate::variables::*;

/// Length of an API token.
const TOKEN_LENGTH: usize = 64;
/// Age of the list of dedicated servers if `ROBOT_CACHE_TIMEOUT` is zero.
const ROBOT_CACHE: Duration = Duration::from_secs(5 * 60);
const ROBOT_ENDPOINT: &str = "https://robot-ws.your-server.de";

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// `HCLOUD_TOKEN`, or the file that `HCLOUD_TOKEN_FILE` names.
    pub token: Credential,
    /// `HCLOUD_ENDPOINT`, without a slash at its end.
    pub endpoint: String,
    /// `HCLOUD_DEBUG`: all requests and answers go to the log, without the token.
    pub debug: bool,
    /// Value of `HCLOUD_RATE_LIMIT_LEFT_TO_OTHERS`, in percent.
    pub rate_limit_left_to_others: u16,
    /// The private network, if there is one.
    pub network: Option<Network>,
    /// Settings of Nodes' machines.
    pub instances: Instances,
    /// Value of `HCLOUD_METRICS_ADDRESS`; `None` if `HCLOUD_METRICS_ENABLED` is false.
    pub metrics_address: Option<String>,
    /// Variables with the prefix `HCLOUD_LOAD_BALANCERS_`, mostly defaults of annotations; `None` if
    /// `HCLOUD_LOAD_BALANCERS_ENABLED` is false.
    pub load_balancers: Option<Defaults>,
    /// Tag that a load balancer must have before a Service adopts it.
    pub adoptable_tag: Option<AdoptableTag>,
    /// Dedicated servers, if `ROBOT_ENABLED`.
    pub robot: Option<Robot>,
}

/// Values of `HCLOUD_NETWORK…`: the private network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// `HCLOUD_NETWORK`: name or id.
    pub name_or_id: String,
    /// If set, the provider starts only on a machine that is attached to the network.
    pub check_attached: bool,
    /// If set, Pod CIDRs are routed in the network.
    pub routes: bool,
}

/// `HCLOUD_INSTANCES_…` and `HCLOUD_SERVER_CACHE_…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instances {
    /// Families of the public addresses of Nodes.
    pub address_family: AddressFamily,
    /// If set, Nodes of cloud servers get a zone.
    pub zone_label: bool,
    /// Caching of server reads.
    pub cache: CachePolicy,
}

/// Values of `HCLOUD_SERVER_CACHE_MODE` and `HCLOUD_SERVER_CACHE_MAX_AGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// Mode unset: controllers share one cached list, and the inventory chooses the cheapest read.
    Shared,
    /// Mode `all`: reads always list all servers; holds the TTL.
    All(Duration),
    /// Mode `one`: reads always get one server, cached separately; holds the TTL.
    One(Duration),
    /// Mode `off`: nothing is cached.
    Off,
}

/// Values of `ROBOT_…`: access to dedicated servers.
#[derive(Clone, Debug)]
pub struct Robot {
    /// `ROBOT_USER` and `ROBOT_PASSWORD`, or their files; `None`: Robot servers are known to exist, but Robot is not
    /// queried.
    pub credential: Option<Credential>,
    /// Base URL; only tests set another one.
    pub endpoint: String,
    /// Value of the variable `ROBOT_CACHE_TIMEOUT`.
    pub cache_timeout: Duration,
    /// Value of `ROBOT_RATE_LIMIT_WAIT_TIME`: pause after Robot refused a request because of its rate limit; zero means
    /// no pause.
    pub rate_limit_wait: Duration,
    /// Value of the variable `ROBOT_FORWARD_INTERNAL_IPS`.
    pub forward_internal_ips: bool,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes of all variables.
    pub fn read(setup: &Setup) -> Result<Self> {
        let mut variables = Variables::of(&setup.environment);
        let token = variables.secret(&TOKEN);
        let length = token.as_ref().map(Secret::length);
        match length {
            None if !variables.is_set(&TOKEN) => {
                variables
                    .mistake("HCLOUD_TOKEN is required: a token of the project that may write");
            }
            Some(length) if length != TOKEN_LENGTH => {
                variables.warning(format!(
                    "HCLOUD_TOKEN has {length} characters; tokens have {TOKEN_LENGTH}"
                ));
            }
            _ => {}
        }
        let network = Network::read(&mut variables);
        let config = Self {
            token: variables.token(token),
            endpoint: variables
                .get(&ENDPOINT)
                .unwrap_or_default()
                .trim_end_matches('/')
                .to_owned(),
            debug: variables.get(&DEBUG).unwrap_or_default(),
            rate_limit_left_to_others: variables
                .get(&RATE_LIMIT_LEFT_TO_OTHERS)
                .unwrap_or_default(),
            instances: Instances::read(&mut variables),
            metrics_address: variables
                .get(&METRICS_ADDRESS)
                .filter(|_| variables.get(&METRICS_ENABLED) == Some(true)),
            load_balancers: load_balancers(&mut variables),
            adoptable_tag: setup.adoptable_tag.clone(),
            robot: Robot::read(
                &mut variables,
                network.as_ref().is_some_and(|network| network.routes),
            ),
            network,
        };
        variables.misspelt("HCLOUD_", HCLOUD);
        variables.misspelt("ROBOT_", ROBOT);
        variables
            .finish()
            .map(|()| config.for_pods_in(setup.cluster_cidr.as_deref()))
    }

    /// Disables routes unless Pods have exactly one range, like the Go cloud-controller-manager; the rest of the
    /// network's functions stays enabled.
    fn for_pods_in(mut self, cluster_cidr: Option<&str>) -> Self {
        if let (Some(network), Some(range)) = (
            self.network.as_mut().filter(|network| network.routes),
            cluster_cidr,
        ) && range.trim().parse::<IpNet>().is_err()
        {
            tracing::warn!(
                "Pods get no routes in the network: --cluster-cidr={range:?} is not one range of addresses; set it, or \
                 HCLOUD_NETWORK_ROUTES_ENABLED=false if this is meant"
            );
            network.routes = false;
        }
        self
    }
}

impl Network {
    fn read(variables: &mut Variables<'_>) -> Option<Self> {
        let disable_check = variables.get(&NETWORK_DISABLE_ATTACHED_CHECK);
        let Some(name_or_id) = variables.get(&NETWORK) else {
            if variables.is_set(&NETWORK_ROUTES_ENABLED) {
                variables
                    .warning("HCLOUD_NETWORK_ROUTES_ENABLED has no effect without HCLOUD_NETWORK");
            }
            return None;
        };
        let routes = variables.get(&NETWORK_ROUTES_ENABLED) != Some(false);
        Some(Self {
            name_or_id,
            check_attached: disable_check != Some(true),
            routes,
        })
    }
}

impl Instances {
    fn read(variables: &mut Variables<'_>) -> Self {
        let is_default =
            !variables.is_set(&SERVER_CACHE_MODE) && !variables.is_set(&SERVER_CACHE_MAX_AGE);
        let max_age = variables.get(&SERVER_CACHE_MAX_AGE).unwrap_or_default();
        let cache = match variables.get(&SERVER_CACHE_MODE) {
            None if is_default => CachePolicy::Shared,
            None | Some(CacheMode::All) => CachePolicy::All(max_age),
            Some(CacheMode::One) => CachePolicy::One(max_age),
            Some(CacheMode::Off) => CachePolicy::Off,
        };
        Self {
            address_family: variables.get(&INSTANCES_ADDRESS_FAMILY).unwrap_or_default(),
            zone_label: variables.get(&INSTANCES_ZONE_LABEL_ENABLED) != Some(false),
            cache,
        }
    }
}

fn load_balancers(variables: &mut Variables<'_>) -> Option<Defaults> {
    let is_default =
        |setting: &&&dyn Declared| setting.row().key.starts_with("HCLOUD_LOAD_BALANCERS_");
    let defaults = variables.defaults(
        &HCLOUD
            .iter()
            .filter(is_default)
            .copied()
            .collect::<Vec<_>>(),
    );
    if defaults.get(&LOAD_BALANCERS_LOCATION).is_some()
        && defaults.get(&LOAD_BALANCERS_NETWORK_ZONE).is_some()
    {
        variables.mistake(
            "HCLOUD_LOAD_BALANCERS_LOCATION and HCLOUD_LOAD_BALANCERS_NETWORK_ZONE are both set: only one can be",
        );
    }
    (variables.get(&LOAD_BALANCERS_ENABLED) != Some(false)).then_some(defaults)
}

impl Robot {
    fn read(variables: &mut Variables<'_>, routes: bool) -> Option<Self> {
        let cache_timeout = variables
            .get(&ROBOT_CACHE_TIMEOUT)
            .filter(|duration| !duration.is_zero());
        let rate_limit_wait = variables
            .get(&ROBOT_RATE_LIMIT_WAIT_TIME)
            .unwrap_or_default();
        let forward_internal_ips = variables.get(&ROBOT_FORWARD_INTERNAL_IPS) != Some(false);
        if variables.get(&ROBOT_ENABLED) != Some(true) {
            return None;
        }
        // Read last: the manifests always name the files of the credential, and most Secrets lack these keys.
        let user = variables.secret(&ROBOT_USER);
        let password = variables.secret(&ROBOT_PASSWORD);
        if user.is_some() != password.is_some() {
            variables
                .mistake("ROBOT_USER and ROBOT_PASSWORD: only one is set; set both or neither");
        }
        if routes {
            variables.mistake(
                "ROBOT_ENABLED does not go with routes: set HCLOUD_NETWORK_ROUTES_ENABLED=false",
            );
        }
        Some(Self {
            credential: variables.basic(user, password),
            endpoint: ROBOT_ENDPOINT.to_owned(),
            cache_timeout: cache_timeout.unwrap_or(ROBOT_CACHE),
            rate_limit_wait,
            forward_internal_ips,
        })
    }
}
