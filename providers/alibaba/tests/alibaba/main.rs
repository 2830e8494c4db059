//! The conformance suite on a fake of Alibaba Cloud's APIs, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod backends;
mod certificates;
mod configuration;
mod contract;
mod credentials;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod profile;
mod reused;
mod routes;
mod sharing;
mod source_ranges;
mod takeover;
mod tenants;

/// Services with classic load balancers (CLB).
mod classic {
    ccm_conformance::conformance!(crate::profile::AlibabaCloud::classic());
}

/// Services with network load balancers (NLB).
mod network {
    ccm_conformance::conformance!(crate::profile::AlibabaCloud::network());
}
