//! Metrics hooks of the service controller.

use std::time::Duration;

/// Hooks for the service controller's series (SVC-91), and for further ones.
pub trait ServiceMetrics: Send + Sync {
    /// Called before the targets of a load balancer are updated: `service_controller_loadbalancer_sync_total` (SVC-70).
    fn targets_sync_started(&self);
    /// Called after the update of targets, successful or not:
    /// `service_controller_update_loadbalancer_host_latency_seconds` (SVC-70).
    fn targets_synced(&self, took: Duration);
    /// Called when a Service failed in a node sync: `service_controller_nodesync_error_total` (SVC-64).
    fn node_sync_failed(&self);
    /// Called when a whole node sync ended: `service_controller_nodesync_latency_seconds`.
    fn node_synced(&self, took: Duration);
    /// Called when the provider returned from ensuring a load balancer.
    fn ensured(&self, took: Duration, succeeded: bool);
    /// Called when the provider returned from deleting a load balancer.
    fn deleted(&self, took: Duration, succeeded: bool);
    /// Called when new drift of a load balancer was found (P-23).
    fn drift_found(&self);
    /// Called when a load balancer is kept although its Service vanished from the API, once per Service and cause.
    fn deletion_held(&self, _cause: &'static str) {}
    /// Called after the sync of a Service from the queue, successful or not.
    fn reconciled(&self, _took: Duration, _well: bool) {}
}

/// Metrics hooks that do nothing.
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
