//! State machine of an election. Pure: times, random numbers and responses are passed in.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::config::{ElectionConfig, JITTER};
use super::leadership::ElectionOutcome;
use super::lease::{Lease, Record, api_time};

#[cfg(test)]
mod tests;

/// State machine of an election from the view of one process.
///
/// The driver carries out each [`Action`] and passes the outcome to [`step`](Self::step); meanwhile, it gives up a
/// leader's request at its [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Election {
    config: ElectionConfig,
    role: Role,
    /// The Lease as last read, and the time at which this process first saw it in that state.
    observed: Option<(Record, Instant)>,
    /// Time until which another process may believe that it leads, as far as this process has seen.
    holder_valid_until: Option<Instant>,
    /// If set, the Lease existed when it was last read.
    existed: bool,
    /// The Lease as it was last read or written.
    lease: Option<Lease>,
    /// Time of the next attempt.
    next_attempt: Instant,
    /// Time at which the last write was sent.
    sent: Instant,
    /// A write of this process is pending, or may have been applied without a response.
    pending_write: Option<PendingWrite>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Candidate,
    /// Leads. `renewed` is the time at which the last successful renewal was sent; `direct` is `false` if renewals read
    /// the Lease first.
    Leader {
        renewed: Instant,
        direct: bool,
    },
    /// Releases the Lease. If `again` is set, the Lease may be read once more after a failed release.
    Leaving {
        again: bool,
    },
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingWrite {
    InFlight,
    Unanswered,
}

/// Input of the state machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// The wait of [`Action::Wait`] is over, or the election begins.
    Due,
    /// The Lease was read; `None`: it does not exist.
    Read(Result<Option<Lease>, Failure>),
    /// The Lease was written.
    Written(Result<Lease, Failure>),
    /// A watch reported the Lease; `None`: it was deleted. Watches may lag behind.
    Seen(Option<Lease>),
    /// The process stops gracefully. A pending request is cancelled.
    Stop,
}

/// Reasons for which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Conflict: a different candidate wrote the Lease first.
    Conflict,
    /// The API server refused the request.
    Refused,
    /// The outcome is unknown: there was no response, or one without an outcome.
    Unknown,
}

/// The next action of the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read the Lease from the API server.
    Read,
    /// Create this Lease in the API.
    Create(Lease),
    /// Replace the Lease; its UID and resource version are preconditions.
    Update(Lease),
    /// Wait until this time, or until the watch reports a change.
    Wait(Instant),
    /// The election has ended with this outcome.
    End(ElectionOutcome),
}

impl Election {
    /// Creates a candidate that knows nothing.
    #[must_use]
    pub fn new(config: ElectionConfig, now: Instant) -> Self {
        Self {
            config,
            role: Role::Candidate,
            observed: None,
            holder_valid_until: None,
            existed: false,
            lease: None,
            next_attempt: now,
            sent: now,
            pending_write: None,
        }
    }

    /// Returns the time until which this process leads: the renew deadline after its last successful renewal was sent.
    /// Returns `None` if the process does not lead.
    ///
    /// A successor has waited for the whole lease duration after that renewal arrived, which is longer.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.role {
            Role::Leader { renewed, .. } => Some(renewed + self.config.renew_deadline),
            _ => None,
        }
    }

    /// Returns `true` if a leader reads the Lease before it writes, because a direct renewal failed.
    #[must_use]
    pub fn on_slow_path(&self) -> bool {
        matches!(self.role, Role::Leader { direct: false, .. })
    }

    /// Keeps the Lease at a stop instead of releasing it.
    pub fn leave_to_expire(&mut self) {
        self.config.release_on_stop = false;
    }

    /// Returns the holder that was last seen, this process included; empty if there is none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.observed
            .as_ref()
            .map_or("", |(record, _)| &record.holder)
    }

    /// Returns the Lease as it was last read or written.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Returns the action that follows `input`. `now` is the monotonic time, `time` the time of day, which is only
    /// written into the Lease, and `jitter` a random number from 0 to 1.
    pub fn step(&mut self, input: Input, now: Instant, time: Timestamp, jitter: f64) -> Action {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            return self.lose(format!(
                "it could not be renewed for {:?}",
                self.config.renew_deadline
            ));
        }
        match (input, self.role) {
            (_, Role::Over) => Action::End(ElectionOutcome::Stopped),
            (Input::Stop, _) => self.stop(time),
            (Input::Read(answer), Role::Leaving { .. }) => self.leave_after_reading(answer, time),
            (Input::Written(answer), Role::Leaving { again }) => self.left(answer.is_ok(), again),
            (_, Role::Leaving { .. }) => self.end(ElectionOutcome::Stopped),
            (Input::Due, Role::Candidate) => Action::Read,
            (Input::Due, Role::Leader { .. }) => self.renew(now, time),
            (Input::Seen(lease), _) => self.seen(lease, now, time),
            (Input::Read(Err(_)), _) => self.pause(now, jitter),
            (Input::Read(Ok(None)), _) => self.missing(now, time, jitter),
            (Input::Read(Ok(Some(lease))), _) => self.read(lease, now, time, jitter),
            (Input::Written(Ok(lease)), _) => self.written(lease, now, jitter),
            (Input::Written(Err(failure)), _) => self.not_written(failure, now, jitter),
        }
    }

    fn read(&mut self, lease: Lease, now: Instant, time: Timestamp, jitter: f64) -> Action {
        let record = self.observe(lease, now);
        let is_free = record.holder.is_empty();
        let is_mine = record.holder == self.config.identity;
        match self.role {
            Role::Leader { .. } if !is_free && !is_mine => {
                self.lose(format!("{} holds it", record.holder))
            }
            Role::Leader { .. } => self.write(&record, now, time),
            _ if is_free || self.holder_valid_until.is_none_or(|until| now >= until) => {
                self.write(&record, now, time)
            }
            _ => self.pause(now, jitter),
        }
    }

    fn missing(&mut self, now: Instant, time: Timestamp, jitter: f64) -> Action {
        self.lease = None;
        let leads = matches!(self.role, Role::Leader { .. });
        if std::mem::take(&mut self.existed) && !leads {
            // The Lease was deleted. Its holder may have renewed it just before, still lead, and create it again.
            let duration =
                self.observed
                    .as_ref()
                    .map_or(self.config.lease_duration, |(record, _)| {
                        record
                            .duration(self.config.lease_duration)
                            .max(self.config.lease_duration)
                    });
            self.holder_valid_until = self.holder_valid_until.max(Some(now + duration));
        }
        if !leads && self.holder_valid_until.is_some_and(|until| now < until) {
            return self.pause(now, jitter);
        }
        let text = api_time(time);
        let record = Record {
            holder: self.config.identity.clone(),
            duration_seconds: self.config.lease_seconds(),
            acquired: text.clone(),
            renewed: text,
            transitions: 0,
        };
        self.send(now);
        Action::Create(Lease::new(
            &self.config.namespace,
            &self.config.name,
            &record,
        ))
    }

    /// Handles a watch event. Watches lag: an event decides when to read, and when the holder was last alive, but
    /// nothing else.
    fn seen(&mut self, lease: Option<Lease>, now: Instant, time: Timestamp) -> Action {
        let holder = lease.as_ref().map(|lease| lease.record().holder);
        let is_mine = holder.as_deref() == Some(self.config.identity.as_str());
        match (self.role, holder) {
            (Role::Leader { .. }, Some(_)) if is_mine => Action::Wait(self.next_attempt),
            (Role::Leader { .. }, _) => self.renew(now, time),
            (_, Some(holder)) if !is_mine && !holder.is_empty() => {
                if let Some(lease) = lease {
                    self.observe(lease, now);
                }
                // The holder renews: the next event to wait for is the expiry.
                let pause = self.config.retry_period.mul_f64(1.0 + JITTER);
                self.next_attempt = self
                    .holder_valid_until
                    .map_or(now + pause, |until| until.min(now + pause));
                Action::Wait(self.next_attempt)
            }
            _ => Action::Read,
        }
    }

    fn observe(&mut self, lease: Lease, now: Instant) -> Record {
        let record = lease.record();
        self.lease = Some(lease);
        self.existed = true;
        if self
            .observed
            .as_ref()
            .is_none_or(|(before, _)| *before != record)
        {
            self.observed = Some((record.clone(), now));
            if record.holder.is_empty() {
                // The holder released the Lease.
                self.holder_valid_until = None;
            } else if record.holder != self.config.identity {
                let until = now + record.duration(self.config.lease_duration);
                self.holder_valid_until = self.holder_valid_until.max(Some(until));
            }
        }
        record
    }

    fn renew(&mut self, now: Instant, time: Timestamp) -> Action {
        let Role::Leader { renewed, .. } = self.role else {
            return Action::Read;
        };
        self.role = Role::Leader {
            renewed,
            direct: true,
        };
        match &self.lease {
            Some(lease) => {
                let record = lease.record();
                self.write(&record, now, time)
            }
            None => Action::Read,
        }
    }

    /// Acquires or renews the Lease that was last read with the record `before`.
    fn write(&mut self, before: &Record, now: Instant, time: Timestamp) -> Action {
        let Some(lease) = &self.lease else {
            return Action::Read;
        };
        let is_mine = before.holder == self.config.identity;
        let renewed = fresh(time, &before.renewed);
        let record = Record {
            holder: self.config.identity.clone(),
            duration_seconds: self.config.lease_seconds(),
            acquired: if is_mine && !before.acquired.is_empty() {
                before.acquired.clone()
            } else {
                renewed.clone()
            },
            renewed,
            transitions: if is_mine {
                before.transitions
            } else {
                before.next_transitions()
            },
        };
        let update = Action::Update(lease.with(&record));
        self.send(now);
        update
    }

    fn send(&mut self, now: Instant) {
        self.sent = now;
        self.pending_write.get_or_insert(PendingWrite::InFlight);
    }

    fn written(&mut self, lease: Lease, now: Instant, jitter: f64) -> Action {
        self.pending_write = None;
        self.observe(lease, now);
        if now >= self.sent + self.config.renew_deadline {
            // The answer came after the deadline, so this process does not lead.
            return self.pause(now, jitter);
        }
        self.holder_valid_until = None;
        self.role = Role::Leader {
            renewed: self.sent,
            direct: true,
        };
        self.pause(now, jitter)
    }

    fn not_written(&mut self, failure: Failure, now: Instant, jitter: f64) -> Action {
        self.existed |= failure == Failure::Conflict;
        self.pending_write = match failure {
            Failure::Unknown => Some(PendingWrite::Unanswered),
            // The refusal may follow from an earlier write that was applied.
            Failure::Conflict | Failure::Refused => self
                .pending_write
                .filter(|pending_write| *pending_write == PendingWrite::Unanswered),
        };
        match self.role {
            Role::Leader {
                renewed,
                direct: true,
            } => {
                self.role = Role::Leader {
                    renewed,
                    direct: false,
                };
                Action::Read
            }
            _ => self.pause(now, jitter),
        }
    }

    /// Waits for the next attempt. A candidate adds jitter, so that candidates do not retry together, but does not wait
    /// beyond the expiry of the Lease.
    fn pause(&mut self, now: Instant, jitter: f64) -> Action {
        let period = self.config.retry_period;
        self.next_attempt = match self.deadline() {
            Some(deadline) => deadline.min(now + period),
            None => {
                let next = now + period.mul_f64(1.0 + JITTER * jitter);
                self.holder_valid_until
                    .filter(|until| *until > now)
                    .map_or(next, |until| until.min(next))
            }
        };
        Action::Wait(self.next_attempt)
    }

    fn stop(&mut self, time: Timestamp) -> Action {
        let leads = self.deadline().is_some();
        let wants = self.config.release_on_stop && (leads || self.pending_write.is_some());
        if !wants || matches!(self.role, Role::Leaving { .. }) {
            return self.end(ElectionOutcome::Stopped);
        }
        self.role = Role::Leaving { again: true };
        match &self.lease {
            Some(lease) if leads => Action::Update(released(lease, time)),
            _ => Action::Read,
        }
    }

    fn left(&mut self, released: bool, again: bool) -> Action {
        match (released, again) {
            (true, _) => self.end(ElectionOutcome::Released),
            // A renewal may have been in progress, so the Lease is read before it is released.
            (false, true) => {
                self.role = Role::Leaving { again: false };
                Action::Read
            }
            (false, false) => self.end(ElectionOutcome::Stopped),
        }
    }

    fn leave_after_reading(
        &mut self,
        answer: Result<Option<Lease>, Failure>,
        time: Timestamp,
    ) -> Action {
        self.role = Role::Leaving { again: false };
        match answer {
            Ok(Some(lease)) if lease.record().holder == self.config.identity => {
                Action::Update(released(&lease, time))
            }
            _ => self.end(ElectionOutcome::Stopped),
        }
    }

    fn lose(&mut self, reason: String) -> Action {
        self.end(ElectionOutcome::Lost(reason))
    }

    fn end(&mut self, outcome: ElectionOutcome) -> Action {
        self.role = Role::Over;
        Action::End(outcome)
    }
}

/// Returns the released Lease, so that other candidates need not wait (APP-67).
fn released(lease: &Lease, time: Timestamp) -> Lease {
    let before = lease.record();
    let now = fresh(time, &before.renewed);
    lease.with(&Record {
        holder: String::new(),
        duration_seconds: 1,
        acquired: now.clone(),
        renewed: now,
        transitions: before.transitions,
    })
}

/// Formats `time`, and makes the text different from `before`, so that a holder whose clock stands still does not seem
/// to have stopped renewing.
fn fresh(time: Timestamp, before: &str) -> String {
    let text = api_time(time);
    if text != before {
        return text;
    }
    api_time(time.checked_add(Duration::from_micros(1)).unwrap_or(time))
}
