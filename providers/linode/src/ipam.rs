//! Node IPAM (`--allocate-node-cidrs`): with a VPC, each Node gets a part of its Linode's IPv6 range beside its block.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Result, async_trait};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use provider_kit::node_ipam::PodRangeSource;

use crate::linodes::IDS;
use crate::vpcs::{VpcAddress, Vpcs};

/// Age of a list of addresses in which all Nodes have a range.
const LIST_AGE: Duration = Duration::from_secs(300);
const MISSING: &str =
    "the Linode has no IPv6 range in a VPC of the configuration with room for the Node's range";

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

/// Returns the part of a Linode's range that its Pods get. One of 112 bits has the suffix `0:c`, as in the Go program.
fn ipv6_part(range: Ipv6Net, length: u8) -> Option<Ipv6Net> {
    let first = u128::from(range.network());
    let first = if length == 112 {
        first >> 64 << 64 | 0xc_0000_0000
    } else {
        first
    };
    let part = Ipv6Net::new(Ipv6Addr::from(first), length).ok()?.trunc();
    range.contains(&part).then_some(part)
}

/// The IPv6 ranges of Linodes in VPCs.
pub(crate) struct LinodeRanges {
    pub(crate) ranges: PodCidrConfig,
    pub(crate) vpcs: Arc<Vpcs>,
}

#[async_trait]
impl PodRangeSource for LinodeRanges {
    fn is_open(&self, node: &Node) -> bool {
        let is_known = self.ranges.ipv6.is_none() || node.provider_id_scheme() == Some(IDS.scheme);
        is_known && node.pod_cidrs.is_empty()
    }

    async fn ranges(
        &self,
        nodes: &[Arc<Node>],
    ) -> Result<Vec<std::result::Result<Vec<IpNet>, String>>> {
        let Some(length) = self.ranges.ipv6 else {
            return Ok(vec![Ok(Vec::new()); nodes.len()]);
        };
        let found = self.ipv6_ranges(nodes).await?;
        let part = |node: &Arc<Node>| {
            let part = found
                .get(&*node.provider_id)
                .and_then(|range| ipv6_part(*range, length));
            part.map(|part| vec![IpNet::V6(part)])
                .ok_or_else(|| MISSING.to_owned())
        };
        Ok(nodes.iter().map(part).collect())
    }

    async fn reserved(&self) -> Result<Vec<IpNet>> {
        Ok(self
            .vpcs
            .last_address(self.ranges.cluster)
            .await?
            .map(IpNet::V4)
            .into_iter()
            .collect())
    }
}

impl LinodeRanges {
    /// Returns the IPv6 ranges of Linodes by provider ID. They are read again if one of these Nodes has none.
    async fn ipv6_ranges(&self, due: &[Arc<Node>]) -> Result<HashMap<String, Ipv6Net>> {
        for age in [LIST_AGE, Duration::ZERO] {
            let list = self.vpcs.addresses(age).await?;
            let range = |address: &VpcAddress| {
                Some((
                    IDS.write(&address.linode_id?.to_string()),
                    address.ipv6_range.as_deref()?.parse().ok()?,
                ))
            };
            let found: HashMap<_, _> = list.iter().filter_map(range).collect();
            if age.is_zero()
                || due
                    .iter()
                    .all(|node| found.contains_key(&*node.provider_id))
            {
                return Ok(found);
            }
        }
        Ok(HashMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_a_part_of_the_range_of_their_linode() {
        let part = |range: &str, length| {
            ipv6_part(range.parse().expect("a range"), length).map(|network| network.to_string())
        };
        assert_eq!(
            part("2001:db8:1:2::/64", 112).as_deref(),
            Some("2001:db8:1:2:0:c::/112")
        );
        assert_eq!(
            part("2001:db8:1:2::/64", 80).as_deref(),
            Some("2001:db8:1:2::/80")
        );
        assert_eq!(part("2001:db8:1:2:3::/80", 112), None);
    }
}
