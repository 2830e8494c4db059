//! Metrics hooks of the lifecycle controller.

use std::time::Duration;

use super::cloud_calls::CloudOperation;

/// Hooks for the lifecycle controller's series.
pub trait LifecycleMetrics: Send + Sync {
    /// Called when a pass ended. `succeeded` is `true` if the cloud answered for every Node and every write succeeded.
    fn pass(&self, took: Duration, succeeded: bool);
    /// Called at the end of each pass, also of one that was ended early:
    /// `cloud_node_lifecycle_controller_monitor_nodes_duration_seconds` (MET-11).
    fn monitored(&self, _took: Duration) {}
    /// Called for each Node that was looked up, once for each operation:
    /// `cloud_node_lifecycle_controller_cloud_provider_calls_total` (MET-11).
    fn looked_up(&self, _operation: CloudOperation, _result: &'static str) {}
    /// Called when a Node was deleted.
    fn deleted(&self);
    /// Called when a Node without an instance is kept, once per Node and cause.
    fn held(&self, cause: &'static str);
    /// Called when the shutdown taint of a Node was `set` or `removed`.
    fn tainted(&self, _operation: &'static str) {}
    /// Called with the number of Nodes of a pass for which the cloud did not answer.
    fn unanswered(&self, _nodes: usize) {}
    /// Called with the number of Nodes of a pass that are not ready and not of this cloud.
    fn skipped(&self, _nodes: usize) {}
}

/// Metrics hooks that do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLifecycleMetrics;

impl LifecycleMetrics for NoLifecycleMetrics {
    fn pass(&self, _took: Duration, _well: bool) {}
    fn deleted(&self) {}
    fn held(&self, _cause: &'static str) {}
}
