//! persistent-volume-label-controller: PersistentVolumes of this cloud get the zone and region labels, and the node
//! affinity, that keep Pods near them (PROV-64, D-14).
//!
//! | decision | where |
//! |---|---|
//! | which volumes are looked at, and what they lack | [`plan`] |
//! | what the cloud's answer means | [`topology`] |
//! | the same when a volume is created | [`admission`] |

pub mod admission;
mod affinity;
mod ask;
mod controller;
mod judged;
pub mod plan;
pub mod topology;

pub use controller::VolumeLabelController;
