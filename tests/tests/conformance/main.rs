//! Conformance suite of every provider, on the fake of each cloud.
//!
//! Rules: PROV-30 to PROV-34, PROV-57 to PROV-59, P-19 to P-21.

/// Conformance of the simulated cloud.
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

/// Azure, with pools of the addresses of standalone machines.
mod azure_addresses {
    ccm_conformance::conformance!(ccm_tests::profiles::AzureCloud::new(
        ccm_tests::profiles::AzurePools::Addresses
    ));
}

/// Azure, with pools of the network interfaces of a uniform scale set.
mod azure_scale_set {
    ccm_conformance::conformance!(ccm_tests::profiles::AzureCloud::new(
        ccm_tests::profiles::AzurePools::ScaleSet
    ));
}

/// Conformance of the DigitalOcean provider.
mod digitalocean {
    ccm_conformance::conformance!(ccm_tests::profiles::DigitalOceanCloud::default());
}

/// Conformance of the Hetzner provider.
mod hetzner {
    ccm_conformance::conformance!(ccm_tests::profiles::HetznerCloud::default());
}

/// Conformance of the Google Cloud provider with external load balancers.
mod gcp_external {
    ccm_conformance::conformance!(ccm_tests::profiles::GcpCloud::default());
}

/// Conformance of the Google Cloud provider with internal load balancers.
mod gcp_internal {
    ccm_conformance::conformance!(ccm_tests::profiles::GcpCloud::internal());
}

/// Conformance of the OpenStack provider.
mod openstack {
    ccm_conformance::conformance!(ccm_tests::profiles::OpenStackCloud::default());
}

mod wrong_providers;
