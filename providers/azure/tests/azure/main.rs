//! Tests of the Azure provider on a fake of Azure Resource Manager. The conformance suite runs in `ccm-tests`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod addresses;
mod configuration;
mod contract;
mod harness;
mod load_balancers;
mod members;
mod neighbours;
mod nodes;
mod security;
mod shared_documents;
mod tags;
mod takeover;
