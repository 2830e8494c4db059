//! The periodic address pass (NODE-70 to NODE-76).

use std::sync::Arc;

use cloud_provider::{InstanceMetadata, InstanceState, LookupRequest, NO_INSTANCES, Node};
use runtime::loops::parallel_for;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::look_up::look_up;
use crate::node::NodeController;
use crate::node::controller::{BATCH, workers};
use crate::node::labels;

impl NodeController {
    /// Refreshes the addresses of all initialized Nodes, with one look-up for each batch. Only changed addresses are
    /// written.
    pub async fn refresh_addresses(&self, shutdown: &CancellationToken) {
        self.young.grow_up(Instant::now());
        let nodes: Vec<Arc<Node>> =
            self.context.nodes.list().into_iter().filter(|node| !node.is_uninitialized()).collect();
        for batch in nodes.chunks(BATCH) {
            if shutdown.is_cancelled() {
                return;
            }
            self.refresh_batch(batch, shutdown).await;
        }
    }

    async fn refresh_batch(&self, nodes: &[Arc<Node>], shutdown: &CancellationToken) {
        let want = if self.options.refresh_labels { LookupRequest::METADATA } else { LookupRequest::ADDRESSES };
        let answers = look_up(&*self.context.provider, nodes, want, NO_INSTANCES).await;
        let mut failures = Vec::new();
        let mut changes = Vec::new();
        for (node, answer) in nodes.iter().zip(answers) {
            match answer {
                Ok(InstanceState::Present { metadata: Some(metadata), .. }) => {
                    changes.push((node, metadata));
                }
                // No metadata (NODE-75) or no instance: nothing to refresh.
                Ok(_) => {}
                Err(error) => failures.push((&*node.name, error)),
            }
        }
        if let Some((node, error)) = failures.first() {
            tracing::error!(node, %error, nodes = failures.len(), "cannot look up addresses in the cloud");
        }
        parallel_for(changes, workers(self.options.status_workers()), shutdown, |(node, metadata)| async move {
            // The Node may have been replaced during the look-up; only the Node that was looked up is written (P-10).
            match self.context.nodes.get(&node.name) {
                Some(now) if now.uid == node.uid && !self.young.contains(&now.uid) => {
                    self.update_addresses(&now, &metadata.node_addresses).await;
                    if self.options.refresh_labels {
                        self.refresh_labels(&now, *metadata).await;
                    }
                }
                _ => {}
            }
        })
        .await;
    }

    /// Updates the labels of type, zone and region, and adds further labels from the cloud that the Node lacks (P-9).
    /// Further labels that the Node already has are left alone. The next pass repairs a failure.
    async fn refresh_labels(&self, node: &Node, mut metadata: InstanceMetadata) {
        metadata.additional_labels.retain(|key, _| node.labels.get(key).is_none());
        let wanted = labels::from_metadata(&metadata, &node.labels);
        if !wanted.is_empty() {
            _ = self.write_labels(node, &wanted).await;
        }
    }
}
