//! The Kubernetes API server as the process sees it: clients, health, the time of its last answer, and the cluster that
//! it belongs to.

mod clients;
mod cluster;
mod contact;
mod health;
mod service_accounts;

pub use clients::Clients;
pub(crate) use clients::{ProviderClients, Wiring};
pub(crate) use cluster::{API_SERVER_TIMEOUT, read_cluster};
pub(crate) use contact::Contact;
pub(crate) use health::wait_until_healthy;
pub use service_accounts::{ServiceAccountClients, ServiceAccountError};
