//! service-lb-controller: creates, updates and deletes load balancers for Services of type `LoadBalancer` (SVC-*).
//!
//! | decision | module |
//! |---|---|
//! | Services to handle, and the work of a sync | [`wants`] |
//! | changes of a Service that concern its load balancer | [`needs_update`] |
//! | Nodes that get traffic | [`targets`] |
//! | patches of a Service | [`patch`], and the condition that explains why it waits |
//! | retries | `retry` |
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
//! Calls for one Service never overlap, and a slow Service delays no others: the queue `service` and the internal
//! queue of Services whose targets changed have workers of their own, and a worker does not wait for a Service in work
//! but returns its key to the queue until that work ends.

mod cloud;
pub mod condition;
mod controller;
mod drift;
mod events;
mod ledger;
mod leftovers;
mod locks;
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
mod vanished;
pub mod wants;

pub use controller::ServiceController;
pub use metrics::{NoServiceMetrics, ServiceMetrics};
pub use targets::{Members, TargetSet};
pub use wants::Operation;
