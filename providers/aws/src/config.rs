//! The configuration file and the flags. docs/providers/aws.md is generated from these declarations.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_protocol::ServiceOverride;
use cloud_provider::{ConfigFile, Error, Result, Setup};
use provider_kit::declared::Kind;
use provider_kit::gcfg::{GitConfigSettings, Key, TRUTH};
use provider_kit::variables::Variables;
use regex_lite::Regex;

const ZONE_FORM: Kind<String> = Kind::of("an availability zone such as us-west-2a", region_of);
const VPC_MODE: Kind<bool> = Kind::one_of(&[("Managed", true)]).verbatim();
const PROBE: Kind<bool> = Kind::one_of(&[("ServiceNodePort", false), ("Shared", true)]).verbatim();
const RESOURCES: Kind<String> = Kind::of("instance", |text| {
    (text == "instance").then(|| text.to_owned())
});
const RATE: Kind<f64> = Kind::of("a number that is not negative", |text| {
    text.parse().ok().filter(|rate| *rate >= 0.0)
});
const TOPOLOGY: Kind<String> = Kind::of("a regular expression", |text| {
    Regex::new(text).is_ok().then(|| text.to_owned())
});

provider_kit::declare! {
    /// The keys of `[Global]`, in the order of the reference page.
    pub GLOBAL: "[Global] ";

    /// Availability zone of the program. The region follows from it.
    pub ZONE: String = "Zone", kind(ZONE_FORM);
    /// Region of the cluster, without `Zone`.
    pub REGION: String = "Region", default_description("`AWS_REGION`, or the region of the instance");
    /// VPC of the cluster. With `SubnetID` or `RoleARN` and with a cluster ID the program may run outside of the VPC, and does not
    /// look for its own instance.
    pub VPC: String = "VPC", default_description("the VPC of the instance");
    /// Subnet of load balancers in a VPC whose subnets have no tags.
    pub SUBNET: String = "SubnetID", default_description("the subnet of the instance");
    /// Route table of Pod routes.
    pub ROUTE_TABLE: String = "RouteTableID", default_description("the one table with the cluster's tag");
    /// Role that the program assumes for all requests.
    pub ROLE: String = "RoleARN";
    /// Resource on whose behalf the role is assumed.
    pub SOURCE: String = "SourceARN";
    /// Cluster ID of clusters with the tag `KubernetesCluster`. New objects get that tag, too.
    pub LEGACY_ID: String = "KubernetesClusterTag";
    /// Cluster ID: resources have the tag `kubernetes.io/cluster/<ID>`.
    pub CLUSTER_ID: String = "KubernetesClusterID", default_description("the tag of the instance");
    /// Leaves the security groups of Nodes as they are.
    pub NO_NODE_RULES: bool = "DisableSecurityGroupIngress", kind(TRUTH), default("false");
    /// Security group of all classic load balancers, instead of one for each. The program never changes the group.
    pub ELB_GROUP: String = "ElbSecurityGroup";
    /// Security groups that Services may name in annotations, as a comma list: the Nodes admit everything from the first
    /// security group of a classic load balancer. Not a setting of the Go program.
    pub ALLOWED_GROUPS: Vec<String> = "ServiceSecurityGroups", default_description("all security groups of the VPC");
    /// Family of Node addresses, `ipv4` or `ipv6`; given once for each, in the order in which addresses are reported.
    pub FAMILIES: String = "NodeIPFamilies", default_description("`ipv4`");
    /// Target of health checks of Services with `externalTrafficPolicy: Cluster`: the node port, or kube-proxy.
    pub PROBE_MODE: bool = "ClusterServiceLoadBalancerHealthProbeMode", kind(PROBE), default("ServiceNodePort");
    /// Port of kube-proxy in mode `Shared`.
    pub PROBE_PORT: u16 = "ClusterServiceSharedLoadBalancerHealthProbePort", kind(Kind::number(1, 65535)), default("10256");
    /// Path of kube-proxy in mode `Shared`.
    pub PROBE_PATH: String = "ClusterServiceSharedLoadBalancerHealthProbePath", default("/healthz");
    /// Instance types that must have network topology labels: their Nodes wait for an answer.
    pub TOPOLOGY_TYPES: String = "SupportedTopologyInstanceTypePattern", kind(TOPOLOGY),
        default(r"^(hpc|trn|p)[0-9]+[a-z]*(-[a-z0-9]+)?(\.[0-9a-z]*)$");
    /// `Managed` gives each network load balancer a security group.
    pub NLB_GROUPS: bool = "NLBSecurityGroupMode", kind(VPC_MODE);
    /// Time for which a Node stays although EC2 does not know its instance: EC2 shows new instances late. Not a setting of the
    /// Go program.
    pub GRACE: Duration = "NodeGracePeriod", default("5m");
}

provider_kit::declare! {
    /// The keys of `[ServiceOverride "name"]`.
    pub OVERRIDE: "[ServiceOverride \"name\"] ";

    /// Service: `EC2`, `Elastic Load Balancing`, `Elastic Load Balancing v2`, `STS`, `ec2imds`; or `ec2`, `elasticloadbalancing`,
    /// `sts`, `ec2metadata`.
    pub SERVICE: String = "Service";
    /// Region in which the override holds.
    pub OVERRIDE_REGION: String = "Region";
    /// Base URL of the service.
    pub URL: String = "URL";
    /// Region that requests are signed for.
    pub SIGNING_REGION: String = "SigningRegion";
    /// Accepted without effect: requests are signed by version 4.
    pub SIGNING_METHOD: String = "SigningMethod";
    /// Service name of signatures.
    pub SIGNING_NAME: String = "SigningName", default_description("the service's");
}

provider_kit::declare! {
    /// The flags of the tagging controller.
    pub FLAGS: "--";

    /// Controllers; the tagging controller runs if `tagging` is one of them.
    pub CONTROLLERS: Vec<String> = "controllers";
    /// Tags of all instances of Nodes: `key=value`, with commas. Required if the tagging controller runs.
    pub TAGS: BTreeMap<String, String> = "tags";
    /// Resources that get tags. Required if the tagging controller runs.
    pub TAGGED: String = "resources", kind(RESOURCES);
    /// Nodes that are tagged in a second; 0 is without limit.
    pub TAG_RATE: f64 = "tagging-controller-rate-limit", kind(RATE), default("0");
    /// Nodes that may be tagged at once, beyond the rate; 0 is without limit.
    pub TAG_BURST: u32 = "tagging-controller-burst-limit", default("0");
    /// Accepted without effect: Nodes with the same tags share a request.
    pub TAG_SYNCS: u32 = "tagging-controller-concurrent-node-syncs", kind(Kind::number(1, 10_000)), default("1");
    /// Accepted without effect: Nodes with the same tags always share a request.
    pub TAG_BATCHES: bool = "tagging-controller-enable-batching", default("false");
}

/// Returns the region of an availability zone; a local zone has the region of its parent.
#[must_use]
pub fn region_of(zone: &str) -> Option<String> {
    let mut end = 0;
    for part in zone.split('-') {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && end > 0 {
            return Some(zone[..end + digits].to_owned());
        }
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        end += part.len() + 1;
    }
    None
}

/// Family of Node addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of families")]
pub enum Family {
    Ipv4,
    Ipv6,
}

/// Settings of the tagging controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tagging {
    /// Tags that instances get.
    pub tags: BTreeMap<String, String>,
    /// Nodes a second and at once; `None` is without limit.
    pub limit: Option<(f64, u32)>,
}

/// Configuration of the provider, validated.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is explained where its key is declared")]
pub struct Config {
    pub region: Option<String>,
    pub vpc: Option<String>,
    pub subnet: Option<String>,
    pub route_table: Option<String>,
    pub role: Option<String>,
    pub source: Option<String>,
    /// `KubernetesClusterID`, or else `KubernetesClusterTag`.
    pub cluster_id: Option<String>,
    /// If set, new objects get the tag `KubernetesCluster`, too.
    pub is_legacy: bool,
    /// If set, security groups of Nodes admit load balancers.
    pub has_node_rules: bool,
    pub elb_security_group: Option<String>,
    /// IDs of the security groups that Services may name; `None` is without limit.
    pub allowed_groups: Option<Vec<String>>,
    pub families: Vec<Family>,
    /// Port and path of kube-proxy's health check in mode `Shared`.
    pub shared_probe: Option<(u16, String)>,
    /// Instance types that must have topology labels.
    pub topology_types: Regex,
    /// If set, network load balancers have security groups of their own.
    pub has_nlb_groups: bool,
    pub overrides: Vec<ServiceOverride>,
    pub grace: Duration,
    /// The tagging controller, if it runs.
    pub tagging: Option<Tagging>,
    /// Warnings about settings that work, but hardly as intended.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the configuration file and the flags.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes of the file, or else of the flags.
    pub fn read(setup: &Setup) -> Result<Self> {
        let none = ConfigFile {
            path: String::new(),
            text: String::new(),
        };
        let mut file = GitConfigSettings::of(setup.config.as_ref().unwrap_or(&none));
        let region = file
            .get(&ZONE)
            .and_then(|zone| region_of(&zone))
            .or_else(|| file.get(&REGION));
        let legacy = file.get(&LEGACY_ID);
        let id = file.get(&CLUSTER_ID);
        if legacy.is_some() && id.is_some() && legacy != id {
            file.refuse(
                &CLUSTER_ID,
                "is another ID than that of KubernetesClusterTag; remove one of the two",
            );
        }
        let types = file.get(&TOPOLOGY_TYPES).unwrap_or_default();
        let probe = (
            file.get(&PROBE_PORT).unwrap_or_default(),
            file.get(&PROBE_PATH).unwrap_or_default(),
        );
        let config = Self {
            region,
            vpc: file.get(&VPC),
            subnet: file.get(&SUBNET),
            route_table: file.get(&ROUTE_TABLE),
            role: file.get(&ROLE),
            source: file.get(&SOURCE),
            is_legacy: legacy.is_some(),
            cluster_id: id.or(legacy),
            has_node_rules: !file.flag(&NO_NODE_RULES),
            elb_security_group: file.get(&ELB_GROUP),
            allowed_groups: file.get(&ALLOWED_GROUPS),
            families: families(&mut file),
            shared_probe: file.get(&PROBE_MODE).unwrap_or_default().then_some(probe),
            topology_types: Regex::new(&types)
                .map_err(|error| Error::invalid(error.to_string()))?,
            has_nlb_groups: file.get(&NLB_GROUPS).unwrap_or_default(),
            overrides: overrides(&mut file),
            grace: file.get(&GRACE).unwrap_or_default(),
            tagging: tagging(setup)?,
            warnings: Vec::new(),
        };
        file.unknown(&[GLOBAL, OVERRIDE]);
        let warnings = file.warnings().to_vec();
        file.finish()?;
        Ok(Self { warnings, ..config })
    }

    /// Returns `true` if the program may run outside of the VPC: it does not look for its own instance.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.vpc.is_some()
            && self.cluster_id.is_some()
            && (self.subnet.is_some() || self.role.is_some())
    }
}

fn families(file: &mut GitConfigSettings) -> Vec<Family> {
    let mut families = Vec::new();
    for text in file.all(&FAMILIES) {
        match &*text {
            "ipv4" => families.push(Family::Ipv4),
            "ipv6" => families.push(Family::Ipv6),
            _ => file.refuse(
                &FAMILIES,
                &format!("{text:?} is no family; use ipv4 or ipv6, one for each key"),
            ),
        }
    }
    if families.is_empty() {
        vec![Family::Ipv4]
    } else {
        families
    }
}

fn overrides(file: &mut GitConfigSettings) -> Vec<ServiceOverride> {
    let mut all: Vec<ServiceOverride> = Vec::new();
    for name in file.subs("ServiceOverride") {
        let mut text = |key: &Key<String>| {
            file.get_in(&name, key)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let [service, region, url] = [&SERVICE, &OVERRIDE_REGION, &URL].map(&mut text);
        let [signing_region, signing_name, _] =
            [&SIGNING_REGION, &SIGNING_NAME, &SIGNING_METHOD].map(&mut text);
        let service_override = ServiceOverride {
            service,
            region,
            url,
            signing_region,
            signing_name,
        };
        let given = [
            ("Service", &service_override.service),
            ("Region", &service_override.region),
            ("URL", &service_override.url),
            ("SigningRegion", &service_override.signing_region),
        ];
        let missing: Vec<_> = given
            .iter()
            .filter(|(_, text)| text.is_empty())
            .map(|(key, _)| *key)
            .collect();
        if !missing.is_empty() {
            file.mistake(format!(
                "[ServiceOverride {name:?}] lacks {}; set each to a text",
                missing.join(", ")
            ));
        }
        let is_same = |other: &ServiceOverride| {
            other
                .service
                .eq_ignore_ascii_case(&service_override.service)
                && other.region == service_override.region
        };
        if all.iter().any(is_same) {
            let ServiceOverride {
                service, region, ..
            } = &service_override;
            file.mistake(format!(
                "[ServiceOverride {name:?}] is the second one of {service} in {region}; remove one of the two"
            ));
        }
        all.push(service_override);
    }
    all
}

/// Returns the tagging controller, if `--controllers` names it.
fn tagging(setup: &Setup) -> Result<Option<Tagging>> {
    let mut flags = Variables::of(&setup.flags);
    if !flags
        .get(&CONTROLLERS)
        .unwrap_or_default()
        .iter()
        .any(|name| name == "tagging")
    {
        return Ok(None);
    }
    let tags = flags.get(&TAGS).unwrap_or_default();
    if tags.is_empty() {
        flags.mistake("--tags is required by the tagging controller: key=value, with commas");
    }
    if flags.get(&TAGGED).is_none() {
        flags.mistake("--resources is required by the tagging controller: instance");
    }
    flags.get(&TAG_SYNCS);
    flags.get(&TAG_BATCHES);
    let rate = flags.get(&TAG_RATE).unwrap_or_default();
    let burst = flags.get(&TAG_BURST).unwrap_or_default();
    flags.finish()?;
    Ok(Some(Tagging {
        tags,
        limit: (rate > 0.0 && burst > 0).then_some((rate, burst)),
    }))
}
