//! The layer that counts and times requests.

use std::sync::Arc;

use cloud_provider::CloudMetrics;
use tokio::time::Instant;
use tower::service_fn;

use super::attempt::{Attempt, Sends};

pub(super) fn measure(inner: impl Sends, metrics: Arc<dyn CloudMetrics>) -> impl Sends {
    service_fn(move |attempt: Attempt| {
        let inner = inner.clone();
        let metrics = Arc::clone(&metrics);
        async move {
            let running = Running::start(metrics, attempt.call.route());
            let outcome = inner.once(attempt).await;
            let (status, report) = match &outcome {
                Ok(answer) => (Some(answer.status), answer.report),
                Err(failure) => (failure.status, failure.report),
            };
            running.finish(status.map(|status| status.as_u16()), report.remaining);
            outcome
        }
    })
}

/// A request in flight; if dropped, it is counted as abandoned.
struct Running {
    metrics: Arc<dyn CloudMetrics>,
    route: String,
    began: Instant,
    finished: bool,
}

impl Running {
    fn start(metrics: Arc<dyn CloudMetrics>, route: String) -> Self {
        metrics.started(&route);
        Self {
            metrics,
            route,
            began: Instant::now(),
            finished: false,
        }
    }

    fn finish(mut self, status: Option<u16>, remaining: Option<u64>) {
        self.finished = true;
        self.metrics
            .finished(&self.route, status, self.began.elapsed());
        if let Some(left) = remaining {
            self.metrics.remaining(left);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.finished {
            self.metrics.abandoned(&self.route);
        }
    }
}
