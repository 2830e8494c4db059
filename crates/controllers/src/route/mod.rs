//! node-route-controller: keeps the cloud's routes equal to the Nodes' Pod CIDRs (ROUTE-*).

pub mod cluster_cidr;
mod controller;
mod metrics;

pub use controller::RouteController;
pub use metrics::{NoRouteMetrics, RouteMetrics};
