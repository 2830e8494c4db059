//! Authentication of requests (APP-120).

use std::sync::Arc;

use http::{HeaderMap, header};
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::time::Instant;

use super::client_cas::ClientCas;
use super::metrics::{AccessMetrics, AuthenticationResult, compressed_username};
use super::token::{Tokens, bearer};
use super::user::User;
use super::{certificate, front_proxy, log_limit};
use crate::log_limit::LogLimit;

pub(super) struct Authentication {
    client_cas: ClientCas,
    tokens: Option<Tokens>,
    log: LogLimit,
    metrics: Arc<dyn AccessMetrics>,
}

/// Error for a request whose credentials are invalid or could not be verified.
#[derive(Debug)]
pub(super) struct Unauthorized;

impl Authentication {
    pub(super) fn new(
        client_cas: ClientCas,
        tokens: Option<Tokens>,
        metrics: Arc<dyn AccessMetrics>,
    ) -> Self {
        Self {
            client_cas,
            tokens,
            log: log_limit(),
            metrics,
        }
    }

    /// Returns the user of a request by the front proxy's headers, the certificate or the token; anonymous without any
    /// of them. All credentials are removed from the headers, whether or not they were needed, so that no handler
    /// relies on them.
    ///
    /// # Errors The request has credentials, but none is valid. A request without credentials is anonymous instead.
    pub(super) async fn user(
        &self,
        certificates: &[CertificateDer<'_>],
        headers: &mut HeaderMap,
    ) -> Result<User, Unauthorized> {
        let begun = Instant::now();
        let found = self.find(certificates, headers, UnixTime::now()).await;
        headers.remove(header::AUTHORIZATION);
        if let Some(proxies) = &self.client_cas.trusted().proxies {
            front_proxy::strip(&proxies.headers, headers);
        }
        let (result, user) = match found {
            Ok(Some(user)) => (AuthenticationResult::Success, Ok(user.authenticated())),
            Ok(None) => (AuthenticationResult::Success, Ok(User::anonymous())),
            Err(Refusal { problem, result }) => {
                if let Some(suppressed) = self.log.admit() {
                    tracing::info!(problem, suppressed, "a caller could not be authenticated");
                }
                (result, Err(Unauthorized))
            }
        };
        self.metrics.authenticated(result, begun.elapsed());
        if let Ok(user) = &user {
            self.metrics.user_request(compressed_username(&user.name));
        }
        user
    }

    async fn find(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        now: UnixTime,
    ) -> Result<Option<User>, Refusal> {
        let mut refusal = None;
        match self.by_certificate(chain, headers, now) {
            Ok(Some(user)) => return Ok(Some(user)),
            Ok(None) => {}
            Err(problem) => {
                refusal = Some(Refusal {
                    problem,
                    result: AuthenticationResult::Failure,
                });
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer(headers)) {
            match tokens.user(token).await {
                Ok(Ok(user)) => return Ok(Some(User::clone(&user))),
                Ok(Err(reason)) => {
                    let problem = format!("the bearer token is not accepted: {reason}");
                    refusal = Some(Refusal {
                        problem,
                        result: AuthenticationResult::Failure,
                    });
                }
                Err(problem) => {
                    let problem = format!("the bearer token could not be checked: {problem}");
                    refusal = Some(Refusal {
                        problem,
                        result: AuthenticationResult::Error,
                    });
                }
            }
        }
        refusal.map_or(Ok(None), Err)
    }

    fn by_certificate(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        now: UnixTime,
    ) -> Result<Option<User>, String> {
        if chain.is_empty() {
            return Ok(None);
        }
        let trusted = self.client_cas.trusted();
        let mut problems = Vec::new();
        if let Some(proxies) = &trusted.proxies {
            match front_proxy::authenticate(proxies, chain, headers, now) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(error) => problems.push(format!(
                    "not accepted as a front proxy's certificate: {error}"
                )),
            }
        }
        if let Some(bundle) = &trusted.clients {
            match certificate::authenticate(bundle, chain, now) {
                Ok((user, remaining)) => {
                    self.metrics.client_certificate(remaining);
                    return Ok(Some(user));
                }
                Err(error) => problems.push(format!("client certificate: {error}")),
            }
        }
        // A certificate without an authority to verify it is ignored.
        if problems.is_empty() {
            Ok(None)
        } else {
            Err(problems.join("; "))
        }
    }
}

struct Refusal {
    problem: String,
    result: AuthenticationResult,
}
