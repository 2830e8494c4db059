//! Metrics of webhook calls.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

/// The hook for the metrics of webhooks. Does nothing by default.
pub trait WebhookMetrics: Send + Sync {
    /// Counts a call in `cloud_provider_webhook_request_total`, `…_duration_seconds`; the code is the HTTP status, or
    /// `<error>` if the caller did not wait for the response.
    fn called(&self, _webhook: &str, _code: &str, _time: Duration) {}
}

/// A [`WebhookMetrics`] that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWebhookMetrics;

impl WebhookMetrics for NoWebhookMetrics {}

/// A call, counted once however it ends.
pub(super) struct Call<'a> {
    metrics: &'a dyn WebhookMetrics,
    webhook: &'a str,
    begun: Instant,
    status: Option<StatusCode>,
}

impl<'a> Call<'a> {
    pub(super) fn begin(metrics: &'a dyn WebhookMetrics, webhook: &'a str) -> Self {
        Self {
            metrics,
            webhook,
            begun: Instant::now(),
            status: None,
        }
    }

    pub(super) fn end(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let code = self.status.as_ref().map_or("<error>", StatusCode::as_str);
        self.metrics
            .called(self.webhook, code, self.begun.elapsed());
    }
}
