//! Sends TokenReviews and SubjectAccessReviews to the API server, with retries (APP-125, APP-127).

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use runtime::api_error::api_error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Time-out of one attempt, set in the client of [`Reviewers`](super::Reviewers).
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of attempts, the first included.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Maximum bytes of pending reviews (tokens, or paths and users). A review is in memory about four times (object, JSON,
/// request, retry), and continues after its caller has disconnected.
const MAX_PENDING_BYTES: u32 = 1 << 20;

/// Limit on the bytes of all pending reviews.
pub(super) struct PendingReviews(Arc<Semaphore>);

impl Default for PendingReviews {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_PENDING_BYTES as usize)))
    }
}

impl PendingReviews {
    /// Returns the permit for a question of so many bytes, if the limit allows it now.
    pub(super) fn permit(&self, bytes: usize) -> Option<Permit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.0)
            .try_acquire_many_owned(bytes)
            .ok()
            .map(Permit)
    }
}

/// Permit for the bytes of a review, released on drop.
pub(super) struct Permit(#[allow(dead_code, reason = "held")] OwnedSemaphorePermit);

impl Permit {
    /// Holds the permit until the review is answered.
    pub(super) async fn hold<F: Future>(self, question: F) -> F::Output {
        question.await
    }
}

/// Outcome of a review: the answer or an error, and the code for metrics.
pub(super) struct Reviewed<T> {
    pub(super) answer: Result<T, Arc<str>>,
    pub(super) code: String,
    /// If set, the reviewer itself is not permitted to send reviews.
    pub(super) is_forbidden: bool,
}

/// Creates a review object, by which the API server is queried, with retries.
pub(super) async fn review<K>(client: &Client, question: &K) -> Reviewed<K>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all_with(client.clone(), &());
    let mut tried = 0;
    loop {
        tried += 1;
        let error = match api.create(&PostParams::default(), question).await {
            Ok(answer) => {
                return Reviewed {
                    answer: Ok(answer),
                    code: "201".to_owned(),
                    is_forbidden: false,
                };
            }
            Err(error) => error,
        };
        if tried < TRIES && may_help(&error) {
            sleep(pause(tried, fastrand())).await;
            continue;
        }
        let (code, is_forbidden) = match &error {
            kube::Error::Api(status) => (status.code.to_string(), status.code == 403),
            _ => ("<error>".to_owned(), false),
        };
        return Reviewed {
            answer: Err(api_error(&error).to_string().into()),
            code,
            is_forbidden,
        };
    }
}

/// Returns the pause after `tried` attempts; `random` is from 0 to 1.
fn pause(tried: u32, random: f64) -> Duration {
    let exponent = i32::try_from(tried.saturating_sub(1)).unwrap_or(i32::MAX);
    FIRST_PAUSE.mul_f64(FACTOR.powi(exponent) * (1.0 + JITTER * random))
}

/// Returns a number from 0 to 1. It only spreads attempts, so the clock's last digits are random enough.
fn fastrand() -> f64 {
    f64::from(jiff::Timestamp::now().subsec_nanosecond() % 1000) / 1000.0
}

/// Returns `true` if a retry may succeed: after 429, 5xx and broken connections.
fn may_help(error: &kube::Error) -> bool {
    if let kube::Error::Api(status) = error {
        return status.code == 429 || status.code >= 500;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let kind = error.kind();
            return matches!(
                kind,
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            );
        }
        if error
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn tries_come_with_growing_pauses() {
        let pauses: Vec<_> = (1..5).map(|tried| pause(tried, 0.0).as_millis()).collect();
        assert_eq!(pauses, [500, 750, 1125, 1687]);
        assert_eq!(pause(1, 1.0), Duration::from_millis(600));
    }

    #[test]
    fn only_a_review_that_may_succeed_is_retried() {
        let api = |code| kube::Error::Api(Status::failure("", "").with_code(code).boxed());
        for (code, again) in [
            (429, true),
            (500, true),
            (503, true),
            (403, false),
            (404, false),
            (422, false),
        ] {
            assert_eq!(may_help(&api(code)), again, "{code}");
        }
        let io = |kind| kube::Error::Service(Box::new(io::Error::from(kind)));
        assert!(may_help(&io(io::ErrorKind::ConnectionReset)));
        assert!(!may_help(&io(io::ErrorKind::ConnectionRefused)));
    }
}
