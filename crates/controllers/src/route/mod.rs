//! node-route-controller: keeps the cloud's routes equal to the Nodes' Pod CIDRs (ROUTE-*).
//!
//! | question | where |
//! |---|---|
//! | what is to be deleted and created | [`plan`] |
//! | what may be deleted at all | [`responsibility`] |
//! | what the Node's condition says | [`condition`] |
//! | when to list | [`pace`], [`node_event`] |
//! | whether an empty list is believed | [`witness`] |
//! | what failed, or is contested | [`backoff`], [`flapping`] |

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
pub mod responsibility;
pub mod witness;
mod work;

pub use controller::RouteController;
pub use destination::Destination;
pub use metrics::{NoRouteMetrics, RouteMetrics, Standing};
