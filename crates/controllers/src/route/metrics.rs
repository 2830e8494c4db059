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

/// The trigger of a reconciliation: the key of the queue in watch mode (ROUTE-11), and a label (ROUTE-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncTrigger {
    /// A Node was added, deleted or changed.
    NodeChange,
    /// The interval has passed, or a route that could not be changed is due again.
    Periodic,
}

impl SyncTrigger {
    /// Returns the value of the label, and of the key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeChange => "node_change",
            Self::Periodic => "periodic",
        }
    }
}

/// The outcome of a reconciliation (ROUTE-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// A route was created or deleted.
    Changed,
    /// No route was created or deleted. Failed changes are no error of the reconciliation (ROUTE-47).
    Noop,
    /// The routes could not be read.
    Error,
}

impl SyncOutcome {
    /// Returns the value of the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Noop => "noop",
            Self::Error => "error",
        }
    }

    /// Returns the outcome of a reconciliation that read the routes.
    #[must_use]
    pub const fn of_changes(has_changed: bool) -> Self {
        if has_changed {
            Self::Changed
        } else {
            Self::Noop
        }
    }
}

/// Hooks for the route controller's series.
pub trait RouteMetrics: Send + Sync {
    /// Called when a reconciliation ended: `route_controller_route_sync_total` (ROUTE-20). A change that ends later counts
    /// for the next one.
    fn synced(&self, outcome: SyncOutcome, trigger: SyncTrigger);
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
    fn synced(&self, _outcome: SyncOutcome, _trigger: SyncTrigger) {}
}
