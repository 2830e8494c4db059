//! Metrics of the reconciliations of a controller (MET-50).

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec};
use runtime::clock::Clock;

use crate::histogram::{Histogram, HistogramVec};
use crate::hooks::result;
use crate::registry::Registry;
use crate::resolved::Resolved;
use crate::series::{RECONCILE_DURATION, RECONCILE_LAST_SUCCESS, RECONCILES};

/// The reconciliation series of all controllers.
#[derive(Clone)]
pub(crate) struct Reconciles {
    total: IntCounterVec,
    duration: HistogramVec,
    last_success: GaugeVec,
    clock: Arc<dyn Clock>,
}

/// The reconciliation series of one controller.
pub(crate) struct Reconcile {
    name: &'static str,
    successes: IntCounter,
    errors: IntCounter,
    duration: Histogram,
    last_success: Resolved<(), Gauge>,
    all: Reconciles,
}

impl Reconciles {
    pub(crate) fn new(registry: &Registry, clock: Arc<dyn Clock>) -> Self {
        Self {
            total: registry.counters(RECONCILES),
            duration: registry.histograms(RECONCILE_DURATION),
            last_success: registry.gauges(RECONCILE_LAST_SUCCESS),
            clock,
        }
    }

    pub(crate) fn of(&self, controller: &'static str) -> Reconcile {
        let total = |succeeded| {
            self.total
                .with_label_values(&[controller, result(succeeded)])
        };
        Reconcile {
            name: controller,
            successes: total(true),
            errors: total(false),
            duration: self.duration.with_label_values(&[controller]),
            last_success: Resolved::default(),
            all: self.clone(),
        }
    }
}

impl Reconcile {
    pub(crate) fn ended(&self, took: Duration, succeeded: bool) {
        self.duration.observe(took.as_secs_f64());
        if !succeeded {
            return self.errors.inc();
        }
        self.successes.inc();
        // Before the first success there is no sample, because 0 would be a time long ago.
        let last = || ((), self.all.last_success.with_label_values(&[self.name]));
        if let Some(last) = self.last_success.get(|()| true, last) {
            last.set(self.all.clock.now().as_duration().as_secs_f64());
        }
    }
}
