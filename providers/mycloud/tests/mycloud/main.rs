//! The conformance suite on a fake of mycloud, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod backends;
mod configuration;
mod fake;
mod harness;
mod listeners;
mod load_balancers;
mod nodes;
mod profile;

use profile::MycloudCloud;

ccm_conformance::conformance!(MycloudCloud::default());
