//! Series of the provider's own. The Go program has none.

use std::sync::Arc;

use cloud_provider::CloudMetrics;
use parking_lot::Mutex;

provider_kit::series! {
    /// Addresses in all ranges of KEEPALIVED_SERVICE_CIDR.
    SIZE: Gauge = "keepalived_pool_addresses";
    /// Addresses in use, with those of entries that were made by hand.
    USED: Gauge = "keepalived_used_addresses";
    /// Writes of the ConfigMap that another writer had overtaken.
    CONFLICTS: Counter = "keepalived_write_conflicts_total";
}

/// A recorder of the provider's series.
pub(crate) struct AddressMetrics {
    metrics: Arc<dyn CloudMetrics>,
    used: Mutex<f64>,
}

impl AddressMetrics {
    /// Returns a recorder, and reports the size of the pools.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a gauge is approximate beyond 2^53 addresses"
    )]
    pub(crate) fn new(metrics: Arc<dyn CloudMetrics>, size: u64) -> Self {
        metrics.record(&SIZE, &[], size as f64);
        Self {
            metrics,
            used: Mutex::default(),
        }
    }

    /// Reports the number of addresses in use.
    pub(crate) fn used(&self, count: usize) {
        let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let mut last = self.used.lock();
        self.metrics.record(&USED, &[], count - *last);
        *last = count;
    }

    /// Reports a write that another writer had overtaken.
    pub(crate) fn conflict(&self) {
        self.metrics.record(&CONFLICTS, &[], 1.0);
    }
}
