//! The cloud's clock: that of the host when the cloud was made, and from then on tokio's.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A clock whose times are texts.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
    /// Not before the first request: a cloud may be made outside of a runtime.
    started: Option<Instant>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { epoch: Timestamp::now(), started: None }
    }
}

impl Clock {
    /// From now on time goes by.
    pub fn start(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    fn at(&self, later: Duration) -> Timestamp {
        let passed = self.started.map(|started| started.elapsed()).unwrap_or_default();
        self.epoch.saturating_add(passed + later).unwrap_or(self.epoch)
    }

    /// `2026-11-22T02:00:26`.
    #[must_use]
    pub fn local(&self) -> String {
        self.at(Duration::ZERO).strftime("%Y-%m-%dT%H:%M:%S").to_string()
    }

    /// `2026-11-22T02:00:26Z`.
    #[must_use]
    pub fn utc(&self) -> String {
        self.local() + "Z"
    }

    /// `2026-11-22T02:00:26.000000Z`, so much later than now.
    #[must_use]
    pub fn precise(&self, later: Duration) -> String {
        self.at(later).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
    }
}
