//! What the whole-program tests of ccm-rs share: the binary as a process, the simulated cloud on a port of its own, the
//! requests that one program sends to an API server, Nodes as kubelets register them, and Services as users write them.
//!
//! Nothing here decides anything about clusters: most tests that use it see the program from outside, as an operator does;
//! [`in_process`] is the whole world in one process, under virtual time. [`zones`] and [`volume_size`] hold decisions of
//! volume plugins that only the case files use.

pub mod api_requests;
pub mod binary;
pub mod breaches;
pub mod chaos;
pub mod cloud_under_test;
pub mod controller;
pub mod crash;
pub mod door;
pub mod end_state;
pub mod exposition;
pub mod faked_cloud;
pub mod gate;
pub mod hetzner_cloud;
pub mod in_process;
pub mod machines;
pub mod node_object;
pub mod observed_provider;
pub mod openstack_cloud;
pub mod predecessor;
pub mod proofs;
pub mod real;
pub mod recording_proxy;
pub mod scene;
pub mod service_object;
pub mod settled;
pub mod stage;
pub mod usage;
pub mod user;
pub mod virtual_time;
pub mod volume_size;
pub mod wait;
pub mod zones;

/// Installs the TLS crypto provider of the process; later calls do nothing.
pub fn install_crypto() {
    // Fails only if one is installed already.
    _ = rustls::crypto::ring::default_provider().install_default();
}
