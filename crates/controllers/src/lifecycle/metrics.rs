//! What the lifecycle controller measures. The reference measures nothing here.

use std::time::Duration;

/// Hooks for the lifecycle controller's series.
pub trait LifecycleMetrics: Send + Sync {
    /// A pass ended; `well`: the cloud answered for every Node, and every write succeeded.
    fn pass(&self, took: Duration, well: bool);
    /// A Node was deleted.
    fn deleted(&self);
    /// A Node that looks gone is kept, for this cause; counted once per Node and cause.
    fn held(&self, cause: &'static str);
    /// The shutdown taint of a Node was `set` or `removed`.
    fn tainted(&self, _operation: &'static str) {}
    /// So many Nodes of a pass are in doubt: the cloud did not answer for them.
    fn unanswered(&self, _nodes: usize) {}
    /// So many Nodes of a pass are not ready, and not this cloud's to judge.
    fn skipped(&self, _nodes: usize) {}
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLifecycleMetrics;

impl LifecycleMetrics for NoLifecycleMetrics {
    fn pass(&self, _took: Duration, _well: bool) {}
    fn deleted(&self) {}
    fn held(&self, _cause: &'static str) {}
}
