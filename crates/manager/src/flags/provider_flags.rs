//! Flags that only some vendors' programs have. This program accepts these flags so that it starts with those vendors'
//! manifests unchanged (FLAG-70).
//!
//! Each list states the effect of its flags, so a flag cannot be parsed and then forgotten. `ccm-tests --test
//! provider_flags` compares these lists with the flags that each provider declares, in both directions.

use super::removed::Kind;

/// A flag of some vendors' programs.
pub(super) struct ProviderFlag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Values of `--cloud-provider` whose Go programs have the flag.
    pub(super) providers: &'static [&'static str],
    pub(super) effect: Effect,
}

/// The effect of a flag for the providers that have it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The provider reads the flag from `Setup::flags`.
    Read,
    /// The provider gets the flag as `Setup::user_agent`.
    UserAgent,
    /// The flag is accepted without effect, for this reason.
    Inert(&'static str),
}

impl ProviderFlag {
    /// Returns `true` if the provider of this name gets the flag.
    pub(super) fn is_read_by(&self, provider: &str) -> bool {
        self.providers.contains(&provider) && !matches!(self.effect, Effect::Inert(_))
    }

    /// Returns the reason why the flag has no effect for the provider of this name; `None` if the provider gets it.
    pub(super) fn inert_reason(&self, provider: &str) -> Option<String> {
        match self.effect {
            _ if !self.providers.contains(&provider) => Some(format!(
                "it is accepted for manifests of {}",
                self.providers.join(", ")
            )),
            Effect::Inert(reason) => Some(reason.to_owned()),
            Effect::Read | Effect::UserAgent => None,
        }
    }
}

const fn flags<const N: usize>(
    providers: &'static [&'static str],
    kind: Kind,
    effect: Effect,
    names: [&'static str; N],
) -> [ProviderFlag; N] {
    let mut flags = [const {
        ProviderFlag {
            name: "",
            kind: Kind::Text,
            providers: &[],
            effect: Effect::Read,
        }
    }; N];
    let mut index = 0;
    while index < N {
        flags[index] = ProviderFlag {
            name: names[index],
            kind,
            providers,
            effect,
        };
        index += 1;
    }
    flags
}

/// Name of the flag that its provider gets as `Setup::user_agent`.
pub(super) const USER_AGENT: &str = "user-agent";

pub(super) const ALIBABA: &[&str] = &["alibabacloud", "alicloud"];
/// Name of a flag that stops the program from changing anything. The provider that has the flag refuses it; on other
/// clouds it is an unknown flag, because a program that ignored the flag would change what it must not change.
pub(super) const DRY_RUN: &str = "dry-run";
const AWS: &[&str] = &["aws"];
const AZURE: &[&str] = &["azure"];
const GCP: &[&str] = &["gce"];
const IPAM: &[&str] = &["azure", "gce"];
/// Values of `--cloud-provider` whose providers assign Pod ranges to Nodes.
const NODE_IPAM: &[&str] = &["azure", "gce", "linode"];
const LINODE: &[&str] = &["linode"];
const OPENSTACK: &[&str] = &["openstack"];

/// Names of the flags of this program that some providers read as well, with those providers.
pub(super) const SHARED: [(&str, &[&str]); 3] = [
    ("allocate-node-cidrs", NODE_IPAM),
    ("cidr-allocator-type", IPAM),
    ("controllers", AWS),
];

const PACE: Effect = Effect::Inert("requests are paced and merged by what the cloud answers");
const NO_HTTP: Effect = Effect::Inert(
    "all endpoints are on --secure-port; use --metrics-bind-address for metrics over plain HTTP",
);
const NO_BGP: Effect = Effect::Inert("BGP is not supported");
const NO_L7: Effect = Effect::Inert("this program has no layer 7 load balancers");
const NO_TENANTS: Effect = Effect::Inert("controllers of GKE are not part of this program");
const ONE_SUBNET: Effect = Effect::Inert("a Node is used with its first network interface");

const ALIBABA_BOOLS: [ProviderFlag; 3] = flags(
    ALIBABA,
    Kind::Bool,
    Effect::Read,
    [DRY_RUN, "enable-imdsv2", "skip-disable-source-dest-check"],
);
const ALIBABA_INTS: [ProviderFlag; 1] = flags(ALIBABA, Kind::Int, Effect::Read, ["sg-batch-size"]);
const ALIBABA_INERT_INTS: [ProviderFlag; 5] = flags(
    ALIBABA,
    Kind::Int,
    PACE,
    [
        "max-concurrent-actions",
        "max-throttling-retry-times",
        "node-reconcile-batch-size",
        "route-reconcile-batch-size",
        "node-event-aggregation-wait-seconds",
    ],
);
const ALIBABA_TEXTS: [ProviderFlag; 1] = flags(ALIBABA, Kind::Text, Effect::Read, ["network"]);
const ALIBABA_ADDRESSES: [ProviderFlag; 3] = flags(
    ALIBABA,
    Kind::Text,
    NO_HTTP,
    [
        "metrics-bind-addr",
        "health-probe-bind-addr",
        "pprof-bind-addr",
    ],
);
const AZURE_BOOLS: [ProviderFlag; 1] = flags(
    AZURE,
    Kind::Bool,
    Effect::Read,
    ["enable-dynamic-reloading"],
);
const AZURE_TEXTS: [ProviderFlag; 3] = flags(
    AZURE,
    Kind::Text,
    Effect::Read,
    [
        "cloud-config-secret-name",
        "cloud-config-secret-namespace",
        "cloud-config-key",
    ],
);
const GCP_BOOLS: [ProviderFlag; 6] = flags(
    GCP,
    Kind::Bool,
    Effect::Read,
    [
        "enable-multi-project",
        "enable-rbs-default-l4-netlb",
        "enable-l4-lb-annotations",
        "enable-l4-deny-firewall",
        "enable-l4-deny-firewall-rollback-cleanup",
        "enable-l4-ilb-fine-grained-lock",
    ],
);
const GCP_TENANTS: [ProviderFlag; 1] = flags(
    GCP,
    Kind::Bool,
    NO_TENANTS,
    ["enable-gke-tenant-controller"],
);
const GCP_SUBNETS: [ProviderFlag; 2] = flags(
    GCP,
    Kind::Bool,
    ONE_SUBNET,
    ["enable-multi-subnet-cluster", "enable-multi-networking"],
);
const GCP_TEXTS: [ProviderFlag; 2] = flags(
    GCP,
    Kind::Text,
    Effect::Read,
    [
        "cloud-provider-gce-lb-src-cidrs",
        "cloud-provider-gce-lb-ipv6-src-cidrs",
    ],
);
const GCP_L7_TEXTS: [ProviderFlag; 1] = flags(
    GCP,
    Kind::Text,
    NO_L7,
    ["cloud-provider-gce-l7lb-src-cidrs"],
);
const IPAM_TEXTS: [ProviderFlag; 1] =
    flags(IPAM, Kind::Text, Effect::Read, ["service-cluster-ip-range"]);
const IPAM_INTS: [ProviderFlag; 1] = flags(IPAM, Kind::Int, Effect::Read, ["node-cidr-mask-size"]);
const IPAM_FAMILY_INTS: [ProviderFlag; 2] = flags(
    NODE_IPAM,
    Kind::Int,
    Effect::Read,
    ["node-cidr-mask-size-ipv4", "node-cidr-mask-size-ipv6"],
);
const OPENSTACK_TEXTS: [ProviderFlag; 1] =
    flags(OPENSTACK, Kind::Text, Effect::UserAgent, [USER_AGENT]);
const AWS_TEXTS: [ProviderFlag; 2] = flags(AWS, Kind::Text, Effect::Read, ["tags", "resources"]);
const AWS_FLOATS: [ProviderFlag; 1] = flags(
    AWS,
    Kind::Float,
    Effect::Read,
    ["tagging-controller-rate-limit"],
);
const AWS_INTS: [ProviderFlag; 2] = flags(
    AWS,
    Kind::Int,
    Effect::Read,
    [
        "tagging-controller-burst-limit",
        "tagging-controller-concurrent-node-syncs",
    ],
);
const AWS_BOOLS: [ProviderFlag; 1] = flags(
    AWS,
    Kind::Bool,
    Effect::Read,
    ["tagging-controller-enable-batching"],
);
const LINODE_BOOLS: [ProviderFlag; 7] = flags(
    LINODE,
    Kind::Bool,
    Effect::Read,
    [
        "linodego-debug",
        "enable-route-controller",
        "enable-token-health-checker",
        "enable-ipv6-for-loadbalancers",
        "enable-ipv6-for-nodebalancer-backends",
        "disable-nodebalancer-vpc-backends",
        "disable-ipv6-node-cidr-allocation",
    ],
);
const LINODE_INTS: [ProviderFlag; 1] = flags(
    LINODE,
    Kind::Int,
    Effect::Read,
    ["nodebalancer-backend-ipv4-subnet-id"],
);
const LINODE_TEXTS: [ProviderFlag; 11] = flags(
    LINODE,
    Kind::Text,
    Effect::Read,
    [
        "vpc-names",
        "vpc-ids",
        "subnet-names",
        "subnet-ids",
        "load-balancer-type",
        "default-nodebalancer-type",
        "nodebalancer-backend-ipv4-subnet",
        "nodebalancer-backend-ipv4-subnet-name",
        "nodebalancer-tags",
        "nodebalancer-prefix",
        "linode-tag-filter",
    ],
);
const LINODE_BGP_TEXTS: [ProviderFlag; 2] = flags(
    LINODE,
    Kind::Text,
    NO_BGP,
    ["bgp-node-selector", "ip-holder-suffix"],
);

const ALL: [&[ProviderFlag]; 24] = [
    &ALIBABA_BOOLS,
    &ALIBABA_INTS,
    &ALIBABA_INERT_INTS,
    &ALIBABA_TEXTS,
    &ALIBABA_ADDRESSES,
    &AZURE_BOOLS,
    &AZURE_TEXTS,
    &GCP_BOOLS,
    &GCP_TENANTS,
    &GCP_SUBNETS,
    &GCP_TEXTS,
    &GCP_L7_TEXTS,
    &IPAM_TEXTS,
    &IPAM_INTS,
    &IPAM_FAMILY_INTS,
    &OPENSTACK_TEXTS,
    &AWS_TEXTS,
    &AWS_FLOATS,
    &AWS_INTS,
    &AWS_BOOLS,
    &LINODE_BOOLS,
    &LINODE_INTS,
    &LINODE_TEXTS,
    &LINODE_BGP_TEXTS,
];

/// Returns all flags of vendors' programs.
pub(super) fn all() -> impl Iterator<Item = &'static ProviderFlag> {
    ALL.into_iter().flatten()
}

/// Returns `true` if the provider reads this flag, which the program declares for itself as well.
pub(super) fn is_shared_with(name: &str, provider: &str) -> bool {
    SHARED
        .iter()
        .any(|(flag, providers)| *flag == name && providers.contains(&provider))
}

/// Returns the names of the flags that the provider of this name gets in `Setup::flags`, each with an example value.
#[must_use]
pub fn read_by(provider: &str) -> Vec<(&'static str, &'static str)> {
    let provider_flags =
        all().filter(|flag| flag.effect == Effect::Read && flag.is_read_by(provider));
    let flag_examples = provider_flags.map(|flag| (flag.name, flag.kind.example()));
    let shared = SHARED
        .iter()
        .filter(|(_, providers)| providers.contains(&provider));
    let shared = shared.map(|(name, _)| match *name {
        "allocate-node-cidrs" => (*name, "true"),
        "cidr-allocator-type" => (*name, "CloudAllocator"),
        _ => (*name, "*,tagging"),
    });
    flag_examples.chain(shared).collect()
}
