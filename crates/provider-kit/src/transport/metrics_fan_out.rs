//! Fan-out of request metrics: to series of a provider's own, and to the series that every provider has.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, ProviderSeries};

/// Reports requests first to `own`, then to `all`.
pub(super) struct MetricsFanOut<T> {
    pub(super) own: T,
    pub(super) all: Arc<dyn CloudMetrics>,
}

impl<T: CloudMetrics> CloudMetrics for MetricsFanOut<T> {
    fn started(&self, operation: &str) {
        self.own.started(operation);
        self.all.started(operation);
    }
    fn abandoned(&self, operation: &str) {
        self.own.abandoned(operation);
        self.all.abandoned(operation);
    }
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        self.own.finished(operation, status, took);
        self.all.finished(operation, status, took);
    }
    fn paused(&self, pause: Duration) {
        self.own.paused(pause);
        self.all.paused(pause);
    }
    fn remaining(&self, requests: u64) {
        self.own.remaining(requests);
        self.all.remaining(requests);
    }
    fn cached(&self, hit: bool) {
        self.own.cached(hit);
        self.all.cached(hit);
    }
    fn credential_changed(&self, is_in_use: bool) {
        self.own.credential_changed(is_in_use);
        self.all.credential_changed(is_in_use);
    }
    /// Records nothing in `own`, which records its series itself.
    fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
        self.all.record(series, labels, value);
    }
}
