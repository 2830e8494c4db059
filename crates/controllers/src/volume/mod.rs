//! persistent-volume-label-controller: PersistentVolumes of this cloud get the zone and region labels, and the node
//! affinity, that keep Pods near them (PROV-64, D-14).

mod controller;

pub use controller::VolumeLabelController;
