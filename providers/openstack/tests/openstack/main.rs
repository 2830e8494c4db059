//! The provider of OpenStack, against services in this process.

mod annotations;
mod config;
mod reference;
mod services;
