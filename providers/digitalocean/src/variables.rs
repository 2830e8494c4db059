//! The environment variables. docs/providers/digitalocean.md is generated from these declarations.

use provider_kit::declared::{Kind, Value};

use crate::config::LoadBalancerType;

impl Value for LoadBalancerType {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("REGIONAL", Self::Regional),
        ("REGIONAL_NETWORK", Self::RegionalNetwork),
    ]);
}

const ADDRESS: Kind<String> = Kind::of("an address such as 127.0.0.1:9090 or :9090", |text| {
    let (_, port) = text.rsplit_once(':')?;
    port.parse::<u16>().is_ok().then(|| text.to_owned())
});

const RATE: Kind<f64> = Kind::of("a number above 0", |text| {
    text.parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
});

impl Value for Rate {
    const KIND: Kind<Self> = Kind::of("a number above 0", |text| RATE.parse(text).map(Rate));
}

/// Rate in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

provider_kit::declare! {
    /// The variables, in the order of the reference page.
    pub ALL: "";

    /// API token of the account or team, for reading and writing. Required.
    pub ACCESS_TOKEN: String = "DO_ACCESS_TOKEN", secret();
    /// Base URL of the API.
    pub OVERRIDE_URL: String = "DO_OVERRIDE_URL", default("https://api.digitalocean.com");
    /// Base URL of the metadata service, which names the region if `REGION` does not. Not a variable of the Go program.
    pub METADATA_URL: String = "DO_METADATA_URL", default("http://169.254.169.254");
    /// Region of the cluster, such as `fra1`. It must exist.
    pub REGION: String = "REGION", default_description("the metadata service of the machine");
    /// ID of the cluster. All load balancers, existing ones included, get the tag `k8s:ID`.
    pub CLUSTER_ID: String = "DO_CLUSTER_ID";
    /// VPC in which load balancers are created. Needed if the Nodes are not in the default VPC of the region.
    pub CLUSTER_VPC_ID: String = "DO_CLUSTER_VPC_ID", default_description("the default VPC of the region");
    /// Default of the annotation `service.beta.kubernetes.io/do-loadbalancer-type`.
    pub DEFAULT_LB_TYPE: LoadBalancerType = "DEFAULT_LB_TYPE", default("REGIONAL_NETWORK");
    /// Maximum number of requests a second to the API.
    pub API_RATE_LIMIT_QPS: Rate = "DO_API_RATE_LIMIT_QPS", default_description("no limit but that of the account");
    /// Name of the firewall that admits traffic to the Nodes. Set it together with the tags, or neither.
    pub FIREWALL_NAME: String = "PUBLIC_ACCESS_FIREWALL_NAME";
    /// Tags of the droplets to which the firewall applies.
    pub FIREWALL_TAGS: Vec<String> = "PUBLIC_ACCESS_FIREWALL_TAGS";
    /// Listen address of `/healthz`, which reports over plain HTTP whether the API can be reached.
    pub DEBUG_ADDR: String = "DEBUG_ADDR", kind(ADDRESS);
    /// Listen address at which metrics are also served, over plain HTTP and without authentication.
    pub METRICS_ADDR: String = "METRICS_ADDR", kind(ADDRESS);
}
