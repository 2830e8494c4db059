//! The configuration: `--cloud-config`, flags and environment variables. docs/providers/gcp.md is generated from these
//! declarations.

use std::path::PathBuf;
use std::time::Duration;

use cloud_provider::{ConfigFile, Result, Setup};
use ipnet::IpNet;
use provider_kit::declared::{Declaration, Defaults, Kind, Value};
use provider_kit::gcfg::{GitConfigSettings, TRUTH};
use provider_kit::node_ipam::NodeBlocks;
use provider_kit::variables::Variables;

use crate::annotations::KINDS;

/// Address families of the Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackType {
    /// Load balancers have IPv4 addresses only; IPv4 addresses of Nodes come first.
    #[default]
    Ipv4Only,
    /// IPv4 addresses come first.
    Ipv4First,
    /// IPv6 addresses come first.
    Ipv6First,
}

impl Value for StackType {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("IPV4", Self::Ipv4Only),
        ("IPV4_IPV6", Self::Ipv4First),
        ("IPV6", Self::Ipv6First),
    ]);
}

provider_kit::declare! {
    /// The keys of the file, in the order of the reference page.
    pub KEYS: "[global] ";

    /// Project of the Nodes.
    pub PROJECT: String = "project-id", default_description("the metadata server's");
    /// Project of the network (shared VPC): firewalls and routes are created there.
    pub NETWORK_PROJECT: String = "network-project-id", default_description("`project-id`");
    /// Name or URL of the network.
    pub NETWORK: String = "network-name", default_description("the metadata server's");
    /// Name or URL of the subnetwork of internal load balancers.
    pub SUBNETWORK: String = "subnetwork-name", default_description("the network's own, if it is created automatically");
    /// Zone of the Nodes. Its region is the region of load balancers.
    pub ZONE: String = "local-zone", default_description("the metadata server's");
    /// Nodes may be in all zones of the region.
    pub MULTIZONE: bool = "multizone", kind(TRUTH), default("false");
    /// Nodes may be in all zones of the region.
    pub REGIONAL: bool = "regional", kind(TRUTH), default("false");
    /// Network tags of the Nodes, which firewalls name. May be given several times.
    pub NODE_TAGS: String = "node-tags", default_description("the tag of each Node that begins its name");
    /// Beginning of the names of the Nodes' instances.
    pub NODE_PREFIX: String = "node-instance-prefix";
    /// Beginning of the names of instance groups of others that serve internal load balancers as they are, if all of their
    /// instances are Nodes or have `node-instance-prefix`. OpenShift's build of the Go program has this key.
    pub GROUPS_PREFIX: String = "external-instance-groups-prefix";
    /// Families of the cluster: the first one of a Node's addresses, and whether load balancers may have IPv6 addresses.
    pub STACK: StackType = "stack-type", default("IPV4");
    /// Name of the secondary range from which Pod ranges are taken.
    pub SECONDARY_RANGE: String = "secondary-range-name", default_description("the first alias range");
    /// Base URL of the API.
    pub ENDPOINT: String = "api-endpoint", default_description("`https://compute.googleapis.com/compute/v1/`");
    /// Accepted without effect: nothing asks for clusters.
    pub CONTAINER_ENDPOINT: String = "container-api-endpoint";
    /// Source of tokens: empty for the metadata server, `nil` for Application Default Credentials, otherwise a URL.
    pub TOKEN_URL: String = "token-url";
    /// Body of the request to `token-url`.
    pub TOKEN_BODY: String = "token-body";
    /// Alpha features: `ILBSubsets`, `SkipIGsManagement`. May be given several times.
    pub ALPHA: String = "alpha-features";
    /// Default of the annotation `load-balancer-type`. The Go program does not know this key.
    pub KIND: bool = "load-balancer-type", kind(KINDS), default_description("external");
}

provider_kit::declare! {
    /// The flags, in the order of the reference page.
    pub FLAGS: "--";

    /// Sources of health checks.
    pub CHECK_SOURCES: Vec<IpNet> = "cloud-provider-gce-lb-src-cidrs",
        default("130.211.0.0/22,209.85.152.0/22,209.85.204.0/22,35.191.0.0/16");
    /// Sources of health checks over IPv6. The Go program does not know this flag.
    pub IPV6_CHECK_SOURCES: Vec<IpNet> = "cloud-provider-gce-lb-ipv6-src-cidrs",
        default("2600:2d00:1:b029::/64,2600:1901:8001::/48");
    /// Looks for each instance in the project that the provider ID of its Node names.
    pub MULTI_PROJECT: bool = "enable-multi-project", default("false");
    /// Leaves new external Services to a controller of load balancers with backend services.
    pub RBS_DEFAULT: bool = "enable-rbs-default-l4-netlb", default("false");
    /// Annotates Services with their target pool or backend service.
    pub ANNOTATES: bool = "enable-l4-lb-annotations", default("false");
    /// Denies other traffic to the addresses of external load balancers.
    pub DENY: bool = "enable-l4-deny-firewall", default("false");
    /// Removes the firewalls of `--enable-l4-deny-firewall`.
    pub DENY_CLEANUP: bool = "enable-l4-deny-firewall-rollback-cleanup", default("false");
    /// Has no effect but in the metric `ccm_feature_gate_info`: locks are as fine as they can be.
    pub FINE_LOCKS: bool = "enable-l4-ilb-fine-grained-lock", default("false");
    /// Writes Pod ranges to Nodes, instead of kube-controller-manager, which must not do so as well.
    pub IPAM: bool = "allocate-node-cidrs", default("false");
    /// Source of Pod ranges: the instances, or `--cluster-cidr`.
    pub ALLOCATOR: bool = "cidr-allocator-type", kind(ALLOCATORS), default("RangeAllocator");
    /// Length of a Node's range from a `--cluster-cidr` of one family.
    pub LENGTH: u32 = "node-cidr-mask-size", kind(Kind::number(8, 126)), default_description("24 for IPv4, 64 for IPv6");
    /// Length of a Node's IPv4 range from `--cluster-cidr`.
    pub IPV4_LENGTH: u32 = "node-cidr-mask-size-ipv4", kind(Kind::number(8, 30)), default("24");
    /// Length of a Node's IPv6 range from `--cluster-cidr`.
    pub IPV6_LENGTH: u32 = "node-cidr-mask-size-ipv6", kind(Kind::number(48, 126)), default("64");
    /// Ranges of Services: Pods get none of them, and with `CloudAllocator` Pod ranges have their families.
    pub SERVICE_RANGES: Vec<IpNet> = "service-cluster-ip-range";
}

provider_kit::declare! {
    /// The variables, in the order of the reference page.
    pub VARIABLES: "";

    /// File with a key, a refresh token or an external account, if `token-url` is `nil`. It is read again for each token.
    pub CREDENTIALS: String = "GOOGLE_APPLICATION_CREDENTIALS",
        default_description("`~/.config/gcloud/application_default_credentials.json`, then the metadata server");
    /// Home directory, for that path.
    pub HOME: String = "HOME";
    /// Host of the metadata server. Its name `metadata.google.internal` would need DNS, which Pods may not have yet.
    pub METADATA_HOST: String = "GCE_METADATA_HOST", default("169.254.169.254");
}

/// Sources of Pod ranges: `true` is the instances.
const ALLOCATORS: Kind<bool> = Kind::one_of(&[
    ("CloudAllocator", true),
    ("IPAMFromCloud", true),
    ("RangeAllocator", false),
]);

/// The source of Pod ranges of Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodRanges {
    /// The instances, with the families of the ranges: `true` for IPv6.
    Instances(Vec<bool>),
    /// Blocks of `--cluster-cidr` that overlap none of the ranges of Services.
    Cluster(Vec<NodeBlocks>, Vec<IpNet>),
}

/// The source of access tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The metadata server of the machine.
    Metadata,
    /// A credentials file of any form.
    File(PathBuf),
    /// A URL, with the body of the request.
    Url(String, serde_json::Value),
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "each is explained where its key or flag is declared"
)]
pub struct Config {
    pub project: Option<String>,
    pub network_project: Option<String>,
    pub network: Option<String>,
    pub subnetwork: Option<String>,
    pub zone: Option<String>,
    pub is_regional: bool,
    pub node_tags: Vec<String>,
    pub node_prefix: String,
    pub groups_prefix: Option<String>,
    pub stack: StackType,
    pub secondary_range: Option<String>,
    pub endpoint: Option<String>,
    pub tokens: TokenSource,
    pub metadata_host: String,
    pub has_subsets: bool,
    pub skips_groups: bool,
    pub defaults: Defaults,
    pub check_sources: Vec<String>,
    pub ipv6_check_sources: Vec<String>,
    pub is_multi_project: bool,
    pub leaves_external: bool,
    pub annotates: bool,
    pub denies: bool,
    pub removes_denials: bool,
    pub has_fine_locks: bool,
    /// Source of Pod ranges; `None`: kube-controller-manager.
    pub pod_ranges: Option<PodRanges>,
    pub max_age: Duration,
}

impl Config {
    /// Reads file, flags and variables.
    ///
    /// # Errors
    /// *Invalid*, with everything that is wrong with them.
    pub fn read(setup: &Setup) -> Result<Self> {
        let none = || ConfigFile {
            path: "--cloud-config".to_owned(),
            text: String::new(),
        };
        let mut file = GitConfigSettings::of(&setup.config.clone().unwrap_or_else(none));
        let mut variables = Variables::of(&setup.environment);
        let mut flags = Variables::of(&setup.flags);
        let tokens = token_source(&mut file, &mut variables);
        let alpha = file.all(&ALPHA);
        let mut flag = |flag| flags.get(flag).unwrap_or_default();
        let [is_multi_project, leaves_external, annotates] =
            [&MULTI_PROJECT, &RBS_DEFAULT, &ANNOTATES].map(&mut flag);
        let [denies, removes_denials, has_fine_locks] =
            [&DENY, &DENY_CLEANUP, &FINE_LOCKS].map(&mut flag);
        let pod_ranges = pod_ranges(
            &mut flags,
            setup.cluster_cidr.as_deref().unwrap_or_default(),
        );
        file.get(&CONTAINER_ENDPOINT);
        let config = Self {
            project: file.get(&PROJECT),
            network_project: file.get(&NETWORK_PROJECT),
            network: file.get(&NETWORK),
            subnetwork: file.get(&SUBNETWORK),
            zone: file.get(&ZONE),
            is_regional: file.flag(&MULTIZONE) | file.flag(&REGIONAL),
            node_tags: file.all(&NODE_TAGS),
            node_prefix: file.get(&NODE_PREFIX).unwrap_or_default(),
            groups_prefix: file.get(&GROUPS_PREFIX).filter(|prefix| !prefix.is_empty()),
            stack: file.get(&STACK).unwrap_or_default(),
            secondary_range: file.get(&SECONDARY_RANGE),
            endpoint: file.get(&ENDPOINT).map(|url| {
                url.trim_end_matches('/')
                    .trim_end_matches("/projects")
                    .to_owned()
            }),
            tokens,
            metadata_host: variables.get(&METADATA_HOST).unwrap_or_default(),
            has_subsets: alpha.iter().any(|text| text == "ILBSubsets"),
            skips_groups: alpha.iter().any(|text| text == "SkipIGsManagement"),
            defaults: file.defaults("", &[&KIND]),
            check_sources: check_sources(&mut flags, &CHECK_SOURCES, false),
            ipv6_check_sources: check_sources(&mut flags, &IPV6_CHECK_SOURCES, true),
            is_multi_project,
            leaves_external,
            annotates,
            denies,
            removes_denials: removes_denials || denies,
            has_fine_locks,
            pod_ranges,
            max_age: Duration::from_secs(60),
        };
        if config.denies
            && setup
                .flags
                .get(DENY_CLEANUP.key())
                .is_none_or(|text| text != "true")
        {
            flags.mistake(format!("{} needs {}", DENY.key(), DENY_CLEANUP.key()));
        }
        file.unknown(&[KEYS]);
        file.finish()?;
        variables.finish()?;
        flags.finish()?;
        Ok(config)
    }
}

/// Reads the sources of health checks of one family: a firewall has ranges of one family.
fn check_sources(
    flags: &mut Variables<'_>,
    flag: &Declaration<Vec<IpNet>>,
    is_ipv6: bool,
) -> Vec<String> {
    let ranges = flags.get(flag).unwrap_or_default();
    if let Some(other) = ranges
        .iter()
        .find(|range| range.addr().is_ipv6() != is_ipv6)
    {
        let family = if is_ipv6 { "IPv6" } else { "IPv4" };
        flags.mistake(format!("{}: {other} is no {family} range", flag.key()));
    }
    ranges.iter().map(IpNet::to_string).collect()
}

fn pod_ranges(flags: &mut Variables<'_>, cluster: &str) -> Option<PodRanges> {
    let services = flags.get(&SERVICE_RANGES).unwrap_or_default();
    let [length, ipv4, ipv6] = [&LENGTH, &IPV4_LENGTH, &IPV6_LENGTH]
        .map(|flag| flags.get(flag).and_then(|flag| u8::try_from(flag).ok()));
    let is_from_cloud = flags.get(&ALLOCATOR)?;
    if !flags.get(&IPAM)? {
        return None;
    }
    if is_from_cloud {
        let families: Vec<_> = services
            .iter()
            .map(|range| matches!(range, IpNet::V6(_)))
            .collect();
        return Some(PodRanges::Instances(if families.is_empty() {
            vec![false]
        } else {
            families
        }));
    }
    let ranges: Vec<IpNet> = cluster
        .split(',')
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    if ranges.len() > 1 && length.is_some() {
        flags.mistake(
            "--node-cidr-mask-size is for one range; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6",
        );
    }
    let block = |range: &IpNet| {
        let length = length.or(if range.addr().is_ipv4() { ipv4 } else { ipv6 })?;
        (range.prefix_len() <= length).then_some(NodeBlocks {
            range: *range,
            length,
        })
    };
    let blocks: Option<Vec<_>> = ranges.iter().map(block).collect();
    if let Some(blocks) = blocks.filter(|block| !block.is_empty()) {
        return Some(PodRanges::Cluster(blocks, services));
    }
    flags.mistake("--allocate-node-cidrs needs --cluster-cidr with room for the ranges of Nodes");
    None
}

/// Decides where tokens come from: `nil` chooses Application Default Credentials.
fn token_source(file: &mut GitConfigSettings, variables: &mut Variables<'_>) -> TokenSource {
    let body = serde_json::from_str(&file.get(&TOKEN_BODY).unwrap_or_else(|| "null".to_owned()))
        .unwrap_or_else(|_| {
            file.refuse(&TOKEN_BODY, "is no JSON");
            serde_json::Value::Null
        });
    let path = variables.get(&CREDENTIALS);
    let home = variables.get(&HOME);
    match file.get(&TOKEN_URL).as_deref() {
        None | Some("") => TokenSource::Metadata,
        Some("nil") => {
            let of_gcloud = home.map(|home| {
                PathBuf::from(home).join(".config/gcloud/application_default_credentials.json")
            });
            let found = path
                .map(PathBuf::from)
                .or(of_gcloud.filter(|path| path.exists()));
            found.map_or(TokenSource::Metadata, TokenSource::File)
        }
        Some(url) => TokenSource::Url(url.to_owned(), body),
    }
}
