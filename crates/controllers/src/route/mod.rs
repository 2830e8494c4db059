//! node-route-controller: keeps the cloud's routes equal to the Nodes' Pod CIDRs (ROUTE-*).
//!
//! | subject | module |
//! |---|---|
//! | routes to delete and to create | [`plan`] |
//! | routes that may be deleted | [`responsibility`] |
//! | condition of the Node | [`condition`] |
//! | times of lists | [`pace`], [`node_event`] |
//! | control read for an empty list | [`witness`] |
//! | failed and contested routes | [`backoff`], [`flapping`] |

pub mod backoff;
mod calls;
pub mod cluster_cidr;
pub mod condition;
mod controller;
mod destination;
pub mod flapping;
mod memory;
mod metrics;
mod next_hop;
pub mod node_event;
pub mod pace;
mod pass;
pub mod plan;
pub mod pod_cidrs;
pub mod responsibility;
pub mod witness;
mod work;

pub use controller::RouteController;
pub use destination::Destination;
pub use metrics::{NoRouteMetrics, RouteCounts, RouteMetrics, SyncOutcome, SyncTrigger};
