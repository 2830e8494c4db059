//! cloud-node-lifecycle-controller: deletes Nodes whose instance does not exist, and taints Nodes whose instance is
//! shut down (LIFE-*).

mod cloud_calls;
mod controller;
pub mod guard;
mod metrics;
pub mod preview;
mod reported_causes;
pub mod verdict;
mod witnesses;

pub use cloud_calls::CloudOperation;
pub use controller::NodeLifecycleController;
pub use metrics::{LifecycleMetrics, NoLifecycleMetrics};
