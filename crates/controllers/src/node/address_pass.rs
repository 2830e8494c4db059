//! The periodic address pass (NODE-70 to NODE-76).

use std::sync::Arc;

use cloud_provider::{InstanceMetadata, InstanceState, LookupRequest, NO_INSTANCES, Node};
use runtime::loops::parallel_for;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::failure_log::DueLine;
use crate::look_up::look_up;
use crate::node::NodeController;
use crate::node::controller::BATCH;
use crate::node::labels;
use crate::node_identity::{REMEDY_ALL_FOREIGN, all_are_foreign};
use crate::options::workers;

/// Names of failures in the log.
const LOOK_UP: &str = "look-up";
const FOREIGN: &str = "foreign";

impl NodeController {
    /// Refreshes the addresses of all initialized Nodes, with one look-up for each batch. Only changed addresses are
    /// written.
    pub async fn refresh_addresses(&self, shutdown: &CancellationToken) {
        self.young.grow_up(Instant::now());
        let mut nodes = self.context.nodes.list();
        self.warn_if_all_are_foreign(&nodes);
        nodes.retain(|node| !node.is_uninitialized() && !self.is_left_alone(node));
        for batch in nodes.chunks(BATCH) {
            if shutdown.is_cancelled() {
                return;
            }
            self.refresh_batch(batch, shutdown).await;
        }
    }

    /// Logs a warning if all Nodes belong to another cloud, which is usually a mistake of the installation.
    fn warn_if_all_are_foreign(&self, nodes: &[Arc<Node>]) {
        let now = Instant::now();
        if !self.options.leaves_foreign
            || !all_are_foreign(&*self.context.provider, nodes.iter().map(|node| &**node))
        {
            self.failures.succeeded(FOREIGN, "", now);
        } else if self
            .failures
            .failed(FOREIGN, "", now)
            .is_some_and(|line| line.failures == 1)
        {
            let example = nodes
                .first()
                .map(|node| &*node.provider_id)
                .unwrap_or_default();
            tracing::warn!(
                nodes = nodes.len(),
                provider_id = example,
                "all nodes have the provider ID of another cloud and are left alone: {REMEDY_ALL_FOREIGN}"
            );
        }
    }

    async fn refresh_batch(&self, nodes: &[Arc<Node>], shutdown: &CancellationToken) {
        let want = if self.options.refresh_labels {
            LookupRequest::METADATA
        } else {
            LookupRequest::ADDRESSES
        };
        let answers = look_up(&*self.context.provider, nodes, want, NO_INSTANCES).await;
        let mut failures = Vec::new();
        let mut changes = Vec::new();
        for (node, answer) in nodes.iter().zip(answers) {
            match answer {
                Ok(InstanceState::Present {
                    metadata: Some(metadata),
                    ..
                }) => {
                    changes.push((node, metadata));
                }
                // No metadata (NODE-75) or no instance: nothing to refresh.
                Ok(_) => {}
                Err(error) => failures.push((&*node.name, error)),
            }
        }
        if let Some((node, error)) = failures.first()
            && let Some(DueLine {
                failures: count,
                lasts,
            }) = self.failures.failed(LOOK_UP, "", Instant::now())
        {
            tracing::error!(
                node, %error, nodes = failures.len(), failures = count, ?lasts, "cannot look up addresses in the cloud"
            );
        }
        parallel_for(
            changes,
            workers(self.options.status_workers()),
            shutdown,
            |(node, metadata)| async move {
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
            },
        )
        .await;
    }

    /// Updates the labels of type, zone and region, and adds further labels from the cloud that the Node lacks (P-9).
    /// Further labels that the Node already has are left alone. The next pass repairs a failure.
    async fn refresh_labels(&self, node: &Node, mut metadata: InstanceMetadata) {
        metadata
            .additional_labels
            .retain(|key, _| node.labels.get(key).is_none());
        let wanted = labels::from_metadata(&metadata, &node.labels);
        if !wanted.is_empty() {
            _ = self.write_labels(node, &wanted).await;
        }
    }
}
