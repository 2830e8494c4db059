//! The conformance suite on a fake of Linode's API, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod adoption;
mod configuration;
mod contract;
mod firewalls;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod profile;
mod takeover;

use profile::LinodeCloud;

ccm_conformance::conformance!(LinodeCloud::default());

mod with_routes {
    use crate::profile::LinodeCloud;

    ccm_conformance::conformance!(LinodeCloud::with_routes());
}
