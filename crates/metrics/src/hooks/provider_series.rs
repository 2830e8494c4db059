//! Series that a provider declares; each is registered when it is first recorded.

use std::collections::HashMap;
use std::sync::Arc;

use cloud_provider::{ProviderSeries, SeriesKind};
use parking_lot::Mutex;
use prometheus::{CounterVec, GaugeVec};

use crate::histogram::{Histogram, HistogramVec, Histograms};
use crate::registry::Registry;
use crate::resolved::Resolved;

/// Label value that replaces further label values once a series has 256 children (MET-41).
const OTHER: &str = "other";

/// The series of a provider.
pub(crate) struct OwnSeries {
    registry: Registry,
    known: Resolved<&'static str, Kept>,
    /// Registered families by name; `None` if the name or the labels are invalid. The lock ensures that a series is
    /// registered only once if two threads record its first value at the same time.
    made: Mutex<HashMap<&'static str, Option<Family>>>,
}

/// Values of a series' labels.
type Labels = Arc<[Box<str>]>;

/// A series, with the children for the label values seen so far.
struct Kept {
    family: Option<Family>,
    children: Resolved<Labels, Child>,
}

#[derive(Clone)]
pub(crate) enum Family {
    Counter(CounterVec),
    Gauge(GaugeVec),
    Histogram(HistogramVec),
}

enum Child {
    Counter(prometheus::Counter),
    Gauge(prometheus::Gauge),
    Histogram(Histogram),
}

impl OwnSeries {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            registry: registry.clone(),
            known: Resolved::default(),
            made: Mutex::default(),
        }
    }

    pub(crate) fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
        if labels.len() != series.labels.len() {
            debug_assert_eq!(
                labels.len(),
                series.labels.len(),
                "labels of {}",
                series.name
            );
            return;
        }
        let make = || {
            (
                series.name,
                Kept {
                    family: self.make(series),
                    children: Resolved::default(),
                },
            )
        };
        let Some(kept) = self.known.get(|name| *name == series.name, make) else {
            return;
        };
        let Some(family) = &kept.family else { return };
        let is_this_known = |known: &Labels| {
            known
                .iter()
                .map(|label| &**label)
                .eq(labels.iter().copied())
        };
        let make = || {
            (
                labels.iter().map(|&label| label.into()).collect(),
                family.child(labels),
            )
        };
        match kept.children.get(is_this_known, make) {
            Some(child) => child.add(value),
            None => family.child(&vec![OTHER; labels.len()]).add(value),
        }
    }

    fn make(&self, series: &'static ProviderSeries) -> Option<Family> {
        let mut made = self.made.lock();
        let family = made.entry(series.name).or_insert_with(|| {
            let family = self.registry.of_a_provider(series);
            family
                .inspect_err(
                    |error| tracing::warn!(series = series.name, %error, "series not shown"),
                )
                .ok()
        });
        family.clone()
    }
}

impl Family {
    /// Returns the child for these labels. The caller has checked the number of labels, which is the only possible
    /// error.
    fn child(&self, labels: &[&str]) -> Child {
        match self {
            Self::Counter(family) => Child::Counter(family.with_label_values(labels)),
            Self::Gauge(family) => Child::Gauge(family.with_label_values(labels)),
            Self::Histogram(family) => Child::Histogram(family.with_label_values(labels)),
        }
    }

    /// Returns a family of this kind.
    pub(crate) fn new(
        kind: SeriesKind,
        options: prometheus::Opts,
        labels: &[&str],
        histograms: Histograms,
    ) -> Result<Self, prometheus::Error> {
        Ok(match kind {
            SeriesKind::Counter => Self::Counter(CounterVec::new(options, labels)?),
            SeriesKind::Gauge => Self::Gauge(GaugeVec::new(options, labels)?),
            SeriesKind::Histogram(bounds) => {
                Self::Histogram(HistogramVec::new(histograms, options, labels, bounds)?)
            }
        })
    }
}

impl Child {
    fn add(&self, value: f64) {
        match self {
            // A negative value is a mistake of the provider, which must not end the process.
            Self::Counter(counter) if value >= 0.0 => counter.inc_by(value),
            Self::Counter(_) => {}
            Self::Gauge(gauge) => gauge.add(value),
            Self::Histogram(histogram) => histogram.observe(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNTER: ProviderSeries = ProviderSeries {
        name: "acme_requests_total",
        kind: SeriesKind::Counter,
        labels: &["code", "method"],
        help: "Requests.",
    };
    static GAUGE: ProviderSeries = ProviderSeries {
        name: "acme_in_flight",
        kind: SeriesKind::Gauge,
        labels: &[],
        help: "In flight.",
    };
    static HISTOGRAM: ProviderSeries = ProviderSeries {
        name: "acme_seconds",
        kind: SeriesKind::Histogram(&[0.5, 1.0]),
        labels: &["method"],
        help: "Time.",
    };

    fn text(registry: &Registry) -> String {
        crate::text::write(&registry.gather())
    }

    #[test]
    fn series_of_each_kind_are_there_from_their_first_value() {
        let registry = Registry::default();
        let series = OwnSeries::new(&registry);
        assert_eq!(text(&registry), "");
        series.record(&COUNTER, &["200", "get"], 1.0);
        series.record(&COUNTER, &["200", "get"], 2.0);
        series.record(&COUNTER, &["200", "get"], -1.0);
        series.record(&GAUGE, &[], 1.0);
        series.record(&GAUGE, &[], -1.0);
        series.record(&HISTOGRAM, &["get"], 0.7);
        let text = text(&registry);
        for line in [
            "# HELP acme_requests_total Requests.\n# TYPE acme_requests_total counter\n",
            "acme_requests_total{code=\"200\",method=\"get\"} 3\n",
            "# TYPE acme_in_flight gauge\nacme_in_flight 0\n",
            "acme_seconds_bucket{method=\"get\",le=\"1\"} 1\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in:\n{text}");
        }
    }

    #[test]
    fn label_values_are_bounded_and_a_name_that_is_taken_costs_nothing_else() {
        let registry = Registry::default();
        let series = OwnSeries::new(&registry);
        for id in 0..1000 {
            series.record(&COUNTER, &[&id.to_string(), "get"], 1.0);
        }
        let text = text(&registry);
        assert_eq!(
            text.lines().filter(|line| !line.starts_with('#')).count(),
            257,
            "{text}"
        );
        assert!(
            text.contains("acme_requests_total{code=\"other\",method=\"other\"} 744\n"),
            "{text}"
        );

        static TAKEN: ProviderSeries = ProviderSeries {
            name: "workqueue_depth",
            kind: SeriesKind::Gauge,
            labels: &["name"],
            help: "Somebody else's.",
        };
        registry.gauges(
            crate::series::all()
                .find(|series| series.name == TAKEN.name)
                .unwrap(),
        );
        series.record(&TAKEN, &["x"], 7.0);
        series.record(&GAUGE, &[], 2.0);
        assert!(super::tests::text(&registry).contains("acme_in_flight 2\n"));
    }

    #[test]
    fn a_series_of_the_provider_replaces_that_of_all_clouds() {
        static ERRORS: ProviderSeries = ProviderSeries {
            name: "cloudprovider_acme_api_request_errors",
            kind: SeriesKind::Counter,
            labels: &["request", "region"],
            help: "Errors.",
        };
        let registry = Registry::default().of_provider("acme");
        let series = OwnSeries::new(&registry);
        registry
            .counters(crate::series::CLOUD_REQUEST_ERRORS)
            .with_label_values(&["GET /x"])
            .inc();
        assert!(
            text(&registry)
                .contains("cloudprovider_acme_api_request_errors{request=\"GET /x\"} 1\n")
        );
        series.record(&ERRORS, &["x_get", "here"], 1.0);
        let text = text(&registry);
        assert!(
            text.contains(
                "cloudprovider_acme_api_request_errors{region=\"here\",request=\"x_get\"} 1\n"
            ),
            "{text}"
        );
        assert!(!text.contains("GET /x"), "{text}");
    }

    #[test]
    fn histogram_of_the_provider_replaces_that_of_all_clouds() {
        static DURATION: ProviderSeries = ProviderSeries {
            name: "cloudprovider_acme_api_request_duration_seconds",
            kind: SeriesKind::Histogram(&[2.0]),
            labels: &["request"],
            help: "Time.",
        };
        let registry = Registry::default().of_provider("acme");
        let series = OwnSeries::new(&registry);
        let buckets = || {
            text(&registry)
                .matches("cloudprovider_acme_api_request_duration_seconds_bucket")
                .count()
        };
        registry
            .histograms(crate::series::CLOUD_REQUEST_DURATION)
            .with_label_values(&["GET /x"])
            .observe(1.0);
        assert!(buckets() > 2, "{}", text(&registry));
        series.record(&DURATION, &["x_get"], 1.0);
        assert_eq!(buckets(), 2, "{}", text(&registry));
    }
}
