//! cloud-node-controller: initializes new Nodes with their cloud identity, removes the uninitialized taint, keeps
//! addresses up to date, and keeps deprecated and stable labels in line (NODE-*).

mod address_pass;
pub mod addresses;
mod controller;
pub mod labels;
mod limiter;
pub mod metadata;
mod metrics;
pub mod plan;
mod unidentified;
mod young;

pub use controller::NodeController;
pub use metrics::{NoNodeMetrics, NodeMetrics};
