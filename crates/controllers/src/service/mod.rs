//! service-lb-controller: creates, updates and deletes load balancers for Services of type `LoadBalancer` (SVC-*).

mod controller;
mod metrics;

pub use controller::ServiceController;
pub use metrics::{NoServiceMetrics, ServiceMetrics};
