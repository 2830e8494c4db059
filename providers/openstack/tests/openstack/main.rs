//! The provider of OpenStack, against services in this process.

mod annotations;
mod balancers;
mod config;
mod reference;
mod services;
mod wanted;
