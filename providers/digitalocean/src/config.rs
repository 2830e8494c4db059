//! The configuration, as the environment variables state it.

use cloud_provider::{AdoptableTag, Result, Setup};
use provider_kit::transport::Credential;
use provider_kit::variables::Variables;
use serde::{Deserialize, Serialize};

use crate::variables::{
    ACCESS_TOKEN, ALL, API_RATE_LIMIT_QPS, CLUSTER_ID, CLUSTER_VPC_ID, DEBUG_ADDR, DEFAULT_LB_TYPE,
    FIREWALL_NAME, FIREWALL_TAGS, METADATA_URL, METRICS_ADDR, OVERRIDE_URL, REGION, Rate,
};

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// `DO_ACCESS_TOKEN`, or the file that `DO_ACCESS_TOKEN_FILE` names.
    pub token: Credential,
    /// `DO_OVERRIDE_URL`, without a slash at its end.
    pub endpoint: String,
    /// `DO_METADATA_URL`, without a slash at its end.
    pub metadata: String,
    /// Value of the variable `REGION`; `None`: the metadata service is read.
    pub region: Option<String>,
    /// Value of the variable `DO_CLUSTER_ID`.
    pub cluster_id: Option<String>,
    /// Value of the variable `DO_CLUSTER_VPC_ID`.
    pub vpc: Option<String>,
    /// Value of the variable `DEFAULT_LB_TYPE`.
    pub load_balancer_type: LoadBalancerType,
    /// Tag that a load balancer must have before a Service adopts it.
    pub adoptable_tag: Option<AdoptableTag>,
    /// Value of the variable `DO_API_RATE_LIMIT_QPS`.
    pub rate: Option<Rate>,
    /// The worker firewall, if there is one.
    pub firewall: Option<FirewallConfig>,
    /// Value of the variable `DEBUG_ADDR`.
    pub debug_address: Option<String>,
    /// Value of the variable `METRICS_ADDR`.
    pub metrics_address: Option<String>,
}

/// Values of `PUBLIC_ACCESS_FIREWALL_NAME` and `PUBLIC_ACCESS_FIREWALL_TAGS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallConfig {
    /// Name of the firewall.
    pub name: String,
    /// The tags, of which there is one at least.
    pub tags: Vec<String>,
}

/// The product that a load balancer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LoadBalancerType {
    /// `REGIONAL`: a proxy in front of node ports.
    #[default]
    Regional,
    /// `REGIONAL_NETWORK`: passes packets through to the ports of the Service.
    RegionalNetwork,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes of all variables.
    pub fn read(setup: &Setup) -> Result<Self> {
        let mut variables = Variables::of(&setup.environment);
        let token = variables.secret(&ACCESS_TOKEN);
        if token.is_none() && !variables.is_set(&ACCESS_TOKEN) {
            variables.mistake("DO_ACCESS_TOKEN is required: an API token that may read and write");
        }
        let firewall = match (variables.get(&FIREWALL_NAME), variables.get(&FIREWALL_TAGS)) {
            (Some(name), Some(tags)) => Some(FirewallConfig { name, tags }),
            (None, None) => None,
            _ => {
                variables.mistake(
                    "PUBLIC_ACCESS_FIREWALL_NAME and PUBLIC_ACCESS_FIREWALL_TAGS: only one is set; set both or neither",
                );
                None
            }
        };
        let config = Self {
            token: variables.token(token),
            endpoint: variables
                .get(&OVERRIDE_URL)
                .unwrap_or_default()
                .trim_end_matches('/')
                .to_owned(),
            metadata: variables
                .get(&METADATA_URL)
                .unwrap_or_default()
                .trim_end_matches('/')
                .to_owned(),
            region: variables.get(&REGION),
            cluster_id: variables.get(&CLUSTER_ID),
            vpc: variables.get(&CLUSTER_VPC_ID),
            load_balancer_type: variables.get(&DEFAULT_LB_TYPE).unwrap_or_default(),
            adoptable_tag: setup.adoptable_tag.clone(),
            rate: variables.get(&API_RATE_LIMIT_QPS),
            firewall,
            debug_address: variables.get(&DEBUG_ADDR),
            metrics_address: variables.get(&METRICS_ADDR),
        };
        variables.misspelt("DO_", ALL);
        variables.finish().map(|()| config)
    }

    /// Returns the tag of everything that belongs to the cluster, if it has an ID.
    #[must_use]
    pub fn cluster_tag(&self) -> Option<String> {
        self.cluster_id.as_ref().map(|id| format!("k8s:{id}"))
    }
}
