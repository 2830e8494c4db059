//! The provider on an API server: Services get addresses, whatever happens between two requests.

mod configuration;
mod crash;
mod data_plane;
mod harness;
mod lost_store;
mod races;
mod services;
