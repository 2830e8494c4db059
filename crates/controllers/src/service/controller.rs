//! The shell of the service controller.

use std::sync::Arc;

use cloud_provider::{Cluster, Service};
use runtime::cache::Cache;
use runtime::events::EventRecorder;
use runtime::queue::QueueMetrics;
use tokio_util::sync::CancellationToken;

use crate::context::{ConstructionError, ControllerContext};
use crate::options::Options;
use crate::service::metrics::ServiceMetrics;

/// service-lb-controller.
pub struct ServiceController {
    context: ControllerContext,
    services: Cache<Service>,
}

impl ServiceController {
    /// Makes the controller for the Services of `cluster`.
    ///
    /// # Errors
    /// If the cloud has no load balancers to offer (SVC-2).
    pub fn new(
        context: ControllerContext,
        services: Cache<Service>,
        _cluster: Cluster,
        _options: &Options,
        _events: EventRecorder,
        _metrics: Arc<dyn ServiceMetrics>,
    ) -> Result<Self, ConstructionError> {
        context.require_load_balancers()?;
        Ok(Self { context, services })
    }

    /// Runs until `shutdown`: waits for both caches, then works off the queues (SVC-5).
    pub async fn run(
        self: Arc<Self>,
        _service_queue: Arc<dyn QueueMetrics>,
        _node_queue: Arc<dyn QueueMetrics>,
        shutdown: CancellationToken,
    ) {
        tokio::select! {
            _ = async { tokio::join!(self.services.wait_synced(), self.context.nodes.wait_synced()) } => {}
            () = shutdown.cancelled() => return,
        }
        shutdown.cancelled().await;
    }
}
