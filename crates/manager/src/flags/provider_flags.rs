//! Flags that only some vendors' programs have. This program accepts these flags so that it starts with those vendors'
//! manifests unchanged (FLAG-70).

use super::removed::Kind;

/// A flag of some vendors' programs.
pub(super) struct ProviderFlag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Values of `--cloud-provider` whose Go programs have the flag.
    pub(super) providers: &'static [&'static str],
}

impl ProviderFlag {
    /// Returns `true` if the provider of this name reads the flag.
    pub(super) fn is_read_by(&self, provider: &str) -> bool {
        let is_read = match provider {
            "linode" => !LINODE_INERT.contains(&self.name),
            "gce" => !GCP_INERT.contains(&self.name),
            "aws" => true,
            "alibabacloud" | "alicloud" => !ALIBABA_INERT.contains(&self.name),
            _ => self.name == USER_AGENT,
        };
        is_read && self.providers.contains(&provider)
    }
}

const fn flags<const N: usize>(
    providers: &'static [&'static str],
    kind: Kind,
    names: [&'static str; N],
) -> [ProviderFlag; N] {
    let mut flags = [const { ProviderFlag { name: "", kind: Kind::Text, providers: &[] } }; N];
    let mut index = 0;
    while index < N {
        flags[index] = ProviderFlag { name: names[index], kind, providers };
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
/// Flags of Alibaba Cloud's program without effect.
const ALIBABA_INERT: [&str; 8] = [
    "max-concurrent-actions",
    "max-throttling-retry-times",
    "node-reconcile-batch-size",
    "route-reconcile-batch-size",
    "node-event-aggregation-wait-seconds",
    "metrics-bind-addr",
    "health-probe-bind-addr",
    "pprof-bind-addr",
];
const AWS: &[&str] = &["aws"];
const AZURE: &[&str] = &["azure"];
const GCP: &[&str] = &["gce"];
const IPAM: &[&str] = &["azure", "gce"];
const IPAM_SIZES: &[&str] = &["azure", "gce", "linode"];
const LINODE: &[&str] = &["linode"];
/// Flags of Linode's program without effect: BGP is not supported.
const LINODE_INERT: [&str; 2] = ["bgp-node-selector", "ip-holder-suffix"];
/// Flags of Google's program without effect.
const GCP_INERT: [&str; 5] = [
    "cloud-provider-gce-l7lb-src-cidrs",
    "enable-gke-tenant-controller",
    "enable-l4-ilb-fine-grained-lock",
    "enable-multi-subnet-cluster",
    "enable-multi-networking",
];
const OPENSTACK: &[&str] = &["openstack"];

const ALIBABA_BOOLS: [ProviderFlag; 3] =
    flags(ALIBABA, Kind::Bool, [DRY_RUN, "enable-imdsv2", "skip-disable-source-dest-check"]);
const ALIBABA_INTS: [ProviderFlag; 6] = flags(
    ALIBABA,
    Kind::Int,
    [
        "sg-batch-size",
        "max-concurrent-actions",
        "max-throttling-retry-times",
        "node-reconcile-batch-size",
        "route-reconcile-batch-size",
        "node-event-aggregation-wait-seconds",
    ],
);
const ALIBABA_TEXTS: [ProviderFlag; 4] =
    flags(ALIBABA, Kind::Text, ["network", "metrics-bind-addr", "health-probe-bind-addr", "pprof-bind-addr"]);
const AZURE_BOOLS: [ProviderFlag; 1] = flags(AZURE, Kind::Bool, ["enable-dynamic-reloading"]);
const AZURE_TEXTS: [ProviderFlag; 3] =
    flags(AZURE, Kind::Text, ["cloud-config-secret-name", "cloud-config-secret-namespace", "cloud-config-key"]);
const GCP_BOOLS: [ProviderFlag; 9] = flags(
    GCP,
    Kind::Bool,
    [
        "enable-multi-project",
        "enable-rbs-default-l4-netlb",
        "enable-l4-lb-annotations",
        "enable-l4-deny-firewall",
        "enable-l4-deny-firewall-rollback-cleanup",
        "enable-gke-tenant-controller",
        "enable-l4-ilb-fine-grained-lock",
        "enable-multi-subnet-cluster",
        "enable-multi-networking",
    ],
);
const GCP_TEXTS: [ProviderFlag; 2] =
    flags(GCP, Kind::Text, ["cloud-provider-gce-lb-src-cidrs", "cloud-provider-gce-l7lb-src-cidrs"]);
const IPAM_TEXTS: [ProviderFlag; 1] = flags(IPAM, Kind::Text, ["service-cluster-ip-range"]);
const IPAM_INTS: [ProviderFlag; 1] = flags(IPAM, Kind::Int, ["node-cidr-mask-size"]);
const IPAM_FAMILY_INTS: [ProviderFlag; 2] =
    flags(IPAM_SIZES, Kind::Int, ["node-cidr-mask-size-ipv4", "node-cidr-mask-size-ipv6"]);
const OPENSTACK_TEXTS: [ProviderFlag; 1] = flags(OPENSTACK, Kind::Text, [USER_AGENT]);
const AWS_TEXTS: [ProviderFlag; 2] = flags(AWS, Kind::Text, ["tags", "resources"]);
const AWS_FLOATS: [ProviderFlag; 1] = flags(AWS, Kind::Float, ["tagging-controller-rate-limit"]);
const AWS_INTS: [ProviderFlag; 2] =
    flags(AWS, Kind::Int, ["tagging-controller-burst-limit", "tagging-controller-concurrent-node-syncs"]);
const AWS_BOOLS: [ProviderFlag; 1] = flags(AWS, Kind::Bool, ["tagging-controller-enable-batching"]);
const LINODE_BOOLS: [ProviderFlag; 7] = flags(
    LINODE,
    Kind::Bool,
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
const LINODE_INTS: [ProviderFlag; 1] = flags(LINODE, Kind::Int, ["nodebalancer-backend-ipv4-subnet-id"]);
const LINODE_TEXTS: [ProviderFlag; 13] = flags(
    LINODE,
    Kind::Text,
    [
        "vpc-names",
        "vpc-ids",
        "subnet-names",
        "subnet-ids",
        "load-balancer-type",
        "bgp-node-selector",
        "ip-holder-suffix",
        "default-nodebalancer-type",
        "nodebalancer-backend-ipv4-subnet",
        "nodebalancer-backend-ipv4-subnet-name",
        "nodebalancer-tags",
        "nodebalancer-prefix",
        "linode-tag-filter",
    ],
);

const ALL: [&[ProviderFlag]; 18] = [
    &ALIBABA_BOOLS,
    &ALIBABA_INTS,
    &ALIBABA_TEXTS,
    &AZURE_BOOLS,
    &AZURE_TEXTS,
    &GCP_BOOLS,
    &GCP_TEXTS,
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
];

/// Returns all flags of vendors' programs.
pub(super) fn all() -> impl Iterator<Item = &'static ProviderFlag> {
    ALL.into_iter().flatten()
}
