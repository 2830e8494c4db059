//! What every provider passes: the conformance suite on the fake of each cloud.
//!
//! Rules: PROV-30 to PROV-34, PROV-57 to PROV-59, P-19 to P-21.

/// The simulated cloud.
mod simulated {
    ccm_conformance::conformance!(ccm_tests::profiles::SimulatedCloud::default());
}

/// DigitalOcean.
mod digitalocean {
    ccm_conformance::conformance!(ccm_tests::profiles::DigitalOceanCloud::default());
}

/// Hetzner Cloud.
mod hetzner {
    ccm_conformance::conformance!(ccm_tests::profiles::HetznerCloud::default());
}

/// Google Cloud with external load balancers.
mod gcp_external {
    ccm_conformance::conformance!(ccm_tests::profiles::GcpCloud::default());
}

/// Google Cloud with internal load balancers.
mod gcp_internal {
    ccm_conformance::conformance!(ccm_tests::profiles::GcpCloud::internal());
}

/// OpenStack.
mod openstack {
    ccm_conformance::conformance!(ccm_tests::profiles::OpenStackCloud::default());
}

mod wrong_providers;
