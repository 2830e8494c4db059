//! Node IPAM (`--allocate-node-cidrs`): assigns each Node a Pod CIDR, and with a VPC a part of its Linode's IPv6 range.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{EventSubject, Node, Result};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use provider_kit::cluster::ClusterView;
use serde_json::json;
use tokio::time::Instant;

use crate::linodes::IDS;
use crate::vpcs::{VpcAddress, Vpcs};

const INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a Node that got no range is tried again.
const PAUSE: Duration = Duration::from_secs(30);

/// The ranges that Nodes get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodCidrConfig {
    /// The range of the cluster.
    pub cluster: Ipv4Net,
    /// The length of a Node's IPv4 range.
    pub ipv4: u8,
    /// The length of a Node's IPv6 range; `None` if Nodes get none.
    pub ipv6: Option<u8>,
}

impl PodCidrConfig {
    /// Returns the blocks that overlap none of the used ranges, in order.
    fn free(self, used: impl IntoIterator<Item = Ipv4Net>) -> impl Iterator<Item = Ipv4Net> {
        let mut taken = HashSet::new();
        for range in used.into_iter().filter(|it| self.cluster.contains(it) || it.contains(&self.cluster)) {
            match range.subnets(self.ipv4) {
                Ok(blocks) => taken.extend(blocks.filter(|block| self.cluster.contains(block))),
                Err(_) => taken.extend(Ipv4Net::new(range.network(), self.ipv4).map(|it| it.trunc())),
            }
        }
        let blocks = self.cluster.subnets(self.ipv4).into_iter().flatten();
        blocks.filter(move |block| !taken.contains(block))
    }
}

/// Returns the part of a Linode's range that its Pods get. One of 112 bits has the suffix `0:c`, as in the Go program.
fn ipv6_part(range: Ipv6Net, length: u8) -> Option<Ipv6Net> {
    let first = u128::from(range.network());
    let first = if length == 112 { first >> 64 << 64 | 0xc_0000_0000 } else { first };
    let part = Ipv6Net::new(Ipv6Addr::from(first), length).ok()?.trunc();
    range.contains(&part).then_some(part)
}

/// Assigns ranges to Nodes that have none.
pub(crate) struct NodeIpam {
    pub(crate) ranges: PodCidrConfig,
    pub(crate) vpcs: Arc<Vpcs>,
    pub(crate) cluster: ClusterView,
    /// Pending assignments by UID of a Node: the range that was sent, and the time of the next attempt, which is `None`
    /// if the range was written. An entry stays until the cache shows the range, so that no other Node gets it
    /// meanwhile.
    pub(crate) pending: HashMap<Box<str>, (Option<Ipv4Net>, Option<Instant>)>,
}

impl NodeIpam {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
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
        let lacking = || nodes.iter().filter(|node| node.pod_cidrs.is_empty());
        let uids: HashSet<_> = lacking().map(|node| &node.uid).collect();
        self.pending.retain(|uid, _| uids.contains(uid));
        let is_due = |node: &&Arc<Node>| {
            let is_known = self.ranges.ipv6.is_none() || node.provider_id_scheme() == Some(IDS.scheme);
            let is_time = |(_, again): &(_, Option<Instant>)| again.is_some_and(|again| again <= now);
            is_known && !node.terminating && self.pending.get(&node.uid).is_none_or(is_time)
        };
        let due: Vec<_> = lacking().filter(is_due).cloned().collect();
        if due.is_empty() {
            return Ok(());
        }
        let ipv6 = if self.ranges.ipv6.is_some() { self.ipv6_ranges(&due).await? } else { HashMap::new() };
        let shown = nodes.iter().flat_map(|node| &node.pod_cidrs).filter_map(|it| it.parse().ok());
        let pending = self.pending.values().filter_map(|(range, _)| *range);
        let used: Vec<_> = shown.chain(pending).chain(self.vpcs.last_address(self.ranges.cluster).await?).collect();
        let mut free = self.ranges.free(used);
        for node in due {
            let part = match self.ranges.ipv6 {
                None => None,
                Some(length) => match ipv6.get(&*node.provider_id).and_then(|range| ipv6_part(*range, length)) {
                    Some(part) => Some(IpNet::V6(part)),
                    None => {
                        let text =
                            "the Linode has no IPv6 range in a VPC of the configuration with room for the Node's range";
                        self.fail(&node, "CIDRNotAvailable", text);
                        continue;
                    }
                },
            };
            let sent = self.pending.get(&node.uid).and_then(|(block, _)| *block);
            let Some(block) = sent.or_else(|| free.next()) else {
                let text = format!("--cluster-cidr={} has no free range of /{}", self.ranges.cluster, self.ranges.ipv4);
                self.fail(&node, "CIDRNotAvailable", &text);
                continue;
            };
            let ranges: Vec<_> = std::iter::once(IpNet::V4(block)).chain(part).map(|it| it.to_string()).collect();
            let patch = json!({"metadata": {"uid": node.uid}, "spec": {"podCIDR": ranges[0], "podCIDRs": ranges}});
            match self.cluster.patch_node(&node.name, &patch).await {
                Ok(is_written) => {
                    tracing::info!(node = &*node.name, ?ranges, is_written, "Pod ranges assigned");
                    let state = if is_written { (Some(block), None) } else { (None, Some(now + PAUSE)) };
                    self.pending.insert(node.uid.clone(), state);
                }
                // The write may have been applied although it failed, so the range stays reserved for this Node.
                Err(error) => {
                    self.fail(&node, "CIDRAssignmentFailed", &error.to_string());
                    self.pending.insert(node.uid.clone(), (Some(block), Some(now + PAUSE)));
                }
            }
        }
        Ok(())
    }

    /// Returns the IPv6 ranges of Linodes by provider ID. They are read again if one of these Nodes has none.
    async fn ipv6_ranges(&self, due: &[Arc<Node>]) -> Result<HashMap<String, Ipv6Net>> {
        for age in [PAUSE * 10, Duration::ZERO] {
            let list = self.vpcs.addresses(age).await?;
            let range = |it: &VpcAddress| {
                Some((IDS.write(&it.linode_id?.to_string()), it.ipv6_range.as_deref()?.parse().ok()?))
            };
            let found: HashMap<_, _> = list.iter().filter_map(range).collect();
            if age.is_zero() || due.iter().all(|node| found.contains_key(&*node.provider_id)) {
                return Ok(found);
            }
        }
        Ok(HashMap::new())
    }

    fn fail(&mut self, node: &Node, reason: &str, text: &str) {
        self.cluster.events().warning(EventSubject::Node(node), reason, text);
        self.pending.insert(node.uid.clone(), (None, Some(Instant::now() + PAUSE)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGES: PodCidrConfig = PodCidrConfig {
        cluster: Ipv4Net::new_assert(std::net::Ipv4Addr::new(10, 192, 0, 0), 22),
        ipv4: 24,
        ipv6: None,
    };

    fn free(used: &[&str]) -> Vec<String> {
        RANGES.free(used.iter().map(|it| it.parse().expect("a range"))).map(|it| it.to_string()).collect()
    }

    #[test]
    fn free_blocks_overlap_no_used_range() {
        assert_eq!(free(&["10.192.0.0/24", "10.192.2.17/32", "10.0.0.0/16"]), ["10.192.1.0/24", "10.192.3.0/24"]);
        assert_eq!(free(&["10.192.2.0/23"]), ["10.192.0.0/24", "10.192.1.0/24"]);
        assert_eq!(free(&["10.0.0.0/8"]), [""; 0]);
    }

    #[test]
    fn pods_get_a_part_of_the_range_of_their_linode() {
        let part = |range: &str, length| ipv6_part(range.parse().expect("a range"), length).map(|it| it.to_string());
        assert_eq!(part("2001:db8:1:2::/64", 112).as_deref(), Some("2001:db8:1:2:0:c::/112"));
        assert_eq!(part("2001:db8:1:2::/64", 80).as_deref(), Some("2001:db8:1:2::/80"));
        assert_eq!(part("2001:db8:1:2:3::/80", 112), None);
    }
}
