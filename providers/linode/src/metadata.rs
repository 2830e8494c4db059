//! The label and the annotations that Linode's Go cloud controller manager writes to Nodes.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Result};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::transport::Priority;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::annotations::{HOST_UUID, PRIVATE_IP, PUBLIC_IPV6};
use crate::linodes::{IDS, Linode, Source};

const INTERVAL: Duration = Duration::from_secs(60);

/// Keeps label and annotations of Nodes up to date.
pub(crate) struct NodeMetadata {
    pub(crate) linodes: Inventory<Source>,
    pub(crate) cluster: ClusterView,
    pub(crate) age: Duration,
}

/// Returns the patch of a Node; `None` if it has everything. Values that the Linode lacks are not removed.
fn patch(node: &Node, linode: &Linode) -> Option<Value> {
    let mut labels = Map::new();
    let mut annotations = Map::new();
    if !linode.host().is_empty() && node.labels.get(HOST_UUID) != Some(linode.host()) {
        labels.insert(HOST_UUID.to_owned(), linode.host().into());
    }
    let private = linode.private_ip().map(|ip| ip.to_string());
    for (key, value) in [
        (PRIVATE_IP, private.as_deref()),
        (PUBLIC_IPV6, linode.ipv6()),
    ] {
        if let Some(value) = value.filter(|value| node.annotations.get(key) != Some(value)) {
            annotations.insert(key.to_owned(), value.into());
        }
    }
    let is_complete = labels.is_empty() && annotations.is_empty();
    (!is_complete).then(|| json!({"metadata": {"labels": labels, "annotations": annotations}}))
}

fn is_complete(node: &Node) -> bool {
    node.labels.contains_key(HOST_UUID)
        && node.annotations.contains_key(PRIVATE_IP)
        && node.annotations.contains_key(PUBLIC_IPV6)
}

impl NodeMetadata {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut last: Option<Instant> = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let mut nodes = self.cluster.nodes().unwrap_or_default();
            nodes.retain(|node| node.provider_id_scheme() == Some(IDS.scheme));
            let is_due = last.is_none_or(|last| last.elapsed() >= self.age);
            if is_due || nodes.iter().any(|node| !is_complete(node)) {
                match self.update(&nodes).await {
                    Ok(()) => last = Some(Instant::now()),
                    Err(error) => {
                        tracing::warn!(%error, "labels and annotations of Nodes are not updated");
                    }
                }
            }
        }
    }

    async fn update(&self, nodes: &[Arc<Node>]) -> Result<()> {
        let list = self.linodes.snapshot(Priority::Refresh).await?;
        for node in nodes {
            let linode = IDS
                .read(&node.provider_id)
                .ok()
                .and_then(|id| list.by_id(id));
            let Some(patch) = linode.and_then(|linode| patch(node, linode)) else {
                continue;
            };
            self.cluster.patch_node(&node.name, &patch).await?;
        }
        Ok(())
    }
}
