//! Metrics hooks of the route controller.

use std::time::Duration;

/// The numbers of routes that are wanted, present, foreign and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// Number of routes that the Nodes need.
    pub desired: usize,
    /// Number of needed routes that exist.
    pub present: usize,
    /// Number of listed routes that this controller may not change.
    pub foreign: usize,
    /// Number of routes that could not be created or deleted, and are retried.
    pub failed: usize,
}

/// Hooks for the route controller's series.
pub trait RouteMetrics: Send + Sync {
    /// Called when a reconciliation begins: `route_controller_route_sync_total` (ROUTE-20).
    fn sync(&self);
    /// Called when the cloud's routes were listed, with the number of routes of this cluster, because clouds limit the
    /// number of routes (P-33).
    fn listed(&self, _ours: usize) {}
    /// Called when a route was created or deleted; `operation` is `create` or `delete`.
    fn changed(&self, _operation: &'static str) {}
    /// Called when a route could not be created or deleted; `operation` is `create` or `delete`.
    fn failed(&self, _operation: &'static str) {}
    /// Called when another writer changes a route repeatedly (P-33).
    fn flapping(&self) {}
    /// Called when a Pod CIDR is outside every `--cluster-cidr`, once per Node and CIDR (P-33).
    fn outside_cluster_cidr(&self) {}
    /// Called when a pass has planned.
    fn route_counts(&self, _counts: RouteCounts) {}
    /// Called when a pass ended. Calls that it did not wait for may still be in progress.
    fn reconciled(&self, _took: Duration, _well: bool) {}
}

/// Metrics hooks that do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRouteMetrics;

impl RouteMetrics for NoRouteMetrics {
    fn sync(&self) {}
}
