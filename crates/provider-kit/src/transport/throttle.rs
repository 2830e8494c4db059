//! The layer in which calls wait for the request budget.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{CloudMetrics, Error};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::service_fn;

use super::attempt::{Attempt, Sends};
use super::budget::{Allowance, Number, Outcome, Ticket};
use super::failure::{Failure, Report};
use super::{Answer, Budget, Patience, Priority};

pub(super) fn throttle(
    inner: impl Sends,
    budget: Budget,
    patience: Patience,
    metrics: Arc<dyn CloudMetrics>,
) -> impl Sends {
    let queue = Queue { allowance: Allowance::new(budget), waiting: BTreeMap::new() };
    let turns = Arc::new(Turns { queue: Mutex::new(queue), metrics });
    service_fn(move |attempt: Attempt| {
        let (inner, turns) = (inner.clone(), Arc::clone(&turns));
        async move {
            let turn = turns.wait(&attempt, patience.longest_pause).await?;
            let outcome = inner.once(attempt).await;
            turn.finish(&outcome);
            outcome
        }
    })
}

struct Turns {
    queue: Mutex<Queue>,
    metrics: Arc<dyn CloudMetrics>,
}

struct Queue {
    allowance: Allowance,
    /// Handles to wake waiting calls. Only the first call is woken when the queue changes, and it wakes the next one
    /// when it leaves, so that a thousand waiting calls do not cause a million checks.
    waiting: BTreeMap<Ticket, Arc<Notify>>,
}

impl Turns {
    async fn wait(self: &Arc<Self>, attempt: &Attempt, longest: Duration) -> Result<Turn, Failure> {
        let place = Place::enter(self, attempt.call.priority);
        loop {
            let wait = {
                let (mut queue, now) = (self.lock(), Instant::now());
                let wait = match queue.allowance.take(place.ticket, now) {
                    Ok(number) => return Ok(Turn { turns: Arc::clone(self), number, finished: false }),
                    Err(wait) => wait,
                };
                let expected = queue.allowance.wait(place.ticket, now);
                if expected > longest || now + expected >= attempt.give_up {
                    return Err(Failure::not_sent(held_back(attempt, &queue.allowance, expected, now)));
                }
                wait.min(attempt.give_up.saturating_duration_since(now))
            };
            // After either of the two, the queue is checked again.
            let _ = tokio::time::timeout(wait, place.woken.notified()).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn wake_the_first(&self) {
        if let Some(woken) = self.allowance.first().and_then(|ticket| self.waiting.get(&ticket)) {
            woken.notify_one();
        }
    }
}

/// A position in the queue, until dropped.
struct Place<'a> {
    turns: &'a Turns,
    ticket: Ticket,
    woken: Arc<Notify>,
}

impl<'a> Place<'a> {
    fn enter(turns: &'a Turns, priority: Priority) -> Self {
        let (mut queue, woken) = (turns.lock(), Arc::new(Notify::new()));
        let ticket = queue.allowance.enter(priority);
        queue.waiting.insert(ticket, Arc::clone(&woken));
        Self { turns, ticket, woken }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.lock();
        queue.allowance.leave(self.ticket);
        queue.waiting.remove(&self.ticket);
        queue.wake_the_first();
    }
}

/// A request that is counted; if dropped, its outcome is unknown.
struct Turn {
    turns: Arc<Turns>,
    number: Number,
    finished: bool,
}

impl Turn {
    fn finish(mut self, outcome: &Result<Answer, Failure>) {
        self.finished = true;
        self.note(match outcome {
            Ok(answer) => Outcome::Answered(Report::read(&answer.headers)),
            Err(failure) if failure.is_throttled() => {
                failure.pause.into_iter().for_each(|pause| self.turns.metrics.paused(pause));
                Outcome::Refused(failure.report, failure.pause)
            }
            Err(failure) if failure.status.is_some() => Outcome::Answered(failure.report),
            Err(failure) if failure.sent => Outcome::Unknown,
            Err(_) => Outcome::NotSent,
        });
    }

    fn note(&self, outcome: Outcome) {
        let mut queue = self.turns.lock();
        queue.allowance.finish(self.number, outcome, Instant::now());
        queue.wake_the_first();
    }
}

impl Drop for Turn {
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
        true => write!(text, "the cloud requested a pause that ends in {expected:.0?}"),
        false => write!(text, "{}; it can be sent in {expected:.0?}", allowance.describe(attempt.call.priority, now)),
    };
    Error::rate_limited(text, expected)
}
