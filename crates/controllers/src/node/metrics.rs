//! What the node controller measures.

use std::time::Duration;

/// Hooks for the node controller's series (NODE-80). An age is counted from the Node's creation.
pub trait NodeMetrics: Send + Sync {
    /// `node_controller_cloud_provider_taint_removal_delay_seconds`: the start-up taint was removed.
    fn taint_removed(&self, age: Duration);
    /// `node_controller_initial_node_sync_delay_seconds`: the Node is initialised.
    fn synced(&self, age: Duration);
    /// A Node of the queue was worked on, well or not.
    fn reconciled(&self, _took: Duration, _well: bool) {}
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNodeMetrics;

impl NodeMetrics for NoNodeMetrics {
    fn taint_removed(&self, _age: Duration) {}
    fn synced(&self, _age: Duration) {}
}
