//! Pod ranges of Nodes from their instances (`--cidr-allocator-type=CloudAllocator`).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::names::TAINT_UNINITIALIZED;
use cloud_provider::{About, ConditionStatus, Node, Result};
use ipnet::Ipv6Net;
use jiff::Timestamp;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::transport::Priority;
use serde_json::json;

use crate::instances::{AliasRange, IDS, Instance, Source};
use crate::kubernetes::Kubernetes;

const INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a Node whose instance has no range.
const PAUSE: Duration = Duration::from_secs(15);
/// Length of the IPv6 range of a Node.
const IPV6_LENGTH: u8 = 112;
const NETWORK_TAINT: &str = "node.kubernetes.io/network-unavailable";

/// Writes ranges to Nodes that have none.
pub(crate) struct CloudAllocator {
    pub(crate) instances: Inventory<Source>,
    pub(crate) kubernetes: Kubernetes,
    /// Families of the ranges, `true` for IPv6.
    pub(crate) families: Vec<bool>,
    /// Nodes without a range, and when they are tried again.
    pub(crate) waiting: std::collections::HashMap<Box<str>, tokio::time::Instant>,
}

/// Returns the Pod ranges of an instance, in the order of the families; `None` if one is missing.
fn ranges(instance: &Instance, families: &[bool], secondary: Option<&str>) -> Option<Vec<String>> {
    let is_named = |it: &&AliasRange| secondary.is_none_or(|wanted| *it.subnetwork_range_name == *wanted);
    let range = |is_ipv6: &bool| match (is_ipv6, instance.ipv6) {
        (false, _) => instance.pod_ranges.iter().find(is_named).map(|it| it.ip_cidr_range.to_string()),
        (true, Some(IpAddr::V6(ip))) => part(ip),
        (true, _) => None,
    };
    families.iter().map(range).collect()
}

fn part(ip: Ipv6Addr) -> Option<String> {
    Some(Ipv6Net::new(ip, IPV6_LENGTH).ok()?.trunc().to_string())
}

/// Returns `true` if a Node lacks its range, or the word that its network is there.
fn is_open(node: &Node) -> bool {
    let is_unavailable = node.network_unavailable.as_ref().is_none_or(|it| it.status != ConditionStatus::False);
    let is_initialised = !node.taints.iter().any(|taint| &*taint.key == TAINT_UNINITIALIZED);
    let is_tainted = node.taints.iter().any(|taint| &*taint.key == NETWORK_TAINT);
    is_initialised && !node.terminating && (node.pod_cidrs.is_empty() || is_unavailable || is_tainted)
}

impl CloudAllocator {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = tokio::time::Instant::now();
            self.waiting.retain(|_, again| *again > now);
            let mut nodes = self.kubernetes.cluster.nodes().unwrap_or_default();
            let scheme = Some(IDS.scheme);
            nodes.retain(|it| it.provider_id_scheme() == scheme && is_open(it) && !self.waiting.contains_key(&it.uid));
            let found = self.instances.find_all(&nodes, false, Priority::Urgent).await;
            for (node, found) in nodes.iter().zip(found) {
                if let Err(error) = self.write(node, found).await {
                    tracing::warn!(%error, node = &*node.name, "the Pod range is not written");
                }
                self.waiting.insert(node.uid.clone(), now + PAUSE);
            }
        }
    }

    async fn write(&self, node: &Arc<Node>, found: Result<Found<Instance>>) -> Result<()> {
        let Found::There(instance) = found? else { return Ok(()) };
        let secondary = self.instances.source().api.config.secondary_range.as_deref();
        let Some(ranges) = ranges(&instance, &self.families, secondary) else {
            let text = "the first network interface of the instance lacks an alias range or an IPv6 address";
            self.kubernetes.cluster.events().warning(About::Node(node), "CIDRNotAvailable", text);
            return Ok(());
        };
        let path = format!("/api/v1/nodes/{}", node.name);
        let is_known = node.pod_cidrs.iter().map(|it| &**it).eq(ranges.iter().map(String::as_str));
        if !is_known {
            let patch = json!({"metadata": {"uid": node.uid}, "spec": {"podCIDR": ranges[0], "podCIDRs": ranges}});
            if !self.kubernetes.patch(&path, patch).await? {
                return Ok(());
            }
            tracing::info!(node = &*node.name, ?ranges, "Pod ranges written");
        }
        let now = Timestamp::now().to_string();
        let condition = json!({
            "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "message": "the instance has its Pod range",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let patch = json!({"status": {"conditions": [condition]}});
        self.kubernetes.patch_status(&path, patch).await
    }
}
