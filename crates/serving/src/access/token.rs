//! Authentication by bearer token (APP-125).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;
use ring::{hmac, rand};
use tokio::time::Instant;

use super::hint::Hint;
use super::metrics::{AccessMetrics, Fetch, TokenCache};
use super::review::{PendingReviews, Reviewed, review};
use super::review_cache::{CachedReview, ReviewCache};
use super::user::User;
use crate::server::Limit;

/// Maximum number of cached results.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Longest token that is sent to the API server, in bytes. A service account's token has about 1 KiB, one of an
/// identity provider with many groups somewhat more.
const LONGEST: usize = 16 << 10;

/// Returns the token of a request, if it has one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .split_once(' ')?;
    let token = token
        .trim_start()
        .split(' ')
        .next()
        .filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// The user of a token, or why it is not accepted.
type TokenVerdict = Result<Arc<User>, Arc<str>>;
/// Verdict of the API server, or the reason for which there is none.
type Answer = Result<TokenVerdict, Arc<str>>;

/// Authenticator of bearer tokens by TokenReview, with a cache.
pub(super) struct Tokens {
    client: Client,
    ttl: Duration,
    /// Results by the HMAC of the token with a random key of this process, so that no token is kept in memory.
    answers: ReviewCache<[u8; 32], Answer>,
    key: hmac::Key,
    pending_reviews: PendingReviews,
    hint: Arc<Hint>,
    metrics: Arc<dyn AccessMetrics>,
}

impl Tokens {
    /// Creates the cache. `ttl` is the time for which answers are cached, whether the token was accepted or not; errors
    /// are not cached.
    pub(super) fn new(client: Client, ttl: Duration, metrics: Arc<dyn AccessMetrics>) -> Self {
        // Fails only without a source of randomness, in which case TLS does not work either, so a fixed key does no
        // harm.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())
            .unwrap_or_else(|_| hmac::Key::new(hmac::HMAC_SHA256, &[]));
        let answers = ReviewCache::new(CAPACITY);
        let pending_reviews = PendingReviews::default();
        Self {
            client,
            ttl,
            answers,
            key,
            pending_reviews,
            hint: Arc::default(),
            metrics,
        }
    }

    /// Returns the token's user, or the reason for which it is rejected.
    ///
    /// # Errors
    /// The API server did not answer the TokenReview.
    pub(super) async fn user(&self, token: &str) -> Answer {
        let begun = Instant::now();
        if token.len() > LONGEST {
            self.metrics.limited(Limit::TokenLength);
            return Ok(Err(Arc::from(format!(
                "it has {} bytes, more than {LONGEST}",
                token.len()
            ))));
        }
        let mut code = [0; 32];
        code.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        let ttl = self.ttl;
        let question = || {
            Some(
                self.pending_reviews
                    .permit(token.len())?
                    .hold(self.question(token)),
            )
        };
        let review = self
            .answers
            .review(code, question, move |answer| answer.is_ok().then_some(ttl));
        let gone = || Err(Arc::from("the TokenReview was given up"));
        let (status, answer) = match review {
            CachedReview::Cached(answer) => (TokenCache::Hit, answer),
            CachedReview::Full => {
                self.metrics.limited(Limit::Reviews);
                (
                    TokenCache::Miss,
                    Err(Arc::from("too many TokenReviews wait for an answer")),
                )
            }
            CachedReview::Started(pending) => {
                (TokenCache::Miss, pending.await.unwrap_or_else(|_| gone()))
            }
            CachedReview::Joined(pending) => {
                let _blocked = Active::new(&self.metrics, Fetch::Blocked);
                (TokenCache::Miss, pending.await.unwrap_or_else(|_| gone()))
            }
        };
        self.metrics.token_cache(status, begun.elapsed());
        answer
    }

    fn question(&self, token: &str) -> impl Future<Output = Answer> + Send + 'static {
        let client = self.client.clone();
        let metrics = Arc::clone(&self.metrics);
        let hint = Arc::clone(&self.hint);
        let spec = TokenReviewSpec {
            token: Some(token.to_owned()),
            audiences: None,
        };
        let question = TokenReview {
            spec,
            ..TokenReview::default()
        };
        async move {
            let _in_flight = Active::new(&metrics, Fetch::InFlight);
            let begun = Instant::now();
            let Reviewed {
                answer,
                code,
                is_forbidden,
            } = review(&client, &question).await;
            metrics.token_reviewed(&code, begun.elapsed());
            metrics.token_fetched(answer.is_ok());
            if hint.is_due(is_forbidden) {
                tracing::warn!(
                    "this component may not create tokenreviews.authentication.k8s.io: bearer tokens are answered 401; \
                     bind ClusterRole system:auth-delegator to its identity"
                );
            }
            answer.map(|review| user(review.status.unwrap_or_default()))
        }
    }
}

fn user(status: TokenReviewStatus) -> TokenVerdict {
    if status.authenticated != Some(true) {
        let reason = status.error.filter(|reason| !reason.is_empty());
        return Err(reason.map_or_else(|| "invalid bearer token".into(), Arc::from));
    }
    let info = status.user.unwrap_or_default();
    Ok(Arc::new(User {
        name: info.username.unwrap_or_default(),
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default(),
    }))
}

/// Counts a fetch in the gauge of active fetches until dropped.
struct Active {
    metrics: Arc<dyn AccessMetrics>,
    status: Fetch,
}

impl Active {
    fn new(metrics: &Arc<dyn AccessMetrics>, status: Fetch) -> Self {
        metrics.token_fetches(status, 1);
        Self {
            metrics: Arc::clone(metrics),
            status,
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.metrics.token_fetches(self.status, -1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_for_a_refused_token_is_kept_for_the_log() {
        let refused = |error: Option<&str>| {
            user(TokenReviewStatus {
                error: error.map(Into::into),
                ..Default::default()
            })
        };
        assert_eq!(
            (refused(None), refused(Some(""))),
            (Err("invalid bearer token".into()), refused(None))
        );
        let expired = "[invalid bearer token, service account token has expired]";
        assert_eq!(refused(Some(expired)), Err(expired.into()));
    }

    #[test]
    fn only_the_bearer_scheme_has_a_token() {
        let table = [
            ("Bearer abc", Some("abc")),
            ("bearer  abc", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ];
        for (value, token) in table {
            let headers = [(header::AUTHORIZATION, http::HeaderValue::from_static(value))]
                .into_iter()
                .collect();
            assert_eq!(bearer(&headers), token, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
