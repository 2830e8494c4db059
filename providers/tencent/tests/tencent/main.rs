//! The conformance suite on a fake of Tencent Cloud's API 3.0, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod accounts;
mod classic;
mod configuration;
mod contract;
mod existing;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod profile;
mod source_ranges;
mod takeover;
mod targets;
mod tenants;

use profile::TencentCloud;

ccm_conformance::conformance!(TencentCloud::default());
