//! The HTTPS endpoints of a Kubernetes component (APP §10 to §13).

pub mod access;
mod answer;
#[cfg(test)]
mod asking;
pub mod debug;
mod error;
pub mod health;
#[cfg(test)]
mod issuing;
pub mod options;
pub mod server;
pub mod tls;
pub mod watchdog;
pub mod webhook;

pub use answer::not_found;
pub use error::ServingError;
