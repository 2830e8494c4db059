//! The objects that every controller shares.

use std::sync::Arc;

use cloud_provider::{CloudProvider, Node};
use runtime::cache::Cache;
use runtime::clock::Clock;
use runtime::pulse::Pulse;

/// The objects that every controller shares. Clones are cheap and refer to the same objects.
#[derive(Clone)]
pub struct ControllerContext {
    /// The controller's own client.
    pub client: kube::Client,
    /// The shared cache of Nodes.
    pub nodes: Cache<Node>,
    /// Provider of the cloud.
    pub provider: Arc<dyn CloudProvider>,
    /// Wall clock, for ages.
    pub clock: Arc<dyn Clock>,
    /// Progress of the controller: records every pass and every key.
    pub pulse: Pulse,
}

/// The reason why a controller cannot be created. The manager logs a warning and continues without the controller
/// (NODE-2, LIFE-2).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConstructionError {
    /// The provider does not support instances.
    #[error("cloud provider does not support instances")]
    NoInstances,
    /// The provider does not support load balancers (SVC-2).
    #[error("the cloud provider does not support external load balancers")]
    NoLoadBalancers,
    /// The provider does not support routes (ROUTE-2).
    #[error("cloud provider does not support routes")]
    NoRoutes,
    /// The flag `--cluster-cidr` is missing (ROUTE-5).
    #[error(
        "the route controller needs --cluster-cidr: the range, or ranges, of the cluster's Pods"
    )]
    NoClusterCidrs,
    /// The provider does not support volumes.
    #[error("cloud provider does not support volumes")]
    NoVolumes,
}

impl ControllerContext {
    /// Checks that the provider supports instances (NODE-2, LIFE-2).
    pub(crate) fn require_instances(&self) -> Result<(), ConstructionError> {
        self.provider
            .instances()
            .map(drop)
            .ok_or(ConstructionError::NoInstances)
    }

    /// Checks that the provider supports load balancers (SVC-2).
    pub(crate) fn require_load_balancers(&self) -> Result<(), ConstructionError> {
        self.provider
            .load_balancers()
            .map(drop)
            .ok_or(ConstructionError::NoLoadBalancers)
    }
}
