//! Node IPAM (`--allocate-node-cidrs`): gives Pod CIDRs to Nodes that have none, from `--cluster-cidr`, from the cloud, or
//! from both.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{EventSubject, Node, Result, async_trait};
use ipnet::IpNet;
use serde_json::json;
use tokio::time::Instant;

use crate::cluster::ClusterView;

const INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a Node is tried again.
const PAUSE: Duration = Duration::from_secs(30);
const NOT_AVAILABLE: &str = "CIDRNotAvailable";

/// The part of a cloud in the Pod CIDRs of Nodes.
#[async_trait]
pub trait PodRangeSource: Send + Sync + 'static {
    /// Returns `true` if a Node lacks its ranges, and may get them now.
    fn is_open(&self, node: &Node) -> bool {
        node.pod_cidrs.is_empty()
    }

    /// Returns the ranges that the cloud has for each Node, which follow those from `--cluster-cidr`. The inner error is the
    /// text of an event: why the Node has none.
    ///
    /// # Errors
    /// The cloud's answer; all Nodes are tried again later.
    async fn ranges(
        &self,
        nodes: &[Arc<Node>],
    ) -> Result<Vec<std::result::Result<Vec<IpNet>, String>>> {
        Ok(vec![Ok(Vec::new()); nodes.len()])
    }

    /// Returns the lengths of the blocks of each Node, where they are not those of [`NodeBlocks`].
    ///
    /// # Errors
    /// The cloud's answer; all Nodes are tried again later.
    async fn lengths(&self, nodes: &[Arc<Node>]) -> Result<Vec<BlockLengths>> {
        Ok(vec![BlockLengths::default(); nodes.len()])
    }

    /// Returns the ranges that no Node may get although none has them, such as the ranges of Services.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn reserved(&self) -> Result<Vec<IpNet>> {
        Ok(Vec::new())
    }

    /// Writes what else a Node needs that has its ranges.
    ///
    /// # Errors
    /// The answer of the API server; the Node is tried again later.
    async fn written(&self, _node: &Node) -> Result<()> {
        Ok(())
    }
}

/// The prefix lengths of the blocks of one Node; `None` keeps the length of [`NodeBlocks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLengths {
    /// Length of an IPv4 block.
    pub ipv4: Option<u8>,
    /// Length of an IPv6 block.
    pub ipv6: Option<u8>,
}

/// A range of the cluster, and the length of the part of it that each Node gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeBlocks {
    /// The range of the cluster.
    pub range: IpNet,
    /// The prefix length of a Node's range.
    pub length: u8,
}

impl NodeBlocks {
    /// Returns the blocks with the length for one Node. A length that the range has no room for does not count.
    fn with(self, lengths: BlockLengths) -> Self {
        let stated = if self.range.addr().is_ipv4() {
            lengths.ipv4
        } else {
            lengths.ipv6
        };
        let fits =
            |byte: &u8| (self.range.prefix_len()..=self.range.max_prefix_len()).contains(byte);
        Self {
            length: stated.filter(fits).unwrap_or(self.length),
            ..self
        }
    }

    /// Returns the blocks that overlap none of the used ranges, in order.
    fn free(self, used: &[IpNet]) -> impl Iterator<Item = IpNet> {
        let (narrow, wide): (Vec<IpNet>, Vec<IpNet>) = used
            .iter()
            .copied()
            .partition(|network| network.prefix_len() >= self.length);
        let block = |network: IpNet| Some(IpNet::new(network.addr(), self.length).ok()?.trunc());
        let taken: HashSet<IpNet> = narrow.into_iter().filter_map(block).collect();
        let blocks = self.range.subnets(self.length).into_iter().flatten();
        blocks.filter(move |block| {
            !taken.contains(block) && !wide.iter().any(|network| network.contains(block))
        })
    }
}

/// The blocks that are free during one pass.
struct FreeBlocks<'a> {
    used: &'a [IpNet],
    /// Blocks that Nodes got in this pass.
    given: Vec<IpNet>,
    by_length: HashMap<NodeBlocks, Box<dyn Iterator<Item = IpNet> + Send + 'a>>,
}

impl FreeBlocks<'_> {
    /// Takes the next block; `None` if there is no more.
    fn next(&mut self, wanted: NodeBlocks) -> Option<IpNet> {
        let used = self.used;
        let blocks = self
            .by_length
            .entry(wanted)
            .or_insert_with(|| Box::new(wanted.free(used)));
        // Blocks of another length may lie in one of this length, or around it.
        let overlaps = |block: &IpNet| {
            self.given
                .iter()
                .any(|network| network.contains(block) || block.contains(network))
        };
        let block = blocks.find(|network| !overlaps(network))?;
        self.given.push(block);
        Some(block)
    }
}

/// Gives ranges to Nodes that have none.
pub struct NodeIpam<S> {
    blocks: Vec<NodeBlocks>,
    source: S,
    cluster: ClusterView,
    /// Blocks that were sent for a Node, by its UID, and the time of the next attempt. An entry stays until the cache shows
    /// the ranges, so that no other Node gets them meanwhile.
    pending: HashMap<Box<str>, (Vec<IpNet>, Instant)>,
}

impl<S: PodRangeSource> NodeIpam<S> {
    /// Returns an allocator of one block of each of `blocks`, followed by the ranges of `source`.
    #[must_use]
    pub fn new(cluster: ClusterView, blocks: Vec<NodeBlocks>, source: S) -> Self {
        Self {
            blocks,
            source,
            cluster,
            pending: HashMap::new(),
        }
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let nodes = self.cluster.nodes().unwrap_or_default();
            if let Err(error) = self.assign(&nodes).await {
                tracing::warn!(%error, "Pod ranges cannot be assigned");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn assign(&mut self, nodes: &[Arc<Node>]) -> Result<()> {
        let now = Instant::now();
        let open = || {
            nodes
                .iter()
                .filter(|node| !node.terminating && self.source.is_open(node))
        };
        let uids: HashSet<_> = open().map(|node| &node.uid).collect();
        self.pending.retain(|uid, _| uids.contains(uid));
        let is_due = |node: &&Arc<Node>| {
            self.pending
                .get(&node.uid)
                .is_none_or(|(_, again)| *again <= now)
        };
        let due: Vec<_> = open().filter(is_due).cloned().collect();
        if due.is_empty() {
            return Ok(());
        }
        let parts = self.source.ranges(&due).await?;
        let shown = nodes
            .iter()
            .flat_map(|node| &node.pod_cidrs)
            .filter_map(|pod_cidr| pod_cidr.parse().ok());
        let pending = self
            .pending
            .values()
            .flat_map(|(blocks, _)| blocks.iter().copied());
        let used: Vec<IpNet> = shown
            .chain(pending)
            .chain(self.source.reserved().await?)
            .collect();
        let lengths = self.source.lengths(&due).await?;
        let mut free = FreeBlocks {
            used: &used,
            given: Vec::new(),
            by_length: HashMap::new(),
        };
        for ((node, parts), lengths) in due.into_iter().zip(parts).zip(lengths) {
            let parts = match parts {
                Ok(parts) => parts,
                Err(text) => {
                    self.fail(&node, NOT_AVAILABLE, &text, Vec::new());
                    continue;
                }
            };
            let sent = self
                .pending
                .get(&node.uid)
                .map(|(blocks, _)| blocks.clone())
                .filter(|blocks| !blocks.is_empty());
            let wanted: Vec<NodeBlocks> = self
                .blocks
                .iter()
                .map(|blocks| blocks.with(lengths))
                .collect();
            let blocks: Option<Vec<IpNet>> =
                sent.or_else(|| wanted.iter().map(|blocks| free.next(*blocks)).collect());
            let Some(blocks) = blocks else {
                let ranges: Vec<_> = wanted
                    .iter()
                    .map(|blocks| format!("/{} of {}", blocks.length, blocks.range))
                    .collect();
                let text = format!(
                    "--cluster-cidr has no free range of {}",
                    ranges.join(" or of ")
                );
                self.fail(&node, NOT_AVAILABLE, &text, Vec::new());
                continue;
            };
            let ranges: Vec<_> = blocks.iter().chain(&parts).map(IpNet::to_string).collect();
            match self.write(&node, &ranges).await {
                Ok(is_written) => {
                    let blocks = if is_written { blocks } else { Vec::new() };
                    self.pending.insert(node.uid.clone(), (blocks, now + PAUSE));
                }
                // The write may have been applied although it failed, so the blocks stay reserved for this Node.
                Err(error) => self.fail(&node, "CIDRAssignmentFailed", &error.to_string(), blocks),
            }
        }
        Ok(())
    }

    /// Returns `false` if the Node has changed meanwhile.
    async fn write(&self, node: &Node, ranges: &[String]) -> Result<bool> {
        let is_known = node
            .pod_cidrs
            .iter()
            .map(|pod_cidr| &**pod_cidr)
            .eq(ranges.iter().map(String::as_str));
        if !is_known {
            let patch = json!({"metadata": {"uid": node.uid}, "spec": {"podCIDR": ranges.first(), "podCIDRs": ranges}});
            let is_written = self.cluster.patch_node(&node.name, &patch).await?;
            tracing::info!(
                node = &*node.name,
                ?ranges,
                is_written,
                "Pod ranges assigned"
            );
            if !is_written {
                return Ok(false);
            }
        }
        self.source.written(node).await?;
        Ok(true)
    }

    fn fail(&mut self, node: &Node, reason: &str, text: &str, blocks: Vec<IpNet>) {
        self.cluster
            .events()
            .warning(EventSubject::Node(node), reason, text);
        self.pending
            .insert(node.uid.clone(), (blocks, Instant::now() + PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(range: &str, length: u8, used: &[&str]) -> Vec<String> {
        let used: Vec<IpNet> = used.iter().map(|text| text.parse().unwrap()).collect();
        let blocks = NodeBlocks {
            range: range.parse().unwrap(),
            length,
        };
        blocks
            .free(&used)
            .map(|network| network.to_string())
            .collect()
    }

    #[test]
    fn free_blocks_overlap_no_used_range() {
        let cluster = "10.192.0.0/22";
        assert_eq!(
            free(
                cluster,
                24,
                &["10.192.0.0/24", "10.192.2.17/32", "10.0.0.0/16"]
            ),
            ["10.192.1.0/24", "10.192.3.0/24"]
        );
        assert_eq!(
            free(cluster, 24, &["10.192.2.0/23"]),
            ["10.192.0.0/24", "10.192.1.0/24"]
        );
        assert_eq!(free(cluster, 24, &["10.0.0.0/8"]), [""; 0]);
        assert_eq!(
            free("fd00::/63", 64, &["10.192.0.0/24", "fd00::1/128"]),
            ["fd00:0:0:1::/64"]
        );
    }

    #[test]
    fn nodes_with_blocks_of_other_lengths_get_no_overlapping_ones() {
        let blocks = NodeBlocks {
            range: "10.192.0.0/23".parse().unwrap(),
            length: 25,
        };
        let mut free = FreeBlocks {
            used: &[],
            given: Vec::new(),
            by_length: HashMap::new(),
        };
        let mut next = |ipv4| {
            free.next(blocks.with(BlockLengths {
                ipv4,
                ipv6: Some(9),
            }))
            .map(|network| network.to_string())
        };
        assert_eq!(next(None).as_deref(), Some("10.192.0.0/25"));
        assert_eq!(next(Some(24)).as_deref(), Some("10.192.1.0/24"));
        assert_eq!(
            next(Some(8)).as_deref(),
            Some("10.192.0.128/25"),
            "a length without room does not count"
        );
        assert_eq!(next(None), None);
    }
}
