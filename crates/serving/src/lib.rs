//! The HTTPS endpoints of a Kubernetes component (APP §10 to §13).

pub mod access;
mod answer;
pub mod debug;
mod error;
pub mod health;
pub mod options;
pub mod server;
pub mod tls;
pub mod watchdog;
pub mod webhook;

pub use answer::not_found;
pub use error::ServingError;
