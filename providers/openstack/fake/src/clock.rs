//! The cloud's clock: that of the host when the cloud was made, and from then on tokio's.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Timestamp,
    /// Not before the first request: a cloud may be made outside of a runtime.
    started: Option<Instant>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { epoch: Timestamp::now(), started: None }
    }

    /// From now on time goes by.
    pub(crate) fn start(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    fn at(&self, later: Duration) -> Timestamp {
        let passed = self.started.map(|started| started.elapsed()).unwrap_or_default();
        self.epoch.saturating_add(passed + later).unwrap_or(self.epoch)
    }

    /// `2026-11-22T02:00:26`, as Octavia writes it.
    pub(crate) fn local(&self) -> String {
        self.at(Duration::ZERO).strftime("%Y-%m-%dT%H:%M:%S").to_string()
    }

    /// `2026-11-22T02:00:26Z`, as Nova and Neutron write it.
    pub(crate) fn utc(&self) -> String {
        self.local() + "Z"
    }

    /// `2026-11-22T02:00:26.000000Z`, as Keystone writes it, so much later.
    pub(crate) fn precise(&self, later: Duration) -> String {
        self.at(later).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
    }
}
