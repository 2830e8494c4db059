//! The layer in which calls wait for the request budget.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, Error};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::service_fn;

use super::attempt::{Attempt, Sends};
use super::budget::{Allowance, Number, Outcome, Ticket};
use super::failure::Failure;
use super::{Answer, Priority, RetryPolicy};

pub(super) fn throttle(
    inner: impl Sends,
    allowance: Allowance,
    retry_policy: RetryPolicy,
    metrics: Arc<dyn CloudMetrics>,
) -> impl Sends {
    let queue = Queue {
        allowance,
        waiting: BTreeMap::new(),
    };
    let budget_queue = Arc::new(BudgetQueue {
        queue: Mutex::new(queue),
        metrics,
    });
    service_fn(move |attempt: Attempt| {
        let inner = inner.clone();
        let budget_queue = Arc::clone(&budget_queue);
        async move {
            let sent = budget_queue
                .wait(&attempt, retry_policy.longest_pause)
                .await?;
            let outcome = inner.once(attempt).await;
            sent.finish(&outcome);
            outcome
        }
    })
}

struct BudgetQueue {
    queue: Mutex<Queue>,
    metrics: Arc<dyn CloudMetrics>,
}

struct Queue {
    allowance: Allowance,
    /// Handles to wake waiting calls. Only the first call is woken when the queue changes, and it wakes the next one
    /// when it leaves, so that a thousand waiting calls do not cause a million checks.
    waiting: BTreeMap<Ticket, Arc<Notify>>,
}

impl BudgetQueue {
    async fn wait(
        self: &Arc<Self>,
        attempt: &Attempt,
        longest: Duration,
    ) -> Result<SentRequest, Failure> {
        let position = QueuePosition::enter(self, attempt.call.priority);
        loop {
            let wait = {
                let mut queue = self.lock();
                let now = Instant::now();
                let wait = match queue.allowance.take(position.ticket, now) {
                    Ok(number) => {
                        return Ok(SentRequest {
                            budget_queue: Arc::clone(self),
                            number,
                            finished: false,
                        });
                    }
                    Err(wait) => wait,
                };
                let expected = queue.allowance.wait(position.ticket, now);
                if expected > longest || now + expected >= attempt.give_up {
                    return Err(Failure::not_sent(held_back(
                        attempt,
                        &queue.allowance,
                        expected,
                        now,
                    )));
                }
                wait.min(attempt.give_up.saturating_duration_since(now))
            };
            // After either of the two, the queue is checked again.
            let _ = tokio::time::timeout(wait, position.woken.notified()).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl Queue {
    fn wake_the_first(&self) {
        if let Some(woken) = self
            .allowance
            .first()
            .and_then(|ticket| self.waiting.get(&ticket))
        {
            woken.notify_one();
        }
    }
}

/// A position in the queue, until dropped.
struct QueuePosition<'a> {
    budget_queue: &'a BudgetQueue,
    ticket: Ticket,
    woken: Arc<Notify>,
}

impl<'a> QueuePosition<'a> {
    fn enter(budget_queue: &'a BudgetQueue, priority: Priority) -> Self {
        let mut queue = budget_queue.lock();
        let woken = Arc::new(Notify::new());
        let ticket = queue.allowance.enter(priority);
        queue.waiting.insert(ticket, Arc::clone(&woken));
        Self {
            budget_queue,
            ticket,
            woken,
        }
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let mut queue = self.budget_queue.lock();
        queue.allowance.leave(self.ticket);
        queue.waiting.remove(&self.ticket);
        queue.wake_the_first();
    }
}

/// A request that is counted; if dropped, its outcome is unknown.
struct SentRequest {
    budget_queue: Arc<BudgetQueue>,
    number: Number,
    finished: bool,
}

impl SentRequest {
    fn finish(mut self, outcome: &Result<Answer, Failure>) {
        self.finished = true;
        self.note(match outcome {
            Ok(answer) => Outcome::Answered(answer.report),
            Err(failure) if failure.is_throttled() => {
                failure
                    .pause
                    .into_iter()
                    .for_each(|pause| self.budget_queue.metrics.paused(pause));
                Outcome::Refused(failure.report, failure.pause)
            }
            Err(failure) if failure.status.is_some() => Outcome::Answered(failure.report),
            Err(failure) if failure.sent => Outcome::Unknown,
            Err(_) => Outcome::NotSent,
        });
    }

    fn note(&self, outcome: Outcome) {
        let mut queue = self.budget_queue.lock();
        queue.allowance.finish(self.number, outcome, Instant::now());
        queue.wake_the_first();
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if !self.finished {
            self.note(Outcome::Unknown);
        }
    }
}

fn held_back(attempt: &Attempt, allowance: &Allowance, expected: Duration, now: Instant) -> Error {
    let mut text = format!("{} was deferred: ", attempt.call.place());
    // Writing to a String cannot fail.
    let _ = match allowance.paused(now) {
        true => write!(
            text,
            "the cloud requested a pause that ends in {expected:.0?}"
        ),
        false => write!(
            text,
            "{}; it can be sent in {expected:.0?}",
            allowance.describe(attempt.call.priority, now)
        ),
    };
    Error::rate_limited(text, expected)
}
