//! HTTPS endpoints of a Kubernetes component: listeners, authentication, authorization, and health (APP-95 to APP-143).
//!
//! | module | content |
//! |---|---|
//! | [`server`] | a port with TLS, limits against slow and abusive clients, and a graceful shutdown |
//! | [`tls`] | versions, cipher suites and curves as flags write them; certificates and their reload |
//! | [`access`] | authentication (front proxy, certificate, token, anonymous) and authorization, as a layer over all routes |
//! | [`health`] | named checks: `/healthz`, `/livez`, `/readyz`, and their results so far |
//! | [`webhook`] | admission webhooks |
//! | [`debug`] | CPU profiles, and the verbosity of the log |
//! | [`options`] | options of servers, authentication and authorization |
//!
//! Metrics are reported to hooks ([`access::AccessMetrics`], [`webhook::WebhookMetrics`]); this crate depends on no
//! metrics library and no flags.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use serving::access::{Access, NoAccessMetrics, Reviewers};
//! use serving::health::Health;
//! use serving::options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
//! use serving::server::Listener;
//! use tokio_util::sync::CancellationToken;
//!
//! let listener = Listener::bind(&ServingOptions { port: 0, ..ServingOptions::default() })?;
//! // Without reviewers, only the always-allowed paths are open.
//! let (who, what) = (AuthenticationOptions::default(), AuthorizationOptions::default());
//! let access = Access::new(who, what, Reviewers::default(), Arc::new(NoAccessMetrics))?;
//! let routes = access.guard(Health::new().routes().fallback(serving::not_found));
//! let shutdown = CancellationToken::new();
//! # shutdown.cancel();
//! listener.with_client_cas(access.client_cas()).serve(routes, shutdown).await;
//! # Ok(())
//! # }
//! ```

pub mod access;
mod answer;
pub mod debug;
mod error;
pub mod health;
#[cfg(test)]
mod issuing;
mod log_limit;
pub mod options;
mod quote;
pub mod server;
#[cfg(test)]
mod test_requests;
pub mod tls;
pub mod webhook;

pub use answer::not_found;
pub use error::ServingError;
