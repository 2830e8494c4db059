//! The layer that retries failed attempts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tower::service_fn;

use super::RetryPolicy;
use super::attempt::{Attempt, Sends};

/// The interval at which an API that does not answer is logged, because many calls fail in the same way.
const REPORTED_EVERY: Duration = Duration::from_secs(30);

pub(super) fn retry(inner: impl Sends, retry_policy: RetryPolicy) -> impl Sends {
    let silence = Arc::new(Silence::default());
    service_fn(move |attempt: Attempt| {
        let inner = inner.clone();
        let silence = Arc::clone(&silence);
        async move {
            let mut number = 1;
            loop {
                let failure = match inner.once(attempt.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                };
                let asked = failure.pause.or(failure.delay);
                let delay = asked.unwrap_or_else(|| retry_policy.backoff(number, fastrand::f64()));
                if number >= retry_policy.max_attempts
                    || !failure.may_repeat(&attempt.call)
                    || asked.is_some_and(|asked| asked > retry_policy.longest_pause)
                    || Instant::now() + delay >= attempt.give_up
                {
                    return Err(failure);
                }
                if failure.error.is_unanswered() && silence.take_due(Instant::now()) {
                    tracing::warn!(error = %failure.error, attempt = number, retry_in = ?delay, "the cloud does not answer");
                }
                // All calls wait for a pause before the next attempt.
                if failure.pause.is_none() {
                    tokio::time::sleep(delay).await;
                }
                number += 1;
            }
        }
    })
}

/// The time at which the log last reported that the API does not answer.
#[derive(Default)]
struct Silence(Mutex<Option<Instant>>);

impl Silence {
    /// Returns `true`, and stores the time, if the last report is long ago.
    fn take_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= REPORTED_EVERY);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
