//! The API client: configuration, credentials, retries, rate limits and metrics.

mod address;
mod agent;
mod answer_size;
mod api_servers;
mod candidates;
mod config;
mod credential;
mod kubeconfig;
mod kubeconfigs;
mod layer;
mod plugin;
mod redacted_errors;
mod reloading;
mod request;
mod retry;
#[cfg(test)]
mod tests;
mod token_file;
mod unanswered;

pub use address::shown_url;
pub use agent::UserAgent;
pub use answer_size::{AnswerTooLarge, is_too_large};
pub use api_servers::{ApiServers, Attempt, NoApiServer};
pub use candidates::{ApiServerCandidates, DEFAULT_CANDIDATES};
pub use config::{ClientError, ClientOptions, DEFAULT_BURST, connect, connect_as};
pub use kubeconfig::{KubeconfigProblem, read_kubeconfig};
pub use kubeconfigs::Kubeconfigs;
pub use layer::{Limits, wrap};
pub use redacted_errors::redact;
pub use request::{NoRequestMetrics, RequestInfo, RequestMetrics, Verb};
