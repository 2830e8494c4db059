//! Pod ranges of Nodes: from their instances (`CloudAllocator`), or from `--cluster-cidr` (`RangeAllocator`).

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::names::TAINT_UNINITIALIZED;
use cloud_provider::{ConditionStatus, Node, Result, async_trait};
use ipnet::{IpNet, Ipv6Net};
use jiff::Timestamp;
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::node_ipam::PodRangeSource;
use provider_kit::transport::Priority;
use serde_json::json;

use crate::instances::{AliasRange, IDS, Instance, Source};

/// Length of the IPv6 range of a Node.
const IPV6_LENGTH: u8 = 112;
const NETWORK_TAINT: &str = "node.kubernetes.io/network-unavailable";
const MISSING: &str =
    "the first network interface of the instance lacks an alias range or an IPv6 address";

/// The alias ranges and IPv6 addresses of instances.
pub(crate) struct InstanceRanges {
    pub(crate) instances: Inventory<Source>,
    pub(crate) cluster: ClusterView,
    /// Families of the ranges, `true` for IPv6.
    pub(crate) families: Vec<bool>,
}

impl InstanceRanges {
    /// Returns the Pod ranges of an instance, in the order of the families; `None` if one is missing.
    fn of(&self, instance: &Instance) -> Option<Vec<IpNet>> {
        let secondary = self
            .instances
            .source()
            .api
            .config
            .secondary_range
            .as_deref();
        let is_named = |alias_range: &&AliasRange| {
            secondary.is_none_or(|wanted| *alias_range.subnetwork_range_name == *wanted)
        };
        let range = |is_ipv6: &bool| match (is_ipv6, instance.ipv6) {
            (false, _) => instance
                .pod_ranges
                .iter()
                .find(is_named)?
                .ip_cidr_range
                .parse()
                .ok(),
            (true, Some(IpAddr::V6(ip))) => {
                Some(IpNet::V6(Ipv6Net::new(ip, IPV6_LENGTH).ok()?.trunc()))
            }
            (true, _) => None,
        };
        self.families.iter().map(range).collect()
    }
}

#[async_trait]
impl PodRangeSource for InstanceRanges {
    fn is_open(&self, node: &Node) -> bool {
        let is_unavailable = node
            .network_unavailable
            .as_ref()
            .is_none_or(|network_condition| network_condition.status != ConditionStatus::False);
        let has = |taint: &str| {
            node.taints
                .iter()
                .any(|other_taint| &*other_taint.key == taint)
        };
        node.provider_id_scheme() == Some(IDS.scheme)
            && !has(TAINT_UNINITIALIZED)
            && (node.pod_cidrs.is_empty() || is_unavailable || has(NETWORK_TAINT))
    }

    async fn ranges(
        &self,
        nodes: &[Arc<Node>],
    ) -> Result<Vec<std::result::Result<Vec<IpNet>, String>>> {
        let found = self
            .instances
            .find_all(nodes, false, Priority::Urgent)
            .await
            .into_iter();
        let ranges = found.map(|found| match found {
            Ok(Found::Present(instance)) => self.of(&instance).ok_or_else(|| MISSING.to_owned()),
            Ok(Found::Gone(_)) => Err("the instance does not exist".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        Ok(ranges.collect())
    }

    async fn written(&self, node: &Node) -> Result<()> {
        let now = Timestamp::now().to_string();
        let condition = json!({
            "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "message": "the instance has its Pod range",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let patch = json!({"status": {"conditions": [condition]}});
        self.cluster
            .patch_status(&format!("/api/v1/nodes/{}", node.name), &patch)
            .await
            .map(drop)
    }
}

/// Ranges of Services, which Pods must not get.
pub(crate) struct Reserved(pub(crate) Vec<IpNet>);

#[async_trait]
impl PodRangeSource for Reserved {
    async fn reserved(&self) -> Result<Vec<IpNet>> {
        Ok(self.0.clone())
    }
}
