//! The request budget: the order of calls when a cloud answers only so many requests (P-3). Pure: time is passed in.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Priority;
use super::failure::{LONGEST_PAUSE, RateLimitReport};

/// The distribution of the requests that a cloud's rate limit allows. Unless a limit is [stated](Refill::Stated), no
/// request is deferred until the cloud has reported how many are left (`RateLimit-Limit`, `-Remaining`, `-Reset`, also
/// with `X-`).
///
/// | part of the limit | used by |
/// |---|---|
/// | [`share_left_to_others`](Self::share_left_to_others) | other users of the account |
/// | the next twentieth | [`Urgent`](Priority::Urgent) calls |
/// | the next fifth | urgent and [`Ordinary`](Priority::Ordinary) calls |
/// | the rest | all calls |
///
/// Other users may have used up even their own share. Where requests come back one by one, calls then continue with a
/// part of the requests that come back: urgent calls with all of them except the others' share, ordinary calls with
/// half of that, refreshing calls with a quarter. So no call starves, and the number of requests left grows.
///
/// Waiting calls are served by priority, then in order of arrival. A call that would wait longer than
/// [`RetryPolicy::longest_pause`](super::RetryPolicy::longest_pause) fails with the time to retry after (*rate
/// limited*).
///
/// ```
/// use std::time::Duration;
/// use provider_kit::transport::{Budget, Refill};
///
/// // 3,600 requests an hour, one comes back each second; a quarter is for Terraform.
/// let budget = Budget { share_left_to_others: 0.25, refill: Refill::Evenly(Duration::from_secs(3600)) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Share of the limit, from 0 to 1, for other users of this account. Default: 0.1.
    pub share_left_to_others: f64,
    /// Way in which requests come back.
    pub refill: Refill,
}

/// The way in which used requests become available again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// Requests come back all at once, at the time of `RateLimit-Reset`.
    AtReset,
    /// Requests come back one by one, the whole limit within this time.
    Evenly(Duration),
    /// A request comes back after each `interval`, up to `burst`: a limit that the user or the cloud's documentation
    /// states. Reports of the cloud count only if the provider [declares](super::Builder::rate_limits) how to read them.
    Stated {
        /// Time in which one request comes back.
        interval: Duration,
        /// Number of requests that can be sent at once.
        burst: u32,
    },
    /// Like [`Stated`](Self::Stated), for a limit that the cloud lowers without saying so: a refusal because of too many requests
    /// doubles the interval, up to 64 times, and the answers after it shorten it again.
    Adaptive {
        /// Time in which one request comes back, at best.
        interval: Duration,
        /// Number of requests that can be sent at once.
        burst: u32,
    },
}

/// The factor by which an adaptive interval grows at most, and the one by which each answer shortens it.
const SLOWEST: f64 = 64.0;
const RECOVERY: f64 = 0.95;

impl Refill {
    /// Returns a limit of `rate` requests per second (0 counts as 1), with bursts of up to `burst` requests.
    pub fn per_second(rate: u32, burst: u32) -> Self {
        Self::Stated {
            interval: Duration::from_secs(1) / rate.max(1),
            burst: burst.max(1),
        }
    }

    /// Returns a limit of `rate` requests per second (0 counts as 1), with bursts of up to `burst` requests, that
    /// shrinks after refusals.
    pub fn adaptive(rate: u32, burst: u32) -> Self {
        Self::Adaptive {
            interval: Duration::from_secs(1) / rate.max(1),
            burst: burst.max(1),
        }
    }

    /// Returns the time in which one request of a limit comes back; `None` if all come back together.
    fn interval(self, limit: f64) -> Option<f64> {
        match self {
            Self::AtReset => None,
            Self::Evenly(period) => Some(period.as_secs_f64() / limit),
            Self::Stated { interval, .. } | Self::Adaptive { interval, .. } => {
                Some(interval.as_secs_f64())
            }
        }
    }

    /// Returns the number of requests at once, if the limit does not come from the cloud's answers.
    fn burst(self) -> Option<u32> {
        match self {
            Self::AtReset | Self::Evenly(_) => None,
            Self::Stated { burst, .. } | Self::Adaptive { burst, .. } => Some(burst),
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            share_left_to_others: 0.1,
            refill: Refill::AtReset,
        }
    }
}

impl Budget {
    fn share(&self) -> f64 {
        self.share_left_to_others.clamp(0.0, 0.95)
    }

    /// Returns the share of the limit that a call of this priority leaves untouched.
    pub(super) fn reserve(&self, priority: Priority) -> f64 {
        let more = match priority {
            Priority::Urgent => 0.0,
            Priority::Ordinary => 0.05,
            Priority::Refresh => 0.25,
        };
        self.share() + (1.0 - self.share()) * more
    }

    /// Returns the share of returning requests that a call of this priority may use all the same.
    fn part_of_refill(&self, priority: Priority) -> f64 {
        let part = match priority {
            Priority::Urgent => 1.0,
            Priority::Ordinary => 0.5,
            Priority::Refresh => 0.25,
        };
        part * (1.0 - self.share())
    }
}

/// A position in the queue: by priority, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(Reverse<Priority>, u64);

impl Ticket {
    pub(super) fn priority(self) -> Priority {
        self.0.0
    }
}

/// The number of a request that may be sent, in the order of sending.
pub(super) type Number = u64;

/// The outcome of a request, for the budget.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// The request was answered, with this report of the limits.
    Answered(RateLimitReport),
    /// The request was answered with 429: no request is sent for the given time, if there is one.
    Refused(RateLimitReport, Option<Duration>),
    /// No answer: the request may have been counted.
    Unknown,
    /// The request was not sent.
    NotSent,
}

/// The known allowance of requests.
#[derive(Debug)]
pub(super) struct Allowance {
    budget: Budget,
    /// If set, reports lower a stated limit.
    reports_lower_stated_limits: bool,
    level: Option<Level>,
    under_way: u32,
    waiting: BTreeSet<Ticket>,
    tickets: u64,
    numbers: Number,
    paused_until: Option<Instant>,
    probe: Probe,
    last_sent: Option<Instant>,
    /// The factor of an adaptive interval, and the last request that was sent before it grew.
    slowdown: (f64, Number),
}

#[derive(Clone, Copy, Debug)]
struct Level {
    limit: f64,
    left: f64,
    at: Instant,
    reset: Option<Instant>,
    told_by: Number,
    /// Seconds in which one request of a reported window comes back, if that window is the limit.
    spread: f64,
}

/// The state of the probe. Nothing is known before the first answer, and nothing certain after a 429: then one request
/// is sent ahead of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Probe {
    Needed,
    Sent(Instant),
    Answered,
}

/// The longest time for which other requests wait for the answer to the probe.
const PROBE_ALONE: Duration = Duration::from_secs(1);
/// Tolerance of the arithmetic, in requests.
const EPSILON: f64 = 1e-6;

impl Allowance {
    pub(super) fn new(budget: Budget, reports_lower_stated_limits: bool) -> Self {
        Self {
            budget,
            reports_lower_stated_limits,
            level: None,
            under_way: 0,
            waiting: BTreeSet::new(),
            tickets: 0,
            numbers: 0,
            paused_until: None,
            probe: Probe::Needed,
            last_sent: None,
            slowdown: (1.0, 0),
        }
    }

    /// Adds a call to the queue.
    pub(super) fn enter(&mut self, priority: Priority) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(Reverse(priority), self.tickets);
        self.waiting.insert(ticket);
        ticket
    }

    /// Removes a call from the queue that sends no request.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// Returns the next call in the queue.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiting.first().copied()
    }

    /// Takes a call from the queue if it may be sent now; it is counted until [`finish`](Self::finish).
    ///
    /// # Errors
    /// The time after which to try again, unless the queue changes before.
    pub(super) fn take(&mut self, ticket: Ticket, now: Instant) -> Result<Number, Duration> {
        if self.waiting.first() != Some(&ticket) {
            return Err(Duration::MAX);
        }
        let wait = self.wait(ticket, now).max(self.behind_the_probe(now));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.waiting.remove(&ticket);
        self.numbers += 1;
        self.under_way += 1;
        self.last_sent = Some(now);
        if self.probe != Probe::Answered {
            self.probe = Probe::Sent(now);
        }
        Ok(self.numbers)
    }

    /// Estimates the time until the call may be sent.
    pub(super) fn wait(&self, ticket: Ticket, now: Instant) -> Duration {
        let paused = self
            .paused_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let believed = paused.max(
            self.level(now)
                .map_or(Duration::ZERO, |level| self.shortage(&level, ticket, now)),
        );
        // The limits that a cloud reports may be wrong. After some time without requests, one request finds out.
        let silent = self
            .last_sent
            .map_or(Duration::ZERO, |then| now.saturating_duration_since(then));
        believed.min(LONGEST_PAUSE.saturating_sub(silent))
    }

    /// Returns `true` if the cloud has requested a pause.
    pub(super) fn paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }

    /// Returns the reason why a call of this priority waits.
    pub(super) fn describe(&self, priority: Priority, now: Instant) -> String {
        let Some(level) = self.level(now) else {
            return "other calls go first".to_owned();
        };
        let limit = level.limit;
        let left = self.left(&level, now).max(0.0);
        let kept = (limit * self.budget.reserve(priority)).round();
        format!(
            "about {left:.0} of {limit:.0} requests are left, {kept:.0} are reserved for other users or more urgent calls"
        )
    }

    /// Returns the known level; at first that of a stated limit, of which nothing is used.
    fn level(&self, now: Instant) -> Option<Level> {
        let Some(burst) = self.budget.refill.burst() else {
            return self.level;
        };
        let limit = f64::from(burst);
        self.level.or(Some(Level {
            limit,
            left: limit,
            at: now,
            reset: None,
            told_by: 0,
            spread: 0.0,
        }))
    }

    fn shortage(&self, level: &Level, ticket: Ticket, now: Instant) -> Duration {
        let priority = ticket.priority();
        let left = self.left(level, now);
        let missing =
            |turns: usize| level.limit * self.budget.reserve(priority) + turns as f64 - left;
        // Usually there is enough for all calls, and they need not be counted.
        if missing(self.waiting.len()) <= EPSILON {
            return Duration::ZERO;
        }
        let turns = 1 + self.waiting.range(..ticket).count();
        let missing = missing(turns);
        let turns = turns as f64;
        if missing <= EPSILON {
            return Duration::ZERO;
        }
        match self.interval(level) {
            None => level
                .reset
                .map_or(Duration::ZERO, |reset| reset.saturating_duration_since(now)),
            Some(one) => {
                let since = self
                    .last_sent
                    .map_or(f64::INFINITY, |then| (now - then).as_secs_f64());
                let paced = turns * one / self.budget.part_of_refill(priority) - since;
                let seconds = (missing * one).min(paced.max((turns - left) * one));
                // A call that tries again a little too early would do so forever.
                Duration::try_from_secs_f64(seconds).map_or(Duration::ZERO, |wait| {
                    match seconds < EPSILON {
                        true => Duration::ZERO,
                        false => wait + Duration::from_micros(1),
                    }
                })
            }
        }
    }

    /// Time in which one request comes back now; `None` if all come back together.
    fn interval(&self, level: &Level) -> Option<f64> {
        let interval = self.budget.refill.interval(level.limit)?;
        Some((interval * self.slowdown.0).max(level.spread))
    }

    /// Returns the number of requests that can be sent at once, counting requests in flight as sent.
    fn left(&self, level: &Level, now: Instant) -> f64 {
        let restored = match self.interval(level) {
            None if level.reset.is_some_and(|reset| reset <= now) => level.limit,
            None => level.left,
            Some(one) => level.left + (now - level.at).as_secs_f64() / one,
        };
        restored.min(level.limit) - f64::from(self.under_way)
    }

    fn behind_the_probe(&self, now: Instant) -> Duration {
        match self.probe {
            Probe::Sent(then) if self.under_way > 0 => {
                (then + PROBE_ALONE).saturating_duration_since(now)
            }
            _ => Duration::ZERO,
        }
    }

    /// Records the outcome of a request.
    pub(super) fn finish(&mut self, number: Number, outcome: Outcome, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        match outcome {
            Outcome::NotSent => {}
            Outcome::Unknown => self.spend(now),
            Outcome::Answered(report) => {
                self.probe = Probe::Answered;
                self.learn(number, &report, now);
                self.slowdown.0 = (self.slowdown.0 * RECOVERY).max(1.0);
            }
            Outcome::Refused(report, pause) => {
                self.probe = Probe::Needed;
                self.learn(number, &report, now);
                self.slow_down(number, now);
                if let Some(until) = pause.map(|pause| now + pause) {
                    self.paused_until =
                        Some(self.paused_until.map_or(until, |before| before.max(until)));
                }
            }
        }
    }

    /// Requests that were under way when the interval grew do not let it grow further.
    fn slow_down(&mut self, number: Number, now: Instant) {
        let Refill::Adaptive { .. } = self.budget.refill else {
            return;
        };
        if number <= self.slowdown.1 {
            return;
        }
        self.slowdown = ((self.slowdown.0 * 2.0).min(SLOWEST), self.numbers);
        self.level = self.level(now).map(|level| Level {
            left: f64::from(self.under_way),
            at: now,
            ..level
        });
    }

    /// Updates the level from a report. An answer may be overtaken by the answer to a later request, which is more
    /// recent.
    fn learn(&mut self, number: Number, report: &RateLimitReport, now: Instant) {
        let remaining = report
            .remaining
            .filter(|_| self.budget.refill.burst().is_none());
        let Some(left) = remaining.map(|left| left as f64) else {
            self.spend(now);
            return self.lower(number, report);
        };
        if self.level.is_some_and(|level| level.told_by > number) {
            return;
        }
        let before = self.level.map_or(0.0, |level| level.limit);
        let limit = report.limit.map_or(before, |limit| limit as f64).max(left);
        let reset = report.reset.map(|reset| now + reset);
        let usable = match self.budget.refill {
            Refill::AtReset => reset.is_some(),
            Refill::Evenly(_) | Refill::Stated { .. } | Refill::Adaptive { .. } => limit > 0.0,
        };
        self.level = usable.then_some(Level {
            limit,
            left,
            at: now,
            reset,
            told_by: number,
            spread: 0.0,
        });
    }

    /// Lowers the level of a stated limit to the requests that are left according to a report.
    fn lower(&mut self, number: Number, report: &RateLimitReport) {
        let level = self
            .level
            .filter(|level| self.reports_lower_stated_limits && level.told_by <= number);
        let (Some(level), Some(left)) = (level, report.remaining.map(|left| left as f64)) else {
            return;
        };
        let window = report
            .reset
            .filter(|_| left <= level.left)
            .unwrap_or_default();
        let spread = window.as_secs_f64() / (left + 1.0);
        self.level = Some(Level {
            left: left.min(level.left),
            told_by: number,
            spread,
            ..level
        });
    }

    fn spend(&mut self, now: Instant) {
        // A window that is over does not apply to the next one.
        self.level = self
            .level
            .filter(|level| self.budget.refill != Refill::AtReset || level.reset > Some(now));
        let Some(level) = self.level(now) else { return };
        // Requests in flight are subtracted from this value.
        let left = self.left(&level, now) + f64::from(self.under_way) - 1.0;
        self.level = Some(Level {
            left: left.max(0.0),
            at: now,
            ..level
        });
    }
}

#[cfg(test)]
mod tests;
