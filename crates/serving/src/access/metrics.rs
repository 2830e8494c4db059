//! Metrics of authentication and authorization (MET-25).

use std::time::Duration;

use crate::server::Limit;

/// Result of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthenticationResult {
    /// The caller is known or anonymous.
    Success,
    /// Proof that is not accepted.
    Failure,
    /// The authentication could not be completed.
    Error,
}

impl AuthenticationResult {
    /// Returns the value of the label `result`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
        }
    }
}

/// Result of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorizationResult {
    /// The request is allowed.
    Allowed,
    /// The request is explicitly denied.
    Denied,
    /// No authorizer allowed the request.
    NoOpinion,
    /// The authorization could not be completed.
    Error,
}

impl AuthorizationResult {
    /// Returns the value of the label `result`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NoOpinion => "no-opinion",
            Self::Error => "error",
        }
    }
}

/// Result of a lookup in the token cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenCache {
    /// The cache has an answer for the token.
    Hit,
    /// The cache has no answer for the token.
    Miss,
}

impl TokenCache {
    /// Returns the value of the label `status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
        }
    }
}

/// A pending TokenReview, or a request that waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// The TokenReview request itself.
    InFlight,
    /// A request that waits for the review of another.
    Blocked,
}

impl Fetch {
    /// Returns the value of the label `status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Blocked => "blocked",
        }
    }
}

/// The hook for the metrics of callers. All methods do nothing by default.
pub trait AccessMetrics: Send + Sync {
    /// Counts an authentication and its duration: `authentication_attempts`, `authentication_duration_seconds`.
    fn authenticated(&self, _result: AuthenticationResult, _time: Duration) {}
    /// Counts `authenticated_user_requests`; the name is one of few ([`compressed_username`]).
    fn user_request(&self, _username: &'static str) {}
    /// Counts a lookup in the token cache and its duration: `authentication_token_cache_request_total`,
    /// `…_duration_seconds`.
    fn token_cache(&self, _status: TokenCache, _time: Duration) {}
    /// Counts `authentication_token_cache_fetch_total`: a review ended, with an answer or without.
    fn token_fetched(&self, _ok: bool) {}
    /// Changes the gauge `authentication_token_cache_active_fetch_count` by `_change`.
    fn token_fetches(&self, _status: Fetch, _change: i64) {}
    /// Counts an authorization and its duration: `authorization_attempts_total`, `authorization_duration_seconds`.
    fn authorized(&self, _result: AuthorizationResult, _time: Duration) {}
    /// Counts a TokenReview, retries included, in `apiserver_delegated_authn_request_total`, `…_duration_seconds`; the
    /// code is the HTTP status or `<error>`.
    fn token_reviewed(&self, _code: &str, _time: Duration) {}
    /// Counts a SubjectAccessReview in `apiserver_delegated_authz_request_total`, `…_duration_seconds`.
    fn access_reviewed(&self, _code: &str, _time: Duration) {}
    /// Records `apiserver_client_certificate_expiration_seconds`: the remaining validity of an accepted client
    /// certificate.
    fn client_certificate(&self, _remaining: Duration) {}
    /// Counts `ccm_server_limited_total`: a caller exceeded a limit.
    fn limited(&self, _limit: Limit) {}
}

/// An [`AccessMetrics`] that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAccessMetrics;

impl AccessMetrics for NoAccessMetrics {}

/// Returns a user's name as a label with few values (MET-25).
#[must_use]
pub fn compressed_username(name: &str) -> &'static str {
    match name {
        "admin" => "admin",
        "client" => "client",
        "kube_proxy" => "kube_proxy",
        "kubelet" => "kubelet",
        "system:serviceaccount:kube-system:default" => "system:serviceaccount:kube-system:default",
        email if email.contains('@') => "email_id",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_become_few_labels() {
        let table = [
            ("admin", "admin"),
            ("system:anonymous", "other"),
            ("jane@example.com", "email_id"),
            (
                "system:serviceaccount:kube-system:default",
                "system:serviceaccount:kube-system:default",
            ),
            ("system:serviceaccount:monitoring:prometheus", "other"),
        ];
        for (name, label) in table {
            assert_eq!(compressed_username(name), label, "{name}");
        }
    }
}
