//! What the node controller measures.

use std::time::Duration;

/// Hooks for the node controller's series (NODE-80). Both are seconds since the Node was created.
pub trait NodeMetrics: Send + Sync {
    /// `node_controller_cloud_provider_taint_removal_delay_seconds`: the start-up taint was removed.
    fn taint_removed(&self, age: Duration);
    /// `node_controller_initial_node_sync_delay_seconds`: the Node is initialised.
    fn synced(&self, age: Duration);
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNodeMetrics;

impl NodeMetrics for NoNodeMetrics {
    fn taint_removed(&self, _age: Duration) {}
    fn synced(&self, _age: Duration) {}
}
