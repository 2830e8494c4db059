//! persistent-volume-label-controller: sets the zone and region labels and the node affinity of this cloud's
//! PersistentVolumes, so that Pods are scheduled near them (PROV-64, D-14).
//!
//! | decision | module |
//! |---|---|
//! | volumes to handle, and what they lack | [`plan`] |
//! | meaning of the cloud's answer | [`topology`] |
//! | creation of a volume | [`admission`] |

pub mod admission;
mod affinity;
mod controller;
mod finished_volumes;
mod lookup;
pub mod plan;
pub mod topology;

pub use controller::VolumeLabelController;
