//! Work queue of keys, like client-go's: each key is queued at most once and processed by one worker at a time, with
//! delays and back-off.
//!
//! The semantics are those of client-go's rate-limiting work queue (RT-1 … RT-6), plus taking many ready keys at once
//! ([`Queue::next_batch`]): a controller that queries a cloud takes a burst of Nodes together and pays for pages, not
//! Nodes.

mod failures;
mod metrics;
mod state;
#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limiter::RateLimiter;
pub use failures::Failure;
use failures::Reports;
pub use metrics::{NoMetrics, QueueMetrics};
use state::{Added, QueueState};

/// A work queue. Clones are handles to the same queue.
///
/// A worker takes a key with [`next`](Self::next) or [`next_batch`](Self::next_batch) and returns it with
/// [`done`](Self::done), after success and failure alike; until then no other worker receives it. After a success the
/// worker also calls [`forget`](Self::forget), after a failure [`add_rate_limited`](Self::add_rate_limited).
/// [`workers`](crate::workers) does all of this.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::Arc;
/// use runtime::{limiter::RateLimiter, queue::{NoMetrics, Queue}};
///
/// let queue = Queue::new("Nodes", RateLimiter::standard(), Arc::new(NoMetrics));
/// queue.add("a");
/// queue.add("b");
/// queue.add("a");
/// assert_eq!(queue.next().await, Some("a"));
/// queue.add("a"); // while it is worked on: once more afterwards
/// assert_eq!(queue.next_batch(10).await, Some(vec!["b"]));
/// queue.done(&"a");
/// assert_eq!(queue.next().await, Some("a"));
/// # }
/// ```
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    name: String,
    metrics: Arc<dyn QueueMetrics>,
    inner: Mutex<Inner<K>>,
    /// A key may have become ready, or the first due time may have moved.
    changed: Notify,
    /// The work on a key ended.
    finished: Notify,
}

struct Inner<K> {
    state: QueueState<K>,
    limiter: RateLimiter<K>,
    reports: Reports<K>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> std::fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Clone> Queue<K> {
    /// Creates an empty queue. `name` is the label of its metrics, `limiter` decides about
    /// [`add_rate_limited`](Self::add_rate_limited).
    pub fn new(
        name: impl Into<String>,
        limiter: RateLimiter<K>,
        metrics: Arc<dyn QueueMetrics>,
    ) -> Self {
        let name = name.into();
        metrics.created(&name);
        let inner = Mutex::new(Inner {
            state: QueueState::new(),
            limiter,
            reports: Reports::default(),
        });
        Self {
            shared: Arc::new(Shared {
                name,
                metrics,
                inner,
                changed: Notify::new(),
                finished: Notify::new(),
            }),
        }
    }

    /// Returns the name given at its creation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Adds a key that is ready now. Nothing happens if it is ready already; if it is being worked on, it becomes
    /// ready again when that ends. A delayed add of the same key stays (RT-2).
    pub fn add(&self, key: K) {
        let now = Instant::now();
        let mut inner = self.lock();
        let mut added = inner.state.promote(now);
        added.0 += inner.state.add(key, now).0;
        self.note(&inner, added);
    }

    /// Adds a key that becomes ready after `delay`; the earlier time wins if it waits already (RT-2).
    pub fn add_after(&self, key: K, delay: Duration) {
        let now = Instant::now();
        let mut inner = self.lock();
        if !inner.state.is_shut_down() {
            self.add_delayed(&mut inner, key, now, delay);
        }
    }

    /// Adds a key after the delay that the rate limiter demands, and counts it as a failure of the key. Returns the
    /// delay.
    pub fn add_rate_limited(&self, key: K) -> Duration {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.state.is_shut_down() {
            return Duration::ZERO;
        }
        let delay = inner.limiter.delay(now, &key);
        self.add_delayed(&mut inner, key, now, delay);
        delay
    }

    /// Returns the failure of a key that is worked on again after `retry_in`, unless the same cause was reported a
    /// moment ago.
    pub(crate) fn report(&self, key: &K, cause: &str, retry_in: Duration) -> Option<Failure> {
        let mut inner = self.lock();
        let attempt = inner.limiter.failures(key).max(1);
        inner
            .reports
            .take_due(key, cause, Instant::now())
            .then_some(Failure { attempt, retry_in })
    }

    fn add_delayed(
        &self,
        inner: &mut MutexGuard<'_, Inner<K>>,
        key: K,
        now: Instant,
        delay: Duration,
    ) {
        self.shared.metrics.retried(&self.shared.name);
        let mut added = inner.state.promote(now);
        match now.checked_add(delay) {
            _ if delay.is_zero() => added.0 += inner.state.add(key, now).0,
            Some(at) => {
                inner.state.add_at(key, at);
                // A worker may sleep beyond the new due time.
                self.shared.changed.notify_one();
            }
            None => tracing::error!(
                queue = self.name(),
                ?delay,
                "delay is too long, key not added"
            ),
        }
        self.note(inner, added);
    }

    /// Resets the failures of a key after a success. The key stays in the queue.
    pub fn forget(&self, key: &K) {
        let mut inner = self.lock();
        inner.limiter.forget(key);
        inner.reports.forget(key);
    }

    /// Failures of a key since it was last forgotten.
    #[must_use]
    pub fn retries(&self, key: &K) -> u32 {
        self.lock().limiter.failures(key)
    }

    /// Returns the number of ready keys. Waiting keys count once they are due; running ones if they were added again.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut inner = self.lock();
        let added = inner.state.promote(Instant::now());
        self.note(&inner, added);
        inner.state.depth()
    }

    /// Returns `true` if no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the queue was shut down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.lock().state.is_shut_down()
    }

    /// Returns the next ready key; waits for one. Returns `None` once the queue is shut down and empty. Cancel-safe.
    pub async fn next(&self) -> Option<K> {
        self.next_batch(1).await?.pop()
    }

    /// Waits until a key is ready, without taking the key. Returns `false` once the queue is shut down and empty.
    /// Cancel-safe.
    pub async fn is_ready(&self) -> bool {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let due = {
                let mut inner = self.lock();
                let added = inner.state.promote(Instant::now());
                self.note(&inner, added);
                match (inner.state.ready() > 0, inner.state.is_shut_down()) {
                    (true, _) => return true,
                    (false, true) => return false,
                    (false, false) => inner.state.next_due(),
                }
            };
            until_changed(changed, due).await;
        }
    }

    /// Returns the ready keys in order, at least one and at most `max`; waits for the first. Returns `None` once the
    /// queue is shut down and empty. Cancel-safe.
    pub async fn next_batch(&self, max: usize) -> Option<Vec<K>> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Registered before looking, so that nothing falls between.
            changed.as_mut().enable();
            let due = match self.try_take(max.max(1)) {
                Taken::Keys(keys) => return Some(keys),
                Taken::Closed => return None,
                Taken::Nothing { next_due } => next_due,
            };
            until_changed(changed, due).await;
        }
    }

    fn try_take(&self, max: usize) -> Taken<K> {
        let now = Instant::now();
        let name = &self.shared.name;
        let metrics = &self.shared.metrics;
        let mut inner = self.lock();
        let added = inner.state.promote(now);
        let mut keys = Vec::with_capacity(max.min(inner.state.ready()));
        while keys.len() < max
            && let Some((key, waited)) = inner.state.take(now)
        {
            metrics.waited(name, waited);
            keys.push(key);
        }
        if added.0 > 0 {
            metrics.added(name, added.0);
        }
        if keys.is_empty() {
            return match inner.state.is_shut_down() {
                true => Taken::Closed,
                false => Taken::Nothing {
                    next_due: inner.state.next_due(),
                },
            };
        }
        metrics.depth(name, inner.state.depth());
        if inner.state.ready() > 0 || inner.state.next_due().is_some() {
            // Another worker takes over the rest, or the watch over the next due time.
            self.shared.changed.notify_one();
        }
        Taken::Keys(keys)
    }

    /// Ends the work on a key. If it was added meanwhile it is ready again.
    pub fn done(&self, key: &K) {
        let now = Instant::now();
        let mut inner = self.lock();
        let added = inner.state.promote(now);
        if let Some(took) = inner.state.done(key, now) {
            self.shared.metrics.worked(&self.shared.name, took);
        }
        self.note(&inner, added);
        self.shared.finished.notify_waiters();
    }

    /// Stops accepting keys. Waiting keys are dropped, ready keys are still handed out, then workers receive the end.
    pub fn shut_down(&self) {
        self.lock().state.shut_down();
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    /// Stops accepting keys and drops all keys that are not in progress: workers end with their current key (RT-6).
    pub fn shut_down_now(&self) {
        let mut inner = self.lock();
        inner.state.shut_down();
        inner.state.discard();
        self.shared.metrics.depth(&self.shared.name, 0);
        drop(inner);
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
        self.shared.finished.notify_waiters();
    }

    /// Stops accepting keys and returns when all that were ready have been worked on.
    pub async fn shut_down_with_drain(&self) {
        self.shut_down();
        loop {
            let mut finished = pin!(self.shared.finished.notified());
            finished.as_mut().enable();
            {
                let inner = self.lock();
                if inner.state.running() == 0 && inner.state.depth() == 0 {
                    return;
                }
            }
            finished.await;
        }
    }

    /// Reports the ages of the keys in progress to the metrics. Workers call this twice a second.
    pub fn report_running(&self) {
        let inner = self.lock();
        let (sum, max) = inner.state.running_ages(Instant::now());
        self.shared.metrics.unfinished_work(&self.shared.name, sum);
        self.shared.metrics.longest_running(&self.shared.name, max);
    }

    /// Updates metrics and wakes workers after a change.
    fn note(&self, inner: &MutexGuard<'_, Inner<K>>, added: Added) {
        if added.0 > 0 {
            self.shared.metrics.added(&self.shared.name, added.0);
            self.shared
                .metrics
                .depth(&self.shared.name, inner.state.depth());
        }
        if inner.state.ready() > 0 {
            self.shared.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.shared.inner.lock()
    }
}

/// Waits for the notice of a change, or for the first key to fall due.
async fn until_changed(changed: impl Future<Output = ()>, due: Option<Instant>) {
    match due {
        Some(at) => tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(at) => {}
        },
        None => changed.await,
    }
}

enum Taken<K> {
    Keys(Vec<K>),
    Nothing { next_due: Option<Instant> },
    Closed,
}
