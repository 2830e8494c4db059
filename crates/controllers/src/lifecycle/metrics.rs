//! What the lifecycle controller measures. The reference measures nothing here.

use std::time::Duration;

/// Hooks for the lifecycle controller's series.
pub trait LifecycleMetrics: Send + Sync {
    /// A pass ended.
    fn pass(&self, duration: Duration);
    /// A Node was deleted.
    fn deleted(&self);
    /// A Node that looks gone is kept, for this cause; counted once per Node and cause.
    fn held(&self, cause: &'static str);
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLifecycleMetrics;

impl LifecycleMetrics for NoLifecycleMetrics {
    fn pass(&self, _duration: Duration) {}
    fn deleted(&self) {}
    fn held(&self, _cause: &'static str) {}
}
