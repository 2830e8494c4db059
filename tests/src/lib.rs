//! Shared parts of the whole-program tests of ccm-rs: the binary as a process, the simulated cloud on a port of its
//! own, recorded requests of one program to an API server, Services as users write them, and the [`profiles`] of the
//! clouds.
//!
//! Most tests that use it see the program from outside, as an operator does. Tests in one process and in virtual time use the
//! harness of [`ccm_conformance`]. [`zones`] and [`volume_size`] hold decisions of volume plugins that only the case files use.

pub mod api_requests;
pub mod binary;
pub mod controller;
pub mod door;
pub mod exposition;
pub mod in_process;
pub mod machines;
pub mod profiles;
pub mod real;
pub mod recording_proxy;
pub mod served_profile;
pub mod service_object;
pub mod usage;
pub mod volume_size;
pub mod wait;
pub mod zones;

/// Installs the TLS crypto provider of the process; later calls do nothing.
pub fn install_crypto() {
    // Fails only if one is installed already.
    _ = rustls::crypto::ring::default_provider().install_default();
}
