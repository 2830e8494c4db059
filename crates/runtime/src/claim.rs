//! A key that is being worked on.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::queue::{Failure, Queue};
use crate::worker_permit::WorkerPermit;

/// A key that only this worker processes. It is returned to the queue when the claim ends: as a success, as a failure,
/// or, if it is dropped (a panic, a cancelled task), as a failure too.
///
/// Claims of one batch end one by one, so a slow key does not hold back the others (INV-6).
pub struct Claim<K: Eq + Hash + Clone> {
    queue: Queue<K>,
    key: K,
    end: ClaimEnd,
    permit: Arc<WorkerPermit>,
}

enum ClaimEnd {
    Success,
    Failure,
    Later(Duration),
    NoAction,
}

impl<K: Eq + Hash + Clone> Claim<K> {
    pub(crate) fn new(queue: Queue<K>, key: K) -> Self {
        Self::with_permit(Arc::default(), queue, key)
    }

    pub(crate) fn with_permit(permit: Arc<WorkerPermit>, queue: Queue<K>, key: K) -> Self {
        Self {
            queue,
            key,
            end: ClaimEnd::Failure,
            permit,
        }
    }

    /// Returns the claimed key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the worker permit under which the key is processed. A worker that only waits may
    /// [release](WorkerPermit::release) it meanwhile.
    pub fn permit(&self) -> Arc<WorkerPermit> {
        Arc::clone(&self.permit)
    }

    /// Reports success; the key's failures are reset.
    pub fn succeed(mut self) {
        self.end = ClaimEnd::Success;
    }

    /// Reports a failure; the key is retried after its back-off.
    pub fn fail(self) {}

    /// Reports a failure; the key is retried after its back-off. Returns the failure to log, unless the same cause of
    /// this key was returned a moment ago.
    pub fn fail_by(mut self, cause: &str) -> Option<Failure> {
        let retry_in = self.queue.add_rate_limited(self.key.clone());
        self.end = ClaimEnd::NoAction;
        self.queue.report(&self.key, cause, retry_in)
    }

    /// Retries after a delay like [`retry_after`](Self::retry_after), and returns the failure to log like
    /// [`fail_by`](Self::fail_by).
    pub fn retry_after_by(mut self, delay: Duration, cause: &str) -> Option<Failure> {
        self.end = ClaimEnd::Later(delay);
        self.queue.report(&self.key, cause, delay)
    }

    /// Retries the key after exactly this delay, which another system requested. Its failures are neither counted nor
    /// reset.
    pub fn retry_after(mut self, delay: Duration) {
        self.end = ClaimEnd::Later(delay);
    }

    /// Ends the claim without work, because another worker processes the same object; the caller ensures that the key
    /// is added again. Its failures are neither counted nor reset.
    pub fn release_unprocessed(mut self) {
        self.end = ClaimEnd::NoAction;
    }
}

impl<K: Eq + Hash + Clone> Drop for Claim<K> {
    fn drop(&mut self) {
        match self.end {
            ClaimEnd::Success => self.queue.forget(&self.key),
            ClaimEnd::Failure => _ = self.queue.add_rate_limited(self.key.clone()),
            ClaimEnd::Later(delay) => self.queue.add_after(self.key.clone(), delay),
            ClaimEnd::NoAction => {}
        }
        self.queue.done(&self.key);
    }
}

impl<K: Eq + Hash + Clone + fmt::Debug> fmt::Debug for Claim<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({:?})", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::RateLimiter;
    use crate::queue::NoMetrics;

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_is_dropped_is_a_failure_and_one_that_succeeds_forgets() {
        let queue = Queue::new("q", RateLimiter::standard(), Arc::new(NoMetrics));
        queue.add("a");
        let claim = |key| Claim::new(queue.clone(), key);
        for failures in 1..3 {
            drop(claim(queue.next().await.unwrap()));
            assert_eq!(queue.retries(&"a"), failures);
        }
        claim(queue.next().await.unwrap()).succeed();
        assert_eq!((queue.retries(&"a"), queue.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_failures_with_one_cause_are_one_line() {
        let queue = Queue::new("q", RateLimiter::standard(), Arc::new(NoMetrics));
        queue.add("a");
        let mut reports = Vec::new();
        for _ in 0..10 {
            reports.extend(Claim::new(queue.clone(), queue.next().await.unwrap()).fail_by("503"));
        }
        assert_eq!(
            reports,
            [Failure {
                attempt: 1,
                retry_in: Duration::from_millis(5)
            }]
        );
        let report = Claim::new(queue.clone(), queue.next().await.unwrap()).fail_by("quota");
        assert_eq!(
            report,
            Some(Failure {
                attempt: 11,
                retry_in: Duration::from_millis(5120)
            })
        );
        let later = Claim::new(queue.clone(), queue.next().await.unwrap())
            .retry_after_by(Duration::from_secs(7), "busy");
        assert_eq!(
            later,
            Some(Failure {
                attempt: 11,
                retry_in: Duration::from_secs(7)
            })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn claim_can_be_retried_at_a_given_time() {
        let queue = Queue::new("q", RateLimiter::standard(), Arc::new(NoMetrics));
        queue.add("a");
        let start = tokio::time::Instant::now();
        Claim::new(queue.clone(), queue.next().await.unwrap()).retry_after(Duration::from_secs(7));
        assert_eq!(queue.next().await, Some("a"));
        assert_eq!(
            (start.elapsed(), queue.retries(&"a")),
            (Duration::from_secs(7), 0)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn claim_that_is_released_unprocessed_changes_nothing() {
        let queue = Queue::new("q", RateLimiter::standard(), Arc::new(NoMetrics));
        queue.add("a");
        drop(Claim::new(queue.clone(), queue.next().await.unwrap()));
        Claim::new(queue.clone(), queue.next().await.unwrap()).release_unprocessed();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((queue.retries(&"a"), queue.len()), (1, 0));
    }
}
