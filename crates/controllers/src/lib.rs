//! The control loops of a cloud controller manager.
//!
//! Every decision is a pure function from observed state to intended change, every effect a thin shell around it:
//!
//! | decision | where |
//! |---|---|
//! | initialisation of a Node | [`node::plan`], from [`node::metadata`] |
//! | labels | [`node::labels`] |
//! | addresses | [`node::addresses`] |
//! | what becomes of a Node that is not ready | [`lifecycle::verdict`] |
//! | whether a Node that looks gone may be deleted | [`lifecycle::guard`] |
//! | which routes are deleted and created | [`route`] |
//! | taints | [`taints`] |
//! | which Services are ours, and what a sync does with one | [`service::wants`], [`service::needs_update`] |
//! | which Nodes load balancers send traffic to | [`service::targets`] |
//! | what is written to a Service | [`service::patch`] |
//!
//! A controller is made from a [`ControllerContext`] and [`Options`] and run until it is cancelled. It knows no cloud by
//! name: providers are behind [`cloud_provider::CloudProvider`].

mod context;
mod event_reason;
mod explain;
mod grace;
pub mod lifecycle;
pub mod look_up;
pub mod node;
pub mod options;
mod read;
pub mod route;
pub mod service;
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
