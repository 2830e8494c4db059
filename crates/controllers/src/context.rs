//! What every controller is given.

use std::sync::Arc;

use cloud_provider::{CloudProvider, Node};
use runtime::cache::Cache;
use runtime::clock::Clock;
use runtime::pulse::Pulse;

/// What every controller is given. Clones are cheap and share everything.
#[derive(Clone)]
pub struct ControllerContext {
    /// The controller's own client.
    pub client: kube::Client,
    /// The shared cache of Nodes.
    pub nodes: Cache<Node>,
    /// The cloud.
    pub provider: Arc<dyn CloudProvider>,
    /// Wall-clock time, for ages.
    pub clock: Arc<dyn Clock>,
    /// Hears of every pass and every key that is worked on.
    pub pulse: Pulse,
}

/// Why a controller cannot be made. The manager warns and goes on without it (NODE-2, LIFE-2).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConstructionError {
    /// The cloud has no machines to offer.
    #[error("cloud provider does not support instances")]
    NoInstances,
    /// The cloud has no load balancers to offer (SVC-2).
    #[error("the cloud provider does not support external load balancers")]
    NoLoadBalancers,
    /// The cloud has no routes to offer (ROUTE-2).
    #[error("cloud provider does not support routes")]
    NoRoutes,
    /// `--cluster-cidr` is missing (ROUTE-5).
    #[error("the route controller needs --cluster-cidr: the range, or ranges, of the cluster's Pods")]
    NoClusterCidrs,
    /// The cloud has no volumes to offer.
    #[error("cloud provider does not support volumes")]
    NoVolumes,
}

impl ControllerContext {
    /// NODE-2, LIFE-2.
    pub(crate) fn require_instances(&self) -> Result<(), ConstructionError> {
        self.provider.instances().map(drop).ok_or(ConstructionError::NoInstances)
    }

    /// SVC-2.
    pub(crate) fn require_load_balancers(&self) -> Result<(), ConstructionError> {
        self.provider.load_balancers().map(drop).ok_or(ConstructionError::NoLoadBalancers)
    }
}
