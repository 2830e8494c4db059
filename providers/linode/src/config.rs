//! The configuration: environment variables and flags. docs/providers/linode.md is generated from these declarations.

use std::time::Duration;

use cloud_provider::{AdoptableTag, Result, Setup};
use ipnet::{IpNet, Ipv4Net};
use provider_kit::declared::{Kind, Value};
use provider_kit::transport::Credential;
use provider_kit::variables::Variables;

use crate::ipam::PodCidrConfig;

const SECONDS: Kind<u64> = Kind::number(1, 86_400);

const PREFIX_FORM: Kind<String> =
    Kind::of("1 to 19 characters of a-z, A-Z, 0-9, _ and -", |text| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        ((1..=19).contains(&text.len()) && text.bytes().all(is_inner)).then(|| text.to_owned())
    });

const BALANCER_KINDS: Kind<bool> = Kind::one_of(&[("nodebalancer", true), ("cilium-bgp", false)]);

/// The product that a NodeBalancer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeBalancerType {
    /// Shared machines, written `common`.
    #[default]
    Common,
    /// Dedicated machines, written `premium`.
    Premium,
    /// `premium_40gb`: dedicated machines with a faster network.
    Premium40Gb,
}

impl Value for NodeBalancerType {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("common", Self::Common),
        ("premium", Self::Premium),
        ("premium_40gb", Self::Premium40Gb),
    ])
    .any_case();
}

provider_kit::declare! {
    /// The variables, in the order of the reference page.
    pub VARIABLES: "";

    /// Region in which NodeBalancers are created, such as `us-east`. Required.
    pub REGION: String = "LINODE_REGION";
    /// File with the API token. The file is read again when it changes. An unreadable or empty file counts as none.
    pub TOKEN_FILE: String = "LINODE_API_TOKEN_FILE", default("/var/run/secrets/linode/api-token");
    /// API token, if there is no file. One of the two is required.
    pub TOKEN: String = "LINODE_API_TOKEN", secret();
    /// Accepted without effect: a changed file is noticed at once.
    pub TOKEN_CACHE_TTL: u64 = "LINODE_API_TOKEN_CACHE_TTL_SECONDS", kind(SECONDS), default("60"), lenient();
    /// Base URL of the API. A last part such as `/v4beta` chooses the API version, otherwise `v4`.
    pub URL: String = "LINODE_URL", default("https://api.linode.com");
    /// Seconds that one request may take.
    pub REQUEST_TIMEOUT: u64 = "LINODE_REQUEST_TIMEOUT_SECONDS", kind(SECONDS), default("120"), lenient();
    /// Seconds for which a list of Linodes is used.
    pub INSTANCE_TTL: u64 = "LINODE_INSTANCE_CACHE_TTL", kind(SECONDS), default("15"), lenient();
    /// Accepted without effect: the routes are read when they are listed.
    pub ROUTES_TTL: u64 = "LINODE_ROUTES_CACHE_TTL_SECONDS", kind(SECONDS), default("60"), lenient();
    /// Seconds after which labels and annotations of a Node are compared with the Linode again.
    pub METADATA_TTL: u64 = "LINODE_METADATA_TTL", kind(SECONDS), default("300"), lenient();
    /// Accepted without effect: the Nodes are watched.
    pub NODE_TTL: u64 = "K8S_NODECACHE_TTL", kind(SECONDS), default("300"), lenient();
    /// Range whose private addresses are shown as `ExternalIP`.
    pub EXTERNAL_SUBNET: IpNet = "LINODE_EXTERNAL_SUBNET";
    /// Default of the annotation `hostname-only-ingress`.
    pub HOSTNAME_ONLY: bool = "LINODE_HOSTNAME_ONLY_INGRESS", default("false"), lenient();
}

provider_kit::declare! {
    /// The flags, in the order of the reference page.
    pub FLAGS: "--";

    /// Logs requests and answers.
    pub DEBUG: bool = "linodego-debug", default("false");
    /// Creates routes for Pods on VPC interfaces. Needs a VPC.
    pub ROUTES: bool = "enable-route-controller", default("false");
    /// Checks the token every five minutes, and stops the program when the token is no longer valid.
    pub TOKEN_CHECK: bool = "enable-token-health-checker", default("false");
    /// Labels of the VPCs of the Nodes.
    pub VPC_NAMES: Vec<String> = "vpc-names";
    /// Labels of the subnets of the Nodes.
    pub SUBNET_NAMES: Vec<String> = "subnet-names", default_description("`default`");
    /// IDs of the VPCs of the Nodes, with `--subnet-ids` and instead of names.
    pub VPC_IDS: Vec<u64> = "vpc-ids";
    /// IDs of the subnets of the Nodes.
    pub SUBNET_IDS: Vec<u64> = "subnet-ids";
    /// Beginning of the labels of NodeBalancers.
    pub PREFIX: String = "nodebalancer-prefix", kind(PREFIX_FORM), default("ccm");
    /// Tags of all NodeBalancers, after the name of the cluster.
    pub TAGS: Vec<String> = "nodebalancer-tags";
    /// Default of the annotation `nodebalancer-type`.
    pub TYPE: NodeBalancerType = "default-nodebalancer-type", default("common");
    /// Range of the subnet from which NodeBalancers take their backend ranges.
    pub BACKEND_SUBNET: IpNet = "nodebalancer-backend-ipv4-subnet";
    /// ID of a subnet for the backend ranges of NodeBalancers.
    pub BACKEND_SUBNET_ID: u64 = "nodebalancer-backend-ipv4-subnet-id";
    /// Label of a subnet for the backend ranges of NodeBalancers. Not together with its ID.
    pub BACKEND_SUBNET_NAME: String = "nodebalancer-backend-ipv4-subnet-name";
    /// Sends traffic to the private addresses of Nodes instead of their VPC addresses, even if the Nodes are in a VPC.
    pub NO_VPC_BACKENDS: bool = "disable-nodebalancer-vpc-backends", default("false");
    /// Default of the annotation `enable-ipv6-ingress`.
    pub IPV6_INGRESS: bool = "enable-ipv6-for-loadbalancers", default("false");
    /// Default of the annotation `enable-ipv6-backends`.
    pub IPV6_BACKENDS: bool = "enable-ipv6-for-nodebalancer-backends", default("false");
    /// Only Linodes with a tag that contains this text are Nodes.
    pub TAG_FILTER: String = "linode-tag-filter";
    /// Assigns Pod CIDRs from `--cluster-cidr` to Nodes, instead of kube-controller-manager, which must not do so as
    /// well.
    pub IPAM: bool = "allocate-node-cidrs", default("false");
    /// Length of the IPv4 range of a Node.
    pub IPV4_LENGTH: u32 = "node-cidr-mask-size-ipv4", kind(Kind::number(8, 30)), default("24");
    /// Length of the IPv6 range of a Node. It is a part of the range that its Linode has in the VPC.
    pub IPV6_LENGTH: u32 = "node-cidr-mask-size-ipv6", kind(Kind::number(48, 126)), default("112");
    /// Assigns no IPv6 ranges.
    pub NO_IPV6_RANGES: bool = "disable-ipv6-node-cidr-allocation", default("false");
    /// Kind of load balancers. `cilium-bgp` is accepted with a warning.
    pub IS_NODEBALANCER: bool = "load-balancer-type", kind(BALANCER_KINDS), default("nodebalancer");
}

impl NodeBalancerType {
    /// Returns the word of the API.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Premium => "premium",
            Self::Premium40Gb => "premium_40gb",
        }
    }
}

/// The VPCs and subnets of the Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VpcSelection {
    /// Labels or IDs of the VPCs; none: the Nodes are in no VPC.
    pub vpcs: Vec<String>,
    /// Labels or IDs of the subnets.
    pub subnets: Vec<String>,
    /// If set, `vpcs` and `subnets` are IDs; otherwise, labels.
    pub by_id: bool,
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "each is explained where its variable or flag is declared"
)]
pub struct Config {
    pub token: Credential,
    pub endpoint: String,
    pub region: String,
    pub timeout: Duration,
    pub instances_max_age: Duration,
    pub metadata_max_age: Duration,
    pub external_subnet: Option<IpNet>,
    pub hostname_only: bool,
    pub debug: bool,
    pub has_routes: bool,
    pub checks_token: bool,
    pub vpc: VpcSelection,
    pub prefix: String,
    pub tags: Vec<String>,
    pub adoptable_tag: Option<AdoptableTag>,
    pub kind: NodeBalancerType,
    pub backend_range: Option<IpNet>,
    pub backend_subnet_id: Option<u64>,
    pub backend_subnet_name: Option<String>,
    pub has_vpc_backends: bool,
    pub ipv6_ingress: bool,
    pub ipv6_backends: bool,
    pub tag_filter: Option<String>,
    pub pod_ranges: Option<PodCidrConfig>,
}

impl Config {
    /// Reads the environment and the flags.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes of all variables, or else of all flags.
    pub fn read(setup: &Setup) -> Result<Self> {
        let mut variables = Variables::of(&setup.environment);
        let mut flags = Variables::of(&setup.flags);
        let is_file_named = variables.is_set(&TOKEN_FILE);
        let (file, unreadable) = match variables.get(&TOKEN_FILE).map(Credential::file) {
            Some(Ok(file)) => (Some(file), None),
            // The default file need not exist.
            Some(Err(error)) => (None, is_file_named.then_some(error)),
            None => (None, None),
        };
        let token = file.or_else(|| {
            variables
                .get(&TOKEN)
                .map(|token| Credential::token(token.trim()))
        });
        let is_offline = setup.environment.is_offline();
        if token.is_none() && !is_offline {
            let why = unreadable
                .map(|error| format!(" (LINODE_API_TOKEN_FILE: {error})"))
                .unwrap_or_default();
            variables.mistake(format!(
                "LINODE_API_TOKEN or LINODE_API_TOKEN_FILE is required: an API token{why}"
            ));
        }
        if !variables.is_set(&REGION) && !is_offline {
            variables.mistake(
                "LINODE_REGION is required: the region of new NodeBalancers, such as us-east",
            );
        }
        for unused in [&TOKEN_CACHE_TTL, &ROUTES_TTL, &NODE_TTL] {
            variables.get(unused);
        }
        let mut seconds =
            |variable| Duration::from_secs(variables.get(variable).unwrap_or_default());
        let [timeout, instances_max_age, metadata_max_age] =
            [&REQUEST_TIMEOUT, &INSTANCE_TTL, &METADATA_TTL].map(&mut seconds);
        let endpoint = endpoint(&variables.get(&URL).unwrap_or_default());
        let vpc = vpc_selection(&mut flags);
        let has_routes = flags.get(&ROUTES).unwrap_or_default();
        if has_routes && vpc.vpcs.is_empty() {
            flags.mistake("--enable-route-controller needs a VPC: set --vpc-names, or --vpc-ids and --subnet-ids");
        }
        let backend_subnet_id = flags.get(&BACKEND_SUBNET_ID);
        let backend_subnet_name = flags.get(&BACKEND_SUBNET_NAME);
        if backend_subnet_id.is_some() && backend_subnet_name.is_some() {
            let [id, name] = [BACKEND_SUBNET_ID.key(), BACKEND_SUBNET_NAME.key()];
            flags.mistake(format!("{id} and {name} are both set: only one can be"));
        }
        if flags.get(&IS_NODEBALANCER) == Some(false) {
            flags.warning(
                "--load-balancer-type=cilium-bgp is not supported: Services get NodeBalancers",
            );
        }
        let pod_ranges = pod_ranges(
            &mut flags,
            setup.cluster_cidr.as_deref(),
            !vpc.vpcs.is_empty(),
        );
        let mut flag = |flag| flags.get(flag).unwrap_or_default();
        let [debug, checks_token, no_vpc_backends] =
            [&DEBUG, &TOKEN_CHECK, &NO_VPC_BACKENDS].map(&mut flag);
        let [ipv6_ingress, ipv6_backends] = [&IPV6_INGRESS, &IPV6_BACKENDS].map(&mut flag);
        let config = Self {
            token: token.unwrap_or_else(Credential::none),
            endpoint,
            region: variables.get(&REGION).unwrap_or_default(),
            timeout,
            instances_max_age,
            metadata_max_age,
            external_subnet: variables.get(&EXTERNAL_SUBNET),
            hostname_only: variables.get(&HOSTNAME_ONLY).unwrap_or_default(),
            debug,
            has_routes,
            checks_token,
            vpc,
            prefix: flags.get(&PREFIX).unwrap_or_default(),
            tags: flags.get(&TAGS).unwrap_or_default(),
            adoptable_tag: setup.adoptable_tag.clone(),
            kind: flags.get(&TYPE).unwrap_or_default(),
            backend_range: flags.get(&BACKEND_SUBNET),
            backend_subnet_id,
            backend_subnet_name,
            has_vpc_backends: !no_vpc_backends,
            ipv6_ingress,
            ipv6_backends,
            tag_filter: flags.get(&TAG_FILTER),
            pod_ranges,
        };
        variables.misspelt("LINODE_", VARIABLES);
        variables.finish()?;
        flags.finish()?;
        Ok(config)
    }

    /// Returns `true` if backends are addresses in a VPC, unless they are IPv6 addresses.
    pub(crate) fn uses_vpc_backends(&self) -> bool {
        self.has_vpc_backends && !self.vpc.vpcs.is_empty()
    }
}

fn pod_ranges(
    flags: &mut Variables<'_>,
    cluster: Option<&str>,
    has_vpc: bool,
) -> Option<PodCidrConfig> {
    let [is_on, no_ipv6] = [&IPAM, &NO_IPV6_RANGES].map(|flag| flags.get(flag).unwrap_or_default());
    let [ipv4, ipv6] = [&IPV4_LENGTH, &IPV6_LENGTH]
        .map(|flag| flags.get(flag).and_then(|flag| u8::try_from(flag).ok()));
    let ipv4 = ipv4?;
    let ipv6 = ipv6?;
    if !is_on {
        return None;
    }
    let parsed = cluster
        .unwrap_or_default()
        .parse::<Ipv4Net>()
        .ok()
        .map(|range| range.trunc());
    let Some(range) = parsed.filter(|range| range.prefix_len() <= ipv4) else {
        flags.mistake(format!(
            "--allocate-node-cidrs needs --cluster-cidr: one IPv4 range with room for ranges of /{ipv4}"
        ));
        return None;
    };
    if !has_vpc && !no_ipv6 {
        flags.warning("Nodes get no IPv6 range without a VPC: set --vpc-names, or --disable-ipv6-node-cidr-allocation");
    }
    Some(PodCidrConfig {
        cluster: range,
        ipv4,
        ipv6: (has_vpc && !no_ipv6).then_some(ipv6),
    })
}

fn vpc_selection(flags: &mut Variables<'_>) -> VpcSelection {
    let texts = |ids: Option<Vec<u64>>| {
        ids.unwrap_or_default()
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
    };
    let names = flags.get(&VPC_NAMES).unwrap_or_default();
    let subnet_names = flags.get(&SUBNET_NAMES);
    let ids = texts(flags.get(&VPC_IDS));
    let subnet_ids = texts(flags.get(&SUBNET_IDS));
    if !ids.is_empty() && !names.is_empty() {
        flags.mistake("--vpc-ids and --vpc-names are both set: only one can be");
    }
    if ids.is_empty() != subnet_ids.is_empty() {
        flags.mistake("--vpc-ids and --subnet-ids: only one is set; set both or neither");
    }
    if names.is_empty() && ids.is_empty() && subnet_names.is_some() {
        flags.mistake("--subnet-names needs --vpc-names");
    }
    match ids.is_empty() {
        false => VpcSelection {
            vpcs: ids,
            subnets: subnet_ids,
            by_id: true,
        },
        true => {
            let subnets = subnet_names.unwrap_or_else(|| vec!["default".to_owned()]);
            VpcSelection {
                vpcs: names,
                subnets,
                by_id: false,
            }
        }
    }
}

/// Returns the base URL with the version of the API at its end.
fn endpoint(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let has_version = url.rsplit('/').next().is_some_and(|part| {
        part.strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    });
    if has_version {
        url.to_owned()
    } else {
        format!("{url}/v4")
    }
}
