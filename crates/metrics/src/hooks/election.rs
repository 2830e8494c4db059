//! Metrics of leader election (MET-22).

use prometheus::{GaugeVec, IntCounterVec};
use runtime::election::ElectionMetrics;

use crate::registry::Registry;
use crate::series::{MASTER_STATUS, SLOW_PATH};

pub(crate) struct Elections {
    leading: GaugeVec,
    slow_path: IntCounterVec,
}

impl Elections {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            leading: registry.gauges(MASTER_STATUS),
            slow_path: registry.counters(SLOW_PATH),
        }
    }
}

// Leases are acquired and read rarely, so the child is looked up each time.
impl ElectionMetrics for Elections {
    fn leading(&self, lease: &str, leads: bool) {
        self.leading
            .with_label_values(&[lease])
            .set(f64::from(u8::from(leads)));
    }

    fn slow_path(&self, lease: &str) {
        self.slow_path.with_label_values(&[lease]).inc();
    }
}
