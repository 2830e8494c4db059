//! Authentication and authorization of callers (APP-106, APP-120 to APP-128).
//!
//! A caller is authenticated by a front proxy's headers, a client certificate or a bearer token, and is anonymous
//! otherwise; then the caller needs a permission for the path. Tokens are verified by TokenReview and permissions by
//! SubjectAccessReview; the answers are cached.

mod authentication;
mod authorization;
mod ca_bundle;
mod ca_reloader;
mod certificate;
mod client_cas;
mod front_proxy;
mod guard;
mod hint;
pub mod lookup;
mod metrics;
mod paths;
mod review;
mod review_cache;
mod reviewers;
#[cfg(test)]
mod tests;
mod token;
mod user;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio_util::sync::CancellationToken;

pub use client_cas::ClientCas;
pub use metrics::{
    AccessMetrics, AuthenticationResult, AuthorizationResult, Fetch, NoAccessMetrics, TokenCache,
    compressed_username,
};
pub use paths::{check_always_allow_paths, is_always_allowed};
pub use reviewers::{Reviewers, ReviewersError};
pub use user::User;

use crate::log_limit::LogLimit;
use crate::options::{AuthenticationOptions, AuthorizationOptions};
use authentication::Authentication;
use authorization::Authorization;
use ca_reloader::CaReloader;
use lookup::LookupError;

/// Returns the limit for log lines about callers: any client that reaches the port can cause them.
fn log_limit() -> LogLimit {
    LogLimit::new(10, Duration::from_secs(10))
}

/// Authentication and authorization of callers; clones share everything.
///
/// ```no_run
/// # async fn example(router: axum::Router, listener: serving::server::Listener) -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use serving::access::{Access, NoAccessMetrics, Reviewers};
/// use serving::options::{AuthenticationOptions, AuthorizationOptions};
/// use tokio_util::sync::CancellationToken;
///
/// let (authentication, authorization) = (AuthenticationOptions::default(), AuthorizationOptions::default());
/// let reviewers = Reviewers::connect(&authentication, &authorization, &Default::default(), Arc::new(runtime::client::NoRequestMetrics)).await?;
/// let access = Access::new(authentication, authorization, reviewers, Arc::new(NoAccessMetrics))?;
/// let shutdown = CancellationToken::new();
/// access.look_up(&shutdown).await?; // APP-8
/// tokio::spawn(access.clone().reload_cas(shutdown.clone()));
/// let router = access.guard(router);
/// listener.with_client_cas(access.client_cas()).serve(router, shutdown).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    authentication: Authentication,
    authorization: Authorization,
    ca_reloader: CaReloader,
}

/// Error of setting up authentication and authorization.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A CA file cannot be loaded.
    #[error("unable to load {what} provider: {}: {problem}; check the file that {flag} names", path.display())]
    Authority {
        /// The use of the certificates: client CA or request-header client CA.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The read or parse error.
        problem: String,
        /// Flag that names the file.
        flag: &'static str,
    },
    /// `--authorization-always-allow-paths` has an invalid path.
    #[error("{0}")]
    Paths(String),
}

impl Access {
    /// Reads the CA files. No request is sent to the Kubernetes API yet.
    ///
    /// # Errors
    /// A CA file that cannot be used, or a path with a `*` in its middle.
    pub fn new(
        authentication: AuthenticationOptions,
        authorization: AuthorizationOptions,
        reviewers: Reviewers,
        metrics: Arc<dyn AccessMetrics>,
    ) -> Result<Self, AccessError> {
        let client_cas = ClientCas::default();
        let ttl = authentication.token_cache_ttl;
        let ca_reloader = CaReloader::new(
            authentication,
            reviewers.authentication.clone(),
            client_cas.clone(),
        )?;
        let tokens = reviewers
            .authentication
            .map(|client| token::Tokens::new(client, ttl, Arc::clone(&metrics)));
        let authentication = Authentication::new(client_cas, tokens, Arc::clone(&metrics));
        let authorization = Authorization::new(authorization, reviewers.authorization, metrics)
            .map_err(AccessError::Paths)?;
        Ok(Self(Arc::new(Inner {
            authentication,
            authorization,
            ca_reloader,
        })))
    }

    /// Reads ConfigMap `kube-system/extension-apiserver-authentication` as the options require (APP-8, APP-122, D-15).
    ///
    /// # Errors
    /// Reading the ConfigMap is forbidden, or the API server was not reached within 2 minutes, and neither is
    /// tolerated.
    pub async fn look_up(&self, shutdown: &CancellationToken) -> Result<(), LookupError> {
        self.0.ca_reloader.look_up(shutdown).await
    }

    /// Watches the ConfigMap, and reloads the CA files every 10 seconds (APP-114), until `shutdown`.
    pub async fn reload_cas(self, shutdown: CancellationToken) {
        self.0.ca_reloader.run(shutdown).await;
    }

    /// Returns the current CAs for client certificates, for
    /// [`Listener::with_client_cas`](crate::server::Listener).
    #[must_use]
    pub fn client_cas(&self) -> ClientCas {
        self.0.ca_reloader.client_cas()
    }

    /// Returns `router` behind authentication and authorization, which cover its fallback too. Unauthenticated requests
    /// are answered 401, unauthorized ones 403; authorized requests to unknown paths are answered 404 (APP-104).
    /// Handlers find the [`User`] in the request's extensions.
    pub fn guard(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), guard::guard))
    }
}
