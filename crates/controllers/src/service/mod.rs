//! service-lb-controller: creates, updates and deletes load balancers for Services of type `LoadBalancer` (SVC-*).
//!
//! | decision | where |
//! |---|---|
//! | which Services are ours, and what a sync does with one | [`wants`] |
//! | which changes of a Service concern its load balancer | [`needs_update`] |
//! | which Nodes get traffic | [`targets`] |
//! | what is written to a Service | [`patch`], and the condition that says why it waits |
//! | when it is tried again | `retry` |
//!
//! ```
//! use cloud_provider::{Node, Service};
//! use controllers::options::ServiceOptions;
//! use controllers::service::{Operation, TargetSet, patch};
//!
//! # fn main() -> Result<(), serde_json::Error> {
//! let service: Service =
//!     serde_json::from_str(r#"{"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer"}}"#)?;
//! assert_eq!(Operation::at_start(&service, &ServiceOptions::default()), Some(Operation::Ensure));
//! assert!(patch::add_finalizer(&service).is_some(), "one write before the cloud is touched");
//! assert!(TargetSet::eligible(&[Node::default().into()]).nodes.len() == 1);
//! # Ok(())
//! # }
//! ```
//!
//! Calls for one Service never overlap, and one that is slow holds up nobody else: the queue `service` and the internal
//! queue of Services whose targets moved have workers of their own, and a Service that is being worked on is not waited
//! for but comes again when that ends.

mod cloud;
pub mod condition;
mod controller;
mod drift;
mod events;
mod ledger;
mod leftovers;
mod metrics;
pub mod needs_update;
mod node_sync;
mod observers;
mod own_writes;
pub mod patch;
mod refused;
mod retry;
mod running;
mod settle;
mod sync;
pub mod targets;
mod turns;
mod vanished;
pub mod wants;

pub use controller::ServiceController;
pub use metrics::{NoServiceMetrics, ServiceMetrics};
pub use targets::{Members, TargetSet};
pub use wants::Operation;
