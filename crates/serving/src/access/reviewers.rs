//! Clients for reviews, with an identity of their own (APP-121).

use std::path::PathBuf;
use std::sync::Arc;

use kube::{Client, Config};
use runtime::client::{ClientError, ClientOptions, RequestMetrics};

use super::review::TIMEOUT;
use crate::options::{AuthenticationOptions, AuthorizationOptions};

/// Rate limit: requests per second, and burst (APP-40).
const RATE: (f32, u32) = (200.0, 400);

/// Clients for TokenReview and SubjectAccessReview; `None` without an identity to send them with: tokens are then
/// ignored, and only the always-allowed paths are open.
#[derive(Clone, Default)]
pub struct Reviewers {
    /// Client for TokenReview and the front proxy's ConfigMap.
    pub authentication: Option<Client>,
    /// Client for SubjectAccessReview requests.
    pub authorization: Option<Client>,
}

/// Error of a delegated kubeconfig: no client can be created.
#[derive(Debug, thiserror::Error)]
#[error("failed to get delegated {purpose} kubeconfig: {}: {problem}; check the file that --{purpose}-kubeconfig names", path.display())]
pub struct ReviewersError {
    purpose: &'static str,
    path: PathBuf,
    problem: String,
}

impl Reviewers {
    /// Creates clients with the given kubeconfigs, or the Pod's identity; never with that of `--kubeconfig`. The
    /// program's name, the kubeconfig watcher and the choice of an API server of the process's `options` are used. The clients have no fence: a
    /// standby sends reviews too (D-13). No request is sent yet.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used. No identity at all is a warning.
    pub async fn connect(
        authentication: &AuthenticationOptions,
        authorization: &AuthorizationOptions,
        options: &ClientOptions,
        metrics: Arc<dyn RequestMetrics>,
    ) -> Result<Self, ReviewersError> {
        let connect = |purpose, path| connect(purpose, path, options, Arc::clone(&metrics));
        let reviewers = Self {
            authentication: connect("authentication", authentication.kubeconfig.clone()).await?,
            authorization: connect("authorization", authorization.kubeconfig.clone()).await?,
        };
        reviewers.warn();
        Ok(reviewers)
    }

    fn warn(&self) {
        if self.authentication.is_none() {
            tracing::warn!(
                "No authentication-kubeconfig provided, and this is not a Pod: bearer tokens are ignored, and client \
                 certificates are accepted for --client-ca-file only; --kubeconfig is not used for this, give the same \
                 file as --authentication-kubeconfig"
            );
        }
        if self.authorization.is_none() {
            tracing::warn!(
                "No authorization-kubeconfig provided, and this is not a Pod: everything but the always-allowed paths is \
                 answered 403; --kubeconfig is not used for this, give the same file as --authorization-kubeconfig"
            );
        }
    }
}

async fn connect(
    purpose: &'static str,
    path: Option<PathBuf>,
    general: &ClientOptions,
    metrics: Arc<dyn RequestMetrics>,
) -> Result<Option<Client>, ReviewersError> {
    // Each review is retried by `review` instead.
    let options = ClientOptions {
        kubeconfig: path.clone(),
        kubeconfigs: general.kubeconfigs.clone(),
        api_servers: general.api_servers.clone(),
        user_agent: general.user_agent.clone(),
        qps: Some(RATE.0),
        burst: RATE.1,
        request_timeout: Some(TIMEOUT),
        single_attempt: true,
        ..ClientOptions::default()
    };
    if path.is_none() && !is_in_a_pod(purpose) {
        return Ok(None);
    }
    let path = path.unwrap_or_else(|| "the Pod's service account".into());
    let problem = match runtime::client::connect(&options, "", metrics).await {
        Ok(client) => return Ok(Some(client)),
        Err(ClientError::Kubeconfig { problem, .. }) => problem,
        Err(ClientError::Unusable { text, .. }) => text,
        Err(other) => other.to_string(),
    };
    Err(ReviewersError {
        purpose,
        path,
        problem,
    })
}

/// Returns `true` if this process has a Pod's identity.
fn is_in_a_pod(purpose: &str) -> bool {
    let problem = Config::incluster().err();
    if let Some(error) = &problem {
        tracing::debug!(%error, purpose, "not in a Pod");
    }
    problem.is_none()
}
