//! The conformance suite on a fake of Baidu AI Cloud, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod configuration;
mod contract;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod ownership;
mod profile;
mod takeover;
mod tenants;

use profile::BaiduCloud;

ccm_conformance::conformance!(BaiduCloud::default());
