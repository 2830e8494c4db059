//! Variables of the process, and the annotations of a Service. docs/providers/keepalived.md is generated from these
//! declarations.

use cloud_provider::{Result, Setup};
use provider_kit::declared::{Kind, Value};
use provider_kit::variables::Variables;
use serde::{Deserialize, Serialize};

use crate::pools::Pools;

/// The way in which keepalived's virtual server forwards packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForwardMethod {
    /// Network address translation, written `NAT`.
    #[serde(rename = "NAT")]
    Nat,
    /// Direct routing, written `DR`.
    #[serde(rename = "DR")]
    Dr,
}

impl ForwardMethod {
    /// Returns the word for the method in the ConfigMap.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nat => "NAT",
            Self::Dr => "DR",
        }
    }
}

impl Value for ForwardMethod {
    const KIND: Kind<Self> = Kind::one_of(&[("NAT", Self::Nat), ("DR", Self::Dr)]);
}

const NAME: Kind<String> = Kind::of("a name of a Kubernetes object: a-z, 0-9, - and .", |text| {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    ((1..=253).contains(&text.len()) && text.bytes().all(is_inner)).then(|| text.to_owned())
});

impl Value for Pools {
    const KIND: Kind<Self> = Kind::explained(
        "a list of ranges such as 192.0.2.0/24,inner=10.0.0.5-10.0.0.9",
        Self::parse,
    );
}

provider_kit::declare! {
    /// The variables, in the order of the reference page.
    pub VARIABLES: "KEEPALIVED_";

    /// Namespace of the ConfigMap, such as `kube-system`. Required.
    pub NAMESPACE: String = "NAMESPACE", kind(NAME);
    /// Name of the ConfigMap, such as `vip-configmap`. It is created if it does not exist. Required.
    pub CONFIG_MAP: String = "CONFIG_MAP", kind(NAME);
    /// Ranges of virtual IP addresses, separated by commas: `192.0.2.64/26` or `192.0.2.5-192.0.2.9`.
    /// kube-keepalived-vip supports IPv4 only. `NAME=` before a range makes it part of a named pool. Required.
    pub SERVICE_CIDR: Pools = "SERVICE_CIDR";
    /// If `true`, `spec.loadBalancerIP` must be an address of the ranges. Without it, the author of a Service can take any
    /// free address of the network, such as that of a gateway.
    pub ONLY_SERVICE_CIDR: bool = "ONLY_SERVICE_CIDR", default("false");
    /// Forward method of Services without the annotation. Without a value, kube-keepalived-vip decides, which uses `NAT`.
    pub DEFAULT_FORWARD_METHOD: ForwardMethod = "DEFAULT_FORWARD_METHOD";
}

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ANNOTATIONS: "k8s.co/keepalived-";

    /// Forward method of this Service.
    pub FORWARD_METHOD: ForwardMethod = "forward-method";
    /// Named pool of the addresses, from `KEEPALIVED_SERVICE_CIDR`. Without it, ranges without a name are used.
    pub POOL: String = "address-pool", reaches("take an address of any named pool");
}

/// The prefix of all annotations.
pub const PREFIX: &str = "k8s.co/keepalived-";

/// The configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub config_map: String,
    /// Ranges of virtual IP addresses.
    pub pools: Pools,
    /// If set, a Service may request addresses of the ranges only.
    pub only_ranges: bool,
    /// Forward method of Services that name none.
    pub method: Option<ForwardMethod>,
}

impl Config {
    /// Reads the configuration from the environment variables.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes in the variables.
    pub fn read(setup: &Setup) -> Result<Self> {
        let mut variables = Variables::of(&setup.environment);
        let namespace = variables.get(&NAMESPACE);
        let config_map = variables.get(&CONFIG_MAP);
        let pools = variables.get(&SERVICE_CIDR);
        let only_ranges = variables.get(&ONLY_SERVICE_CIDR) == Some(true);
        let method = variables.get(&DEFAULT_FORWARD_METHOD);
        let required = [
            (
                variables.is_set(&NAMESPACE),
                "KEEPALIVED_NAMESPACE is required: the namespace of the ConfigMap",
            ),
            (
                variables.is_set(&CONFIG_MAP),
                "KEEPALIVED_CONFIG_MAP is required: the name of the ConfigMap",
            ),
            (
                variables.is_set(&SERVICE_CIDR),
                "KEEPALIVED_SERVICE_CIDR is required: ranges such as 192.0.2.64/26",
            ),
        ];
        // `check` reviews Services without any variable.
        let is_missing = |(is_set, _): &(bool, &str)| !is_set && !setup.environment.is_offline();
        required
            .into_iter()
            .filter(is_missing)
            .for_each(|(_, text)| variables.mistake(text));
        variables.misspelt("KEEPALIVED_", VARIABLES);
        variables.finish()?;
        Ok(Self {
            namespace: namespace.unwrap_or_default(),
            config_map: config_map.unwrap_or_default(),
            pools: pools.unwrap_or_default(),
            only_ranges,
            method,
        })
    }

    /// Returns the ConfigMap for texts: `ConfigMap kube-system/vip-configmap`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("ConfigMap {}/{}", self.namespace, self.config_map)
    }
}
