//! Node IPAM (`--allocate-node-cidrs`): gives each Node a block of each range of `--cluster-cidr`.

use cloud_provider::{Result, Setup, async_trait};
use ipnet::IpNet;
use provider_kit::declared::Kind;
use provider_kit::node_ipam::{NodeBlocks, PodRangeSource};
use provider_kit::variables::Variables;

provider_kit::declare! {
    /// The flags, in the order of the reference page.
    pub FLAGS: "--";

    /// Writes Pod ranges to Nodes, instead of kube-controller-manager, which must not do so as well.
    pub IPAM: bool = "allocate-node-cidrs", default("false");
    /// Length of a Node's range from a `--cluster-cidr` of one family.
    pub LENGTH: u32 = "node-cidr-mask-size", kind(Kind::number(8, 126)), default_description("24 for IPv4, 64 for IPv6");
    /// Length of a Node's IPv4 range from `--cluster-cidr`.
    pub IPV4_LENGTH: u32 = "node-cidr-mask-size-ipv4", kind(Kind::number(8, 30)), default("24");
    /// Length of a Node's IPv6 range from `--cluster-cidr`.
    pub IPV6_LENGTH: u32 = "node-cidr-mask-size-ipv6", kind(Kind::number(48, 126)), default("64");
    /// Ranges of Services: Pods get none of them.
    pub SERVICE_RANGES: Vec<IpNet> = "service-cluster-ip-range";
}

/// Blocks of the cluster's ranges, and ranges that Pods must not get.
pub(crate) type PodBlocks = (Vec<NodeBlocks>, Vec<IpNet>);

/// Returns the blocks that Nodes get; `None` without `--allocate-node-cidrs`.
pub(crate) fn pod_blocks(setup: &Setup) -> Result<Option<PodBlocks>> {
    let mut flags = Variables::of(&setup.flags);
    let is_on = flags.get(&IPAM) == Some(true);
    let [length, ipv4, ipv6] =
        [&LENGTH, &IPV4_LENGTH, &IPV6_LENGTH].map(|flag| flags.get(flag).and_then(|it| u8::try_from(it).ok()));
    let reserved = flags.get(&SERVICE_RANGES).unwrap_or_default();
    let ranges = setup.cluster_cidr.as_deref().unwrap_or_default().split(',');
    let ranges: Vec<IpNet> = ranges.filter_map(|range| range.trim().parse().ok()).collect();
    let block = |range: &IpNet| {
        let length = length.or(if range.addr().is_ipv4() { ipv4 } else { ipv6 })?;
        (range.prefix_len() <= length).then_some(NodeBlocks { range: *range, length })
    };
    let blocks: Option<Vec<NodeBlocks>> = ranges.iter().map(block).collect();
    let blocks = blocks.filter(|it| !it.is_empty() && (length.is_none() || it.len() == 1));
    if is_on && blocks.is_none() {
        flags.mistake(
            "--allocate-node-cidrs needs --cluster-cidr with room for the ranges of Nodes, whose lengths are \
             --node-cidr-mask-size for one family, --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 for two",
        );
    }
    flags.finish()?;
    Ok(blocks.filter(|_| is_on).map(|blocks| (blocks, reserved)))
}

/// Ranges of Services, which Pods must not get.
pub(crate) struct Reserved(pub(crate) Vec<IpNet>);

#[async_trait]
impl PodRangeSource for Reserved {
    async fn reserved(&self) -> Result<Vec<IpNet>> {
        Ok(self.0.clone())
    }
}
