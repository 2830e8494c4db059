//! The conformance suite on a fake of Oracle Cloud's APIs, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod configuration;
mod contract;
mod harness;
mod load_balancers;
mod nodes;
mod principals;
mod profile;
mod takeover;

/// The conformance suite with load balancers.
mod load_balancer {
    use crate::profile::OciCloud;

    ccm_conformance::conformance!(OciCloud::default());
}

/// The conformance suite with load balancers in network security groups.
mod security_groups {
    use crate::profile::OciCloud;

    ccm_conformance::conformance!(OciCloud::groups());
}

/// The conformance suite with network load balancers.
mod network_load_balancer {
    use crate::profile::OciCloud;

    ccm_conformance::conformance!(OciCloud::network());
}
