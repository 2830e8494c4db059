//! Detects that the cloud accepts the credential again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::{CloudMetrics, ProviderSeries};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Minimum interval between notifications. A cloud with several APIs may refuse a credential at one and accept it at
/// another.
const MIN_INTERVAL: Duration = Duration::from_secs(30);

/// Observes requests to the cloud and notifies when a request succeeds after one was refused with HTTP 401.
pub(crate) struct CredentialWatch {
    below: Arc<dyn CloudMetrics>,
    accepted: Arc<Notify>,
    is_refused: AtomicBool,
    told: Mutex<Option<Instant>>,
}

impl CredentialWatch {
    /// Returns metrics that pass every observation on to `below`.
    pub(crate) fn over(below: Arc<dyn CloudMetrics>, accepted: Arc<Notify>) -> Self {
        Self {
            below,
            accepted,
            is_refused: AtomicBool::default(),
            told: Mutex::default(),
        }
    }

    fn note(&self, status: Option<u16>, now: Instant) {
        match status {
            Some(401) => self.is_refused.store(true, Ordering::Relaxed),
            Some(200..=299) if self.is_refused.load(Ordering::Relaxed) => {
                let mut told = self.told.lock();
                if told.is_none_or(|at| now.duration_since(at) >= MIN_INTERVAL) {
                    *told = Some(now);
                    self.is_refused.store(false, Ordering::Relaxed);
                    tracing::info!(
                        "the cloud accepts the credential in use; pending Services are retried"
                    );
                    self.accepted.notify_one();
                }
            }
            _ => {}
        }
    }
}

impl CloudMetrics for CredentialWatch {
    fn started(&self, operation: &str) {
        self.below.started(operation);
    }
    fn abandoned(&self, operation: &str) {
        self.below.abandoned(operation);
    }
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        self.note(status, Instant::now());
        self.below.finished(operation, status, took);
    }
    fn paused(&self, pause: Duration) {
        self.below.paused(pause);
    }
    fn remaining(&self, requests: u64) {
        self.below.remaining(requests);
    }
    fn cached(&self, hit: bool) {
        self.below.cached(hit);
    }
    fn credential_changed(&self, is_in_use: bool) {
        self.below.credential_changed(is_in_use);
    }
    fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
        self.below.record(series, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::NoCloudMetrics;
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn first_success_after_a_refusal_is_told_and_no_more_than_twice_a_minute() {
        let accepted = Arc::new(Notify::new());
        let start = Instant::now();
        let watch = CredentialWatch::over(Arc::new(NoCloudMetrics), Arc::clone(&accepted));
        let told = |status, seconds| {
            watch.note(Some(status), start + Duration::from_secs(seconds));
            accepted.notified().now_or_never().is_some()
        };
        let seen = [
            (200, 0),
            (401, 1),
            (503, 2),
            (200, 3),
            (200, 4),
            (401, 5),
            (200, 6),
            (200, 33),
            (200, 40),
        ]
        .map(|(status, seconds)| told(status, seconds));
        assert_eq!(
            seen,
            [false, false, false, true, false, false, false, true, false]
        );
    }
}
