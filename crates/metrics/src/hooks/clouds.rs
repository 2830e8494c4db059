//! Metrics of requests to the cloud: with the names of the Go programs (MET-40), and with names that are the same for
//! all clouds.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudMetrics, ProviderSeries};
use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec};

use crate::histogram::{Histogram, HistogramVec};
use crate::hooks::{Credential, OwnSeries, Reloads, code, number};
use crate::registry::Registry;
use crate::resolved::Resolved;
use crate::series::{
    CLOUD_API_CACHE, CLOUD_API_DURATION, CLOUD_API_PAUSES, CLOUD_API_REMAINING, CLOUD_API_REQUESTS,
    CLOUD_REQUEST_DURATION, CLOUD_REQUEST_ERRORS, CLOUD_THROTTLED,
};

/// Label value of all operations beyond the limit of distinct label values (MET-41).
const OTHER: &str = "other";
/// HTTP status "Too Many Requests".
const THROTTLED: u16 = 429;

/// The series that are the same for all clouds.
#[derive(Clone)]
pub(crate) struct OwnCloud {
    requests: IntCounterVec,
    duration: HistogramVec,
    remaining: GaugeVec,
    pauses: Histogram,
    hits: IntCounter,
    misses: IntCounter,
    reloads: Reloads,
}

/// The metrics of one cloud.
pub(crate) struct Cloud {
    own: OwnCloud,
    duration: HistogramVec,
    errors: IntCounterVec,
    throttled: IntCounterVec,
    operations: Resolved<Box<str>, Operation>,
    remaining: Resolved<(), Gauge>,
    series: OwnSeries,
}

struct Operation {
    name: Box<str>,
    own_duration: Histogram,
    duration: Histogram,
    codes: Resolved<Option<u16>, IntCounter>,
    errors: IntCounter,
}

impl OwnCloud {
    pub(crate) fn new(registry: &Registry, reloads: Reloads) -> Self {
        let cache = registry.counters(CLOUD_API_CACHE);
        Self {
            requests: registry.counters(CLOUD_API_REQUESTS),
            duration: registry.histograms(CLOUD_API_DURATION),
            remaining: registry.gauges(CLOUD_API_REMAINING),
            pauses: registry.histogram(CLOUD_API_PAUSES),
            hits: cache.with_label_values(&["hit"]),
            misses: cache.with_label_values(&["miss"]),
            reloads,
        }
    }
}

impl Cloud {
    pub(crate) fn new(own: OwnCloud, registry: &Registry, provider: &str) -> Self {
        let series = OwnSeries::new(registry);
        let registry = registry.of_provider(provider);
        Self {
            own,
            series,
            duration: registry.histograms(CLOUD_REQUEST_DURATION),
            errors: registry.counters(CLOUD_REQUEST_ERRORS),
            throttled: registry.counters(CLOUD_THROTTLED),
            operations: Resolved::default(),
            remaining: Resolved::default(),
        }
    }

    fn operation(&self, name: &str) -> Option<Arc<Operation>> {
        self.operations
            .get(|known| **known == *name, || (name.into(), self.make(name)))
    }

    fn make(&self, name: &str) -> Operation {
        Operation {
            name: name.into(),
            own_duration: self.own.duration.with_label_values(&[name]),
            duration: self.duration.with_label_values(&[name]),
            codes: Resolved::default(),
            errors: self.errors.with_label_values(&[name]),
        }
    }
}

impl CloudMetrics for Cloud {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let made;
        let operation = match self.operation(operation) {
            Some(known) => known,
            // Occurs only if the provider uses IDs as label values.
            None => {
                made = Arc::new(self.make(OTHER));
                made
            }
        };
        operation.own_duration.observe(took.as_secs_f64());
        operation.duration.observe(took.as_secs_f64());
        let count = operation.codes.get(
            |known| *known == status,
            || {
                (
                    status,
                    self.own
                        .requests
                        .with_label_values(&[&*operation.name, &code(status)]),
                )
            },
        );
        if let Some(count) = count {
            count.inc();
        }
        if is_error(status) {
            operation.errors.inc();
        }
        if status == Some(THROTTLED) {
            self.throttled.with_label_values(&[&*operation.name]).inc();
        }
    }

    fn paused(&self, pause: Duration) {
        self.own.pauses.observe(pause.as_secs_f64());
    }

    fn remaining(&self, requests: u64) {
        let gauge = self.remaining.get(
            |()| true,
            || ((), self.own.remaining.with_label_values::<&str>(&[])),
        );
        if let Some(gauge) = gauge {
            gauge.set(number(usize::try_from(requests).unwrap_or(usize::MAX)));
        }
    }

    fn cached(&self, hit: bool) {
        if hit {
            &self.own.hits
        } else {
            &self.own.misses
        }
        .inc();
    }

    fn credential_changed(&self, is_in_use: bool) {
        self.own.reloads.count(Credential::Cloud, is_in_use);
    }

    fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
        self.series.record(series, labels, value);
    }
}

/// Returns `true` if a request failed. HTTP 404 is no failure, because look-ups ask whether an object exists.
fn is_error(status: Option<u16>) -> bool {
    status.is_none_or(|status| status >= 400 && status != 404)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Exposed;

    #[test]
    fn missing_object_is_no_error() {
        let errors: Vec<u16> = [200, 204, 304, 400, 401, 404, 409, 429, 500]
            .into_iter()
            .filter(|s| is_error(Some(*s)))
            .collect();
        assert_eq!(errors, [400, 401, 409, 429, 500]);
        assert!(is_error(None));
    }

    #[test]
    fn a_provider_that_labels_with_ids_is_bounded() {
        let registry = Registry::default();
        let cloud = Cloud::new(
            OwnCloud::new(&registry, Reloads::new(&registry)),
            &registry,
            "acme",
        );
        for id in 0..1000 {
            cloud.finished(
                &format!("GET /machines/{id}"),
                Some(200),
                Duration::from_millis(1),
            );
        }
        let mut families = registry.gather().into_iter();
        let requests = families.find_map(|family| match family {
            Exposed::Counted(family) if family.name() == CLOUD_API_REQUESTS.name => Some(family),
            _ => None,
        });
        let requests = requests.unwrap();
        assert_eq!(requests.get_metric().len(), 257);
        let other = requests.get_metric().iter().find(|metric| {
            metric
                .get_label()
                .iter()
                .any(|label_pair| label_pair.value() == OTHER)
        });
        assert_eq!(
            other.map(|metric| metric.get_counter().get_value()),
            Some(744.0)
        );
    }
}
