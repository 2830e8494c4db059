//! What every provider passes: the conformance suite on the fake of each cloud.
//!
//! Rules: PROV-30 to PROV-34, PROV-57 to PROV-59, P-19 to P-21.

/// The simulated cloud.
mod simulated {
    ccm_conformance::conformance!(ccm_tests::profiles::SimulatedCloud::default());
}

/// AWS, with classic load balancers.
mod aws_classic {
    ccm_conformance::conformance!(ccm_tests::profiles::AwsCloud::classic());
}

/// AWS, with network load balancers.
mod aws_network {
    ccm_conformance::conformance!(ccm_tests::profiles::AwsCloud::network());
}

/// DigitalOcean.
mod digitalocean {
    ccm_conformance::conformance!(ccm_tests::profiles::DigitalOceanCloud::default());
}

/// Hetzner Cloud.
mod hetzner {
    ccm_conformance::conformance!(ccm_tests::profiles::HetznerCloud::default());
}

/// OpenStack.
mod openstack {
    ccm_conformance::conformance!(ccm_tests::profiles::OpenStackCloud::default());
}

mod wrong_providers;
