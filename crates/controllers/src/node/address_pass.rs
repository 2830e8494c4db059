//! The periodic address pass (§8 of the node controller's rules).

use std::sync::Arc;

use cloud_provider::{InstanceState, NO_INSTANCES, Node, Want};
use runtime::loops::parallel_for;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::look_up::look_up;
use crate::node::NodeController;
use crate::node::controller::{BATCH, workers};

impl NodeController {
    /// One pass over all initialised Nodes: one look-up for each batch, a write only where addresses changed.
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
        let answers = look_up(&*self.context.provider, nodes, Want::ADDRESSES, NO_INSTANCES).await;
        let mut failures = Vec::new();
        let mut changes = Vec::new();
        for (node, answer) in nodes.iter().zip(answers) {
            match answer {
                Ok(InstanceState::Present { metadata: Some(metadata), .. }) => {
                    changes.push((node, metadata.node_addresses));
                }
                // NODE-75, and a machine that is gone: nothing to refresh.
                Ok(_) => {}
                Err(error) => failures.push((&*node.name, error)),
            }
        }
        if let Some((node, error)) = failures.first() {
            tracing::error!(node, %error, nodes = failures.len(), "no addresses from the cloud");
        }
        parallel_for(changes, workers(self.options.status_workers()), shutdown, |(node, from_cloud)| async move {
            // The look-up took its time: whoever has the name now must be the Node that was looked up (P-10).
            match self.context.nodes.get(&node.name) {
                Some(now) if now.uid == node.uid && !self.young.contains(&now.uid) => {
                    self.update_addresses(&now, &from_cloud).await;
                }
                _ => {}
            }
        })
        .await;
    }
}
