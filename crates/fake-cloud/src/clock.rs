//! The cloud's clock: the host's time when the cloud is created, advanced by tokio's clock.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A clock that returns times as text.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
    /// Time of the first request; not set before, because a cloud may be created outside of a runtime.
    started: Option<Instant>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            epoch: Timestamp::now(),
            started: None,
        }
    }
}

impl Clock {
    /// Starts the clock, if it is not running yet.
    pub fn start(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    fn at(&self, later: Duration) -> Timestamp {
        let passed = self
            .started
            .map(|started| started.elapsed())
            .unwrap_or_default();
        self.epoch
            .saturating_add(passed + later)
            .unwrap_or(self.epoch)
    }

    /// Returns the time in the form `2026-11-22T02:00:26`.
    #[must_use]
    pub fn local(&self) -> String {
        self.at(Duration::ZERO)
            .strftime("%Y-%m-%dT%H:%M:%S")
            .to_string()
    }

    /// Returns the time in the form `2026-11-22T02:00:26Z`.
    #[must_use]
    pub fn utc(&self) -> String {
        self.local() + "Z"
    }

    /// Returns the time `later` from now, in the form `2026-11-22T02:00:26.000000Z`.
    #[must_use]
    pub fn precise(&self, later: Duration) -> String {
        self.at(later)
            .strftime("%Y-%m-%dT%H:%M:%S.000000Z")
            .to_string()
    }
}
