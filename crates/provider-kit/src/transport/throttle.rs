//! The layer in which calls wait for their turn.

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
use super::{Answer, Budget, Patience};

pub(super) fn throttle(
    inner: impl Sends,
    budget: Budget,
    patience: Patience,
    metrics: Arc<dyn CloudMetrics>,
) -> impl Sends {
    let turns = Arc::new(Turns { allowance: Mutex::new(Allowance::new(budget)), changed: Notify::new(), metrics });
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
    allowance: Mutex<Allowance>,
    changed: Notify,
    metrics: Arc<dyn CloudMetrics>,
}

impl Turns {
    async fn wait(self: &Arc<Self>, attempt: &Attempt, longest: Duration) -> Result<Turn, Failure> {
        let place = Place { turns: self, ticket: self.lock().enter(attempt.call.priority) };
        loop {
            let changed = self.changed.notified();
            let wait = {
                let (mut allowance, now) = (self.lock(), Instant::now());
                let wait = match allowance.take(place.ticket, now) {
                    Ok(number) => return Ok(Turn { turns: Arc::clone(self), number, finished: false }),
                    Err(wait) => wait,
                };
                let expected = allowance.wait(place.ticket, now);
                if expected > longest || now + expected >= attempt.give_up {
                    return Err(Failure::not_sent(held_back(attempt, &allowance, expected, now)));
                }
                wait.min(attempt.give_up.saturating_duration_since(now))
            };
            // Whichever comes first: it is looked at again.
            let _ = tokio::time::timeout(wait, changed).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Allowance> {
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In the queue, until dropped.
struct Place<'a> {
    turns: &'a Turns,
    ticket: Ticket,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.turns.lock().leave(self.ticket);
        self.turns.changed.notify_waiters();
    }
}

/// A request that is counted; dropped, its fate is unknown.
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
        self.turns.lock().finish(self.number, outcome, Instant::now());
        self.turns.changed.notify_waiters();
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
    let mut text = format!("{} was held back: ", attempt.call.place());
    // Writing to a String cannot fail.
    let _ = match allowance.paused(now) {
        true => write!(text, "the cloud asked for a pause, {expected:.0?} are left"),
        false => write!(text, "{}; its turn is in {expected:.0?}", allowance.describe(attempt.call.priority, now)),
    };
    Error::rate_limited(text, expected)
}
