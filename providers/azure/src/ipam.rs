//! Node IPAM (`--allocate-node-cidrs`): gives each Node a block of each range of `--cluster-cidr`.

use std::collections::HashMap;
use std::sync::Arc;

use cloud_provider::{Node, Result, Setup, async_trait};
use ipnet::IpNet;
use provider_kit::declared::Kind;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::node_ipam::{BlockLengths, NodeBlocks, PodRangeSource};
use provider_kit::transport::Priority;
use provider_kit::variables::Variables;
use serde_json::Value;

use crate::arm::{AVAILABILITY_SETS, ResourceType, SCALE_SETS, SharedArm, text};
use crate::config::CurrentConfig;
use crate::machines::{Machines, VirtualMachine};
use crate::nodes::compared;

provider_kit::declare! {
    /// The flags, in the order of the reference page.
    pub FLAGS: "--";

    /// Writes Pod ranges to Nodes, instead of kube-controller-manager, which must not do so as well.
    pub IPAM: bool = "allocate-node-cidrs", default("false");
    /// Source of the lengths of Nodes' ranges: tags of scale sets and availability sets before the flags, or only the flags.
    pub BY_SET: bool = "cidr-allocator-type", kind(ALLOCATORS), default("RangeAllocator");
    /// Length of a Node's range from a `--cluster-cidr` of one family.
    pub LENGTH: u32 = "node-cidr-mask-size", kind(Kind::number(8, 126)), default_description("24 for IPv4, 64 for IPv6");
    /// Length of a Node's IPv4 range from `--cluster-cidr`.
    pub IPV4_LENGTH: u32 = "node-cidr-mask-size-ipv4", kind(Kind::number(8, 30)), default("24");
    /// Length of a Node's IPv6 range from `--cluster-cidr`.
    pub IPV6_LENGTH: u32 = "node-cidr-mask-size-ipv6", kind(Kind::number(48, 126)), default("64");
    /// Ranges of Services: Pods get none of them.
    pub SERVICE_RANGES: Vec<IpNet> = "service-cluster-ip-range";
    /// Name of the Secret with the configuration.
    pub SECRET_NAME: String = "cloud-config-secret-name", default("azure-cloud-provider");
    /// Namespace of the Secret with the configuration.
    pub SECRET_NAMESPACE: String = "cloud-config-secret-namespace", default("kube-system");
    /// Key of the Secret with the configuration.
    pub SECRET_KEY: String = "cloud-config-key", default("cloud-config");
    /// Reads the configuration from the Secret, even if no flag names the Secret.
    pub RELOADS: bool = "enable-dynamic-reloading", default("false");
}

/// Sources of the lengths of ranges: `true` is tags of sets.
const ALLOCATORS: Kind<bool> = Kind::one_of(&[("CloudAllocator", true), ("RangeAllocator", false)]);
/// The tags of a set with the length of its Nodes' ranges.
const LENGTH_TAGS: [&str; 2] = ["kubernetesNodeCIDRMaskIPV4", "kubernetesNodeCIDRMaskIPV6"];

/// The ranges that Nodes get.
#[derive(Clone)]
pub(crate) struct PodBlocks {
    /// Blocks of the cluster's ranges.
    pub(crate) blocks: Vec<NodeBlocks>,
    /// Ranges of Services, which Pods must not get.
    reserved: Vec<IpNet>,
    by_set: bool,
}

/// Returns the blocks that Nodes get; `None` without `--allocate-node-cidrs`.
pub(crate) fn pod_blocks(setup: &Setup) -> Result<Option<PodBlocks>> {
    let mut flags = Variables::of(&setup.flags);
    let is_on = flags.get(&IPAM) == Some(true);
    let [length, ipv4, ipv6] = [&LENGTH, &IPV4_LENGTH, &IPV6_LENGTH]
        .map(|flag| flags.get(flag).and_then(|flag| u8::try_from(flag).ok()));
    let reserved = flags.get(&SERVICE_RANGES).unwrap_or_default();
    let by_set = flags.get(&BY_SET) == Some(true);
    let ranges = setup.cluster_cidr.as_deref().unwrap_or_default().split(',');
    let ranges: Vec<IpNet> = ranges
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    let block = |range: &IpNet| {
        let length = length.or(if range.addr().is_ipv4() { ipv4 } else { ipv6 })?;
        (range.prefix_len() <= length).then_some(NodeBlocks {
            range: *range,
            length,
        })
    };
    let blocks: Option<Vec<NodeBlocks>> = ranges.iter().map(block).collect();
    let blocks = blocks.filter(|block| !block.is_empty() && (length.is_none() || block.len() == 1));
    if is_on && blocks.is_none() {
        flags.mistake(
            "--allocate-node-cidrs needs --cluster-cidr with room for the ranges of Nodes, whose lengths are \
             --node-cidr-mask-size for one family, --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 for two",
        );
    }
    flags.finish()?;
    Ok(blocks.filter(|_| is_on).map(|blocks| PodBlocks {
        blocks,
        reserved,
        by_set,
    }))
}

/// Lengths of the ranges of Nodes, as tags of their scale sets and availability sets state them.
pub(crate) struct SetLengths {
    pub(crate) blocks: PodBlocks,
    pub(crate) machines: Inventory<Machines>,
    pub(crate) arm: SharedArm,
    pub(crate) config: CurrentConfig,
}

impl SetLengths {
    /// Reads the lengths in the tags of all sets, by the names of the sets in lower case.
    async fn by_name(&self) -> Result<HashMap<String, BlockLengths>> {
        let config = self.config.get();
        let list = async |of: &ResourceType, is_used: bool| match is_used {
            true => self.arm.all(of, &config.nodes).await,
            false => Ok(Vec::new()),
        };
        // Scale sets of flexible orchestration are lists of machines.
        let (availability, scale) = futures::try_join!(
            list(&AVAILABILITY_SETS, config.has_machines()),
            list(&SCALE_SETS, true)
        )?;
        let lengths = |set: &Value| {
            let [ipv4, ipv6] = LENGTH_TAGS.map(|tag| {
                set["tags"][tag]
                    .as_str()
                    .and_then(|tag| tag.trim().parse().ok())
            });
            (
                text(set, "/name").to_ascii_lowercase(),
                BlockLengths { ipv4, ipv6 },
            )
        };
        Ok(availability.iter().chain(&scale).map(lengths).collect())
    }
}

#[async_trait]
impl PodRangeSource for SetLengths {
    async fn reserved(&self) -> Result<Vec<IpNet>> {
        Ok(self.blocks.reserved.clone())
    }

    async fn lengths(&self, nodes: &[Arc<Node>]) -> Result<Vec<BlockLengths>> {
        if !self.blocks.by_set {
            return Ok(vec![BlockLengths::default(); nodes.len()]);
        }
        let known = self.by_name().await?;
        let nodes: Vec<_> = nodes.iter().map(compared).collect();
        let machines = self
            .machines
            .find_all(&nodes, false, Priority::Ordinary)
            .await;
        let of = |found: Result<Found<VirtualMachine>>| match found {
            Ok(Found::Present(machine)) => {
                Ok(known.get(&machine.set_name().to_ascii_lowercase()).copied())
            }
            Ok(Found::Gone(_)) => Ok(None),
            Err(error) if error.is_invalid() => Ok(None),
            Err(error) => Err(error),
        };
        machines
            .into_iter()
            .map(|machine| of(machine).map(Option::unwrap_or_default))
            .collect()
    }
}
