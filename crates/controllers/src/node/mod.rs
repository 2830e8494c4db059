//! cloud-node-controller: gives each new Node its cloud identity, lifts the start-up taint, keeps addresses fresh and the
//! deprecated and stable label keys aligned (NODE-*).

mod address_pass;
pub mod addresses;
mod controller;
pub mod labels;
pub mod metadata;
mod metrics;
pub mod plan;
mod young;

pub use controller::NodeController;
pub use metrics::{NoNodeMetrics, NodeMetrics};
