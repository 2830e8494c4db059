//! The control loops of a cloud controller manager.
//!
//! Every decision is a pure function from observed state to intended changes, with a thin layer of I/O around it:
//!
//! | decision | module |
//! |---|---|
//! | initialization of a Node | [`node::plan`], from [`node::metadata`] |
//! | Nodes that the cloud cannot tell | [`node_identity`] |
//! | labels | [`node::labels`] |
//! | addresses | [`node::addresses`] |
//! | action on a Node that is not ready | [`lifecycle::verdict`] |
//! | deletion of a Node whose instance does not exist | [`lifecycle::guard`] |
//! | routes to delete and to create | [`route`] |
//! | taints | [`taints`] |
//! | Services to handle, and the work of a sync | [`service::wants`], [`service::needs_update`] |
//! | Nodes that are targets of load balancers | [`service::targets`] |
//! | patches of a Service | [`service::patch`] |
//!
//! A controller is created from a [`ControllerContext`] and [`Options`] and runs until it is cancelled. No controller
//! knows a cloud by name: providers implement [`cloud_provider::CloudProvider`].

mod context;
mod event_limiter;
mod event_reason;
mod failure_log;
mod grace;
pub mod lifecycle;
pub mod look_up;
pub mod node;
pub mod node_identity;
pub mod options;
mod read;
pub mod route;
pub mod service;
mod shared_ids;
pub mod taints;
pub mod volume;

pub use context::{ConstructionError, ControllerContext};
pub use event_reason::EventReason;
pub use lifecycle::NodeLifecycleController;
pub use node::NodeController;
pub use options::Options;
pub use route::RouteController;
pub use service::ServiceController;
pub use volume::VolumeLabelController;
