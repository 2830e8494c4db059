//! The shell of the route controller.

use std::sync::Arc;

use cloud_provider::Cluster;
use runtime::cache::Resync;
use runtime::events::EventRecorder;
use runtime::queue::QueueMetrics;
use tokio_util::sync::CancellationToken;

use super::metrics::RouteMetrics;
use crate::context::{ConstructionError, ControllerContext};
use crate::options::{Options, RouteOptions};

/// node-route-controller.
pub struct RouteController {
    pub(super) context: ControllerContext,
    pub(super) cluster: Cluster,
    pub(super) options: RouteOptions,
    pub(super) events: EventRecorder,
    pub(super) metrics: Arc<dyn RouteMetrics>,
}

impl RouteController {
    /// Makes the controller.
    ///
    /// # Errors
    /// If the cloud has no routes to offer (ROUTE-2), or without cluster CIDRs (ROUTE-5).
    pub fn new(
        context: ControllerContext,
        cluster: Cluster,
        options: &Options,
        events: EventRecorder,
        metrics: Arc<dyn RouteMetrics>,
    ) -> Result<Self, ConstructionError> {
        if context.provider.routes().is_none() {
            return Err(ConstructionError::NoRoutes);
        }
        if options.route.cluster_cidrs.is_empty() {
            return Err(ConstructionError::NoClusterCidrs);
        }
        Ok(Self { context, cluster, options: options.route.clone(), events, metrics })
    }

    /// Runs until `shutdown`: waits for the cache of Nodes, then reconciles as its mode says (ROUTE-6, D-5). `queue`:
    /// the metrics of the queue `Routes`, which watch mode has. `resync`: how often watch mode is told of every Node again.
    pub async fn run(self: Arc<Self>, _queue: Arc<dyn QueueMetrics>, _resync: Resync, shutdown: CancellationToken) {
        let _ = (&self.context, &self.cluster, &self.options, &self.events, &self.metrics);
        shutdown.cancelled().await;
    }
}
