//! What the route controller measures.

use std::time::Duration;

/// How many routes there are, and how many there should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Wanted by the Nodes.
    pub desired: usize,
    /// Of those, there.
    pub present: usize,
    /// Listed, and not this controller's to change.
    pub foreign: usize,
    /// Could not be created or deleted, and are tried again.
    pub failed: usize,
}

/// Hooks for the route controller's series.
pub trait RouteMetrics: Send + Sync {
    /// A reconcile begins: `route_controller_route_sync_total` (ROUTE-20).
    fn sync(&self);
    /// The cloud's routes were listed; so many of them are this cluster's to keep (P-33: routes have limits).
    fn listed(&self, _ours: usize) {}
    /// A route was created or deleted; `operation` is `create` or `delete`.
    fn changed(&self, _operation: &'static str) {}
    /// A route could not be created or deleted; `operation` is `create` or `delete`.
    fn failed(&self, _operation: &'static str) {}
    /// Somebody else changes a route of ours again and again (P-33).
    fn flapping(&self) {}
    /// A Pod CIDR lies outside every `--cluster-cidr`; counted once per Node and range (P-33).
    fn outside_cluster_cidr(&self) {}
    /// A pass has planned.
    fn standing(&self, _standing: Standing) {}
    /// A pass ended; calls that it did not wait for may go on.
    fn reconciled(&self, _took: Duration, _well: bool) {}
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRouteMetrics;

impl RouteMetrics for NoRouteMetrics {
    fn sync(&self) {}
}
