//! The metric series of DigitalOcean's Go cloud controller manager, under their old names.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, Error, Result};
use provider_kit::series::CONVENTIONAL;
use tokio::time::Instant;

provider_kit::series! {
    /// Requests to the firewall API.
    OPERATIONS: Counter = "firewall_api_operations_total", "operation", "result", "http_response_code";
    /// Time until the firewall API had answered.
    OPERATION_DURATION: Histogram(CONVENTIONAL) = "firewall_api_operation_duration_seconds", "operation", "result", "http_response_code";
    /// Times that the firewall was compared with what the Services need.
    SYNCS: Counter = "firewall_resource_syncs_total", "result";
    /// Time that it took to compare the firewall with what the Services need.
    SYNC_DURATION: Histogram(CONVENTIONAL) = "firewall_resource_sync_duration_seconds", "result";
    /// Times that the firewall was reconciled.
    RECONCILES: Counter = "firewall_reconciles_total", "result", "error_type";
    /// Time that it took to reconcile the firewall.
    RECONCILE_DURATION: Histogram(CONVENTIONAL) = "firewall_reconcile_duration_seconds", "result", "error_type";
}

/// Metrics of the worker firewall.
pub(crate) struct FirewallMetrics(pub(crate) Arc<dyn CloudMetrics>);

impl FirewallMetrics {
    /// Counts a request of this `operation`: `get_by_id`, `get_by_list`, `create` or `update`; `success`: the status of a good
    /// answer.
    pub(crate) async fn request<T>(
        &self,
        operation: &str,
        success: &str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = Instant::now();
        let outcome = request.await;
        let (result, code) = match &outcome {
            Ok(_) => ("succeeded", success),
            Err(error) => ("failed", status_of(error)),
        };
        self.both(
            (&OPERATIONS, &OPERATION_DURATION),
            &[operation, result, code],
            began.elapsed(),
        );
        outcome
    }

    /// Counts a comparison; `result`: `updated`, `failed` or `canceled`.
    pub(crate) fn synced(&self, result: &str, took: Duration) {
        self.both((&SYNCS, &SYNC_DURATION), &[result], took);
    }

    /// Counts a reconciliation; `result`: `reconciled`, `failed` or `skipped`.
    pub(crate) fn reconciled(&self, result: &str, error_type: &str, took: Duration) {
        self.both(
            (&RECONCILES, &RECONCILE_DURATION),
            &[result, error_type],
            took,
        );
    }

    fn both(
        &self,
        (count, time): (&'static Series, &'static Series),
        labels: &[&str],
        took: Duration,
    ) {
        self.0.record(count, labels, 1.0);
        self.0.record(time, labels, took.as_secs_f64());
    }
}

type Series = cloud_provider::ProviderSeries;

fn status_of(error: &Error) -> &'static str {
    match error {
        error if error.is_not_found() => "404",
        error if error.is_unauthorized() => "401",
        error if error.is_conflict() => "409",
        error if error.is_invalid() => "422",
        error if error.is_rate_limited() => "429",
        _ => "500",
    }
}
