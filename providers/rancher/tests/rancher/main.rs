//! The conformance suite on a fake of Rancher's API, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod backends;
mod configuration;
mod harness;
mod load_balancers;
mod nodes;
mod profile;
mod takeover;

use profile::RancherCloud;

ccm_conformance::conformance!(RancherCloud::default());
