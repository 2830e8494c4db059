//! Who hears of what happens, for the metrics: one hook for each part of the program.

use std::sync::Arc;

use controllers::lifecycle::{LifecycleMetrics, NoLifecycleMetrics};
use controllers::node::{NoNodeMetrics, NodeMetrics};
use controllers::route::{NoRouteMetrics, RouteMetrics};
use controllers::service::{NoServiceMetrics, ServiceMetrics};
use runtime::client::{NoRequestMetrics, RequestMetrics};
use runtime::queue::{NoMetrics, QueueMetrics};

/// The hooks that controllers and clients are started with. Clones share everything.
#[derive(Clone)]
pub struct Hooks {
    /// Requests to the Kubernetes API, of every client.
    pub requests: Arc<dyn RequestMetrics>,
    /// Work queues.
    pub queues: Arc<dyn QueueMetrics>,
    /// cloud-node-controller.
    pub nodes: Arc<dyn NodeMetrics>,
    /// cloud-node-lifecycle-controller.
    pub lifecycle: Arc<dyn LifecycleMetrics>,
    /// service-lb-controller.
    pub services: Arc<dyn ServiceMetrics>,
    /// node-route-controller.
    pub routes: Arc<dyn RouteMetrics>,
}

impl Default for Hooks {
    /// Nobody listens.
    fn default() -> Self {
        Self {
            requests: Arc::new(NoRequestMetrics),
            queues: Arc::new(NoMetrics),
            nodes: Arc::new(NoNodeMetrics),
            lifecycle: Arc::new(NoLifecycleMetrics),
            services: Arc::new(NoServiceMetrics),
            routes: Arc::new(NoRouteMetrics),
        }
    }
}
