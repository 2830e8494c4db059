//! What the service controller measures.

use std::time::Duration;

/// Hooks for the service controller's series (SVC-91), and for what the reference does not measure.
pub trait ServiceMetrics: Send + Sync {
    /// `service_controller_loadbalancer_sync_total`: the targets of a load balancer are about to be moved (SVC-70).
    fn targets_sync_started(&self);
    /// `service_controller_update_loadbalancer_host_latency_seconds`: moving them ended, well or not (SVC-70).
    fn targets_synced(&self, took: Duration);
    /// `service_controller_nodesync_error_total`: a Service failed in a node sync (SVC-64).
    fn node_sync_failed(&self);
    /// `service_controller_nodesync_latency_seconds`: a whole node sync ended.
    fn node_synced(&self, took: Duration);
    /// The provider was asked to ensure a load balancer, and answered.
    fn ensured(&self, took: Duration, well: bool);
    /// The provider was asked to delete a load balancer, and answered.
    fn deleted(&self, took: Duration, well: bool);
    /// A load balancer differs from what its Service wants, and that is news (P-23).
    fn drift_found(&self);
    /// A load balancer is kept although its Service vanished from the API, for this cause; counted once per Service and cause.
    fn deletion_held(&self, _cause: &'static str) {}
    /// A Service of the queue was worked on, well or not.
    fn reconciled(&self, _took: Duration, _well: bool) {}
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServiceMetrics;

impl ServiceMetrics for NoServiceMetrics {
    fn targets_sync_started(&self) {}
    fn targets_synced(&self, _took: Duration) {}
    fn node_sync_failed(&self) {}
    fn node_synced(&self, _took: Duration) {}
    fn ensured(&self, _took: Duration, _well: bool) {}
    fn deleted(&self, _took: Duration, _well: bool) {}
    fn drift_found(&self) {}
}
