//! Metrics hooks of the node controller.

use std::time::Duration;

/// Hooks for the node controller's series (NODE-80). Ages are measured from the Node's creation.
pub trait NodeMetrics: Send + Sync {
    /// Called when the uninitialized taint was removed: `node_controller_cloud_provider_taint_removal_delay_seconds`.
    fn taint_removed(&self, age: Duration);
    /// Called when the Node is initialized: `node_controller_initial_node_sync_delay_seconds`.
    fn synced(&self, age: Duration);
    /// Called after the sync of a Node, successful or not.
    fn reconciled(&self, _took: Duration, _well: bool) {}
}

/// Metrics hooks that do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNodeMetrics;

impl NodeMetrics for NoNodeMetrics {
    fn taint_removed(&self, _age: Duration) {}
    fn synced(&self, _age: Duration) {}
}
