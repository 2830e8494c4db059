//! Authorization of requests by path (APP-127).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Client;
use ring::digest;
use tokio::time::Instant;

use super::hint::Hint;
use super::log_limit;
use super::metrics::{AccessMetrics, AuthorizationResult};
use super::paths::Paths;
use super::review::{PendingReviews, Reviewed, review};
use super::review_cache::{CachedReview, ReviewCache};
use super::user::User;
use crate::log_limit::LogLimit;
use crate::options::AuthorizationOptions;
use crate::quote::shortened;
use crate::server::Limit;

/// Group whose members are authorized for every request.
const MASTERS: &str = "system:masters";
/// Maximum number of cached results.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(8192).unwrap();
/// Maximum size in bytes of a review whose result is cached.
const LARGEST: usize = 10_000;

/// Result of a SubjectAccessReview, or the reason for which it failed.
type Answer = Result<AuthorizationResult, Arc<str>>;

pub(super) struct Authorization {
    always_allow: Paths,
    client: Option<Client>,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    /// Cached answers by the SHA-256 of the question as JSON: anonymous callers choose paths, which must not fill the
    /// memory.
    answers: ReviewCache<[u8; 32], Answer>,
    hint: Arc<Hint>,
    pending_reviews: PendingReviews,
    log: LogLimit,
    metrics: Arc<dyn AccessMetrics>,
}

impl Authorization {
    pub(super) fn new(
        options: AuthorizationOptions,
        client: Option<Client>,
        metrics: Arc<dyn AccessMetrics>,
    ) -> Result<Self, String> {
        let AuthorizationOptions {
            always_allow_paths,
            allowed_ttl,
            denied_ttl,
            ..
        } = options;
        let always_allow = Paths::new(&always_allow_paths)?;
        let answers = ReviewCache::new(CAPACITY);
        let hint = Arc::default();
        let pending_reviews = PendingReviews::default();
        let log = log_limit();
        Ok(Self {
            always_allow,
            client,
            allowed_ttl,
            denied_ttl,
            answers,
            hint,
            pending_reviews,
            log,
            metrics,
        })
    }

    /// Returns `true` if `user` may `verb` this path.
    pub(super) async fn allows(&self, user: &User, verb: &str, path: &str) -> bool {
        let begun = Instant::now();
        let result = self.decide(user, verb, path).await;
        self.metrics.authorized(result, begun.elapsed());
        result == AuthorizationResult::Allowed
    }

    async fn decide(&self, user: &User, verb: &str, path: &str) -> AuthorizationResult {
        if user.is_in(MASTERS) || self.always_allow.allow(path) {
            return AuthorizationResult::Allowed;
        }
        let Some(client) = &self.client else {
            return AuthorizationResult::NoOpinion;
        };
        match self.review(client, spec(user, verb, path)).await {
            Ok(result) => result,
            Err(problem) => {
                if let Some(suppressed) = self.log.admit() {
                    let path = shortened(path);
                    tracing::warn!(%problem, %path, suppressed, "a caller's permission could not be checked");
                }
                AuthorizationResult::Error
            }
        }
    }

    async fn review(&self, client: &Client, spec: SubjectAccessReviewSpec) -> Answer {
        let key = serde_json::to_string(&spec).map_err(|error| Arc::from(error.to_string()))?;
        let full = || {
            self.metrics.limited(Limit::Reviews);
            Arc::from("too many SubjectAccessReviews wait for an answer")
        };
        let question = question(
            client.clone(),
            spec,
            Arc::clone(&self.hint),
            Arc::clone(&self.metrics),
        );
        if key.len() > LARGEST {
            let _permit = self.pending_reviews.permit(key.len()).ok_or_else(full)?;
            return question.await;
        }
        let allowed = self.allowed_ttl;
        let denied = self.denied_ttl;
        let ttl = move |answer: &Answer| match answer {
            Ok(AuthorizationResult::Allowed) => Some(allowed),
            Ok(_) => Some(denied),
            Err(_) => None,
        };
        let mut code = [0; 32];
        code.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
        match self.answers.review(
            code,
            || Some(self.pending_reviews.permit(key.len())?.hold(question)),
            ttl,
        ) {
            CachedReview::Cached(answer) => answer,
            CachedReview::Full => Err(full()),
            CachedReview::Started(pending) | CachedReview::Joined(pending) => pending
                .await
                .unwrap_or_else(|_| Err(Arc::from("the SubjectAccessReview was given up"))),
        }
    }
}

async fn question(
    client: Client,
    spec: SubjectAccessReviewSpec,
    hint: Arc<Hint>,
    metrics: Arc<dyn AccessMetrics>,
) -> Answer {
    let begun = Instant::now();
    let question = SubjectAccessReview {
        spec,
        ..SubjectAccessReview::default()
    };
    let Reviewed {
        answer,
        code,
        is_forbidden,
    } = review(&client, &question).await;
    metrics.access_reviewed(&code, begun.elapsed());
    if hint.is_due(is_forbidden) {
        tracing::warn!(
            "this component may not create subjectaccessreviews.authorization.k8s.io: everything but the always-allowed \
             paths is answered 403; bind ClusterRole system:auth-delegator to its identity"
        );
    }
    answer.map(|review| result(&review.status.unwrap_or_default()))
}

fn result(status: &SubjectAccessReviewStatus) -> AuthorizationResult {
    match (status.allowed, status.denied) {
        (_, Some(true)) => AuthorizationResult::Denied,
        (true, _) => AuthorizationResult::Allowed,
        (false, _) => AuthorizationResult::NoOpinion,
    }
}

fn spec(user: &User, verb: &str, path: &str) -> SubjectAccessReviewSpec {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    SubjectAccessReviewSpec {
        user: given(&user.name),
        uid: given(&user.uid),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        non_resource_attributes: Some(NonResourceAttributes {
            path: given(path),
            verb: given(verb),
        }),
        resource_attributes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_question_names_the_user_and_the_path() {
        let extra = [("scopes".to_owned(), vec!["a".to_owned()])].into();
        let jane = User {
            name: "jane".into(),
            uid: "17".into(),
            groups: vec!["ops".into()],
            extra,
        };
        let asked = serde_json::to_value(spec(&jane, "get", "/metrics")).unwrap();
        let expected = json!({
            "user": "jane", "uid": "17", "groups": ["ops"], "extra": {"scopes": ["a"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(asked, expected);
    }

    #[test]
    fn a_denial_goes_before_a_permission() {
        let status = |allowed, denied| SubjectAccessReviewStatus {
            allowed,
            denied,
            ..Default::default()
        };
        assert_eq!(result(&status(true, None)), AuthorizationResult::Allowed);
        assert_eq!(
            result(&status(true, Some(true))),
            AuthorizationResult::Denied
        );
        assert_eq!(
            result(&status(false, Some(true))),
            AuthorizationResult::Denied
        );
        assert_eq!(
            result(&status(false, Some(false))),
            AuthorizationResult::NoOpinion
        );
    }
}
