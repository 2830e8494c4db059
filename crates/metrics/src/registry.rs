//! Creates metrics from the declarations of series.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cloud_provider::ProviderSeries;
use parking_lot::RwLock;
use prometheus::core::Collector;
use prometheus::{Error, Gauge, GaugeVec, IntCounter, IntCounterVec, Opts, Registry as Collectors};
use runtime::clock::Clock;

use crate::exposition::Exposed;
use crate::histogram::{Histogram, HistogramVec, Histograms};
use crate::hooks::Family;
use crate::series::{PROVIDER, Series};

/// Panic message for errors that cannot occur, because a test registers every series.
const SOUND: &str =
    "the tables of series are sound, and each series is made once: a test makes all of them";

/// The registry, which creates metrics from declarations and collects them. Clones share all metrics.
#[derive(Clone)]
pub(crate) struct Registry {
    collectors: Collection,
    /// Series about requests to a cloud that its provider declares. They replace those of all clouds that have the same
    /// name, because a provider has the labels of its Go program.
    declared: Collection,
    provider: String,
    histograms: Histograms,
}

/// Registered series. The library knows the counters and gauges, and only the names of the histograms.
#[derive(Clone, Default)]
struct Collection {
    library: Collectors,
    histograms: Arc<RwLock<Vec<HistogramVec>>>,
}

impl Collection {
    fn register<C: Collector + 'static>(&self, collector: C) -> Result<(), Error> {
        self.library.register(Box::new(collector))
    }

    fn register_histograms(&self, histograms: &HistogramVec) -> Result<(), Error> {
        self.register(histograms.clone())?;
        self.histograms.write().push(histograms.clone());
        Ok(())
    }

    fn gather(&self) -> Vec<Exposed> {
        let histograms = self
            .histograms
            .read()
            .clone()
            .into_iter()
            .filter(|family| !family.is_empty());
        self.library
            .gather()
            .into_iter()
            .map(Exposed::Counted)
            .chain(histograms.map(Exposed::Histograms))
            .collect()
    }
}

impl Registry {
    /// Returns an empty registry, with this clock for the creation times of histograms.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let histograms = Histograms {
            clock,
            is_native: Arc::new(true.into()),
        };
        Self {
            collectors: Collection::default(),
            declared: Collection::default(),
            provider: String::new(),
            histograms,
        }
    }

    /// Returns the registry for the series whose names contain the name of this provider.
    pub(crate) fn of_provider(&self, name: &str) -> Self {
        let allowed = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        Self {
            provider: name.chars().map(allowed).collect(),
            ..self.clone()
        }
    }

    pub(crate) fn counter(&self, series: &Series) -> IntCounter {
        self.shown(IntCounter::with_opts(self.options(series)).expect(SOUND))
    }

    pub(crate) fn counters(&self, series: &Series) -> IntCounterVec {
        self.shown(IntCounterVec::new(self.options(series), series.labels).expect(SOUND))
    }

    pub(crate) fn gauge(&self, series: &Series) -> Gauge {
        self.shown(Gauge::with_opts(self.options(series)).expect(SOUND))
    }

    pub(crate) fn gauges(&self, series: &Series) -> GaugeVec {
        self.shown(GaugeVec::new(self.options(series), series.labels).expect(SOUND))
    }

    pub(crate) fn histogram(&self, series: &Series) -> Histogram {
        self.histograms(series).with_label_values(&[])
    }

    pub(crate) fn histograms(&self, series: &Series) -> HistogramVec {
        let histograms = self.histograms.clone();
        let options = self.options(series);
        let family =
            HistogramVec::new(histograms, options, series.labels, series.buckets).expect(SOUND);
        self.collectors.register_histograms(&family).expect(SOUND);
        family
    }

    /// Forgets the native buckets of all histograms, and gives none to new ones.
    pub(crate) fn disable_native_histograms(&self) {
        self.histograms.is_native.store(false, Ordering::Relaxed);
        for collection in [&self.collectors, &self.declared] {
            collection
                .histograms
                .read()
                .iter()
                .for_each(HistogramVec::drop_native);
        }
    }

    pub(crate) fn has_native_histograms(&self) -> bool {
        self.histograms.is_native.load(Ordering::Relaxed)
    }

    /// Registers a series that a provider declares. The declaration may be invalid, or its name may be taken.
    pub(crate) fn of_a_provider(&self, series: &ProviderSeries) -> Result<Family, Error> {
        let options = Opts::new(series.name, series.help);
        let family = Family::new(series.kind, options, series.labels, self.histograms.clone())?;
        let replaces = series.name.starts_with("cloudprovider_");
        let collectors = if replaces {
            &self.declared
        } else {
            &self.collectors
        };
        match &family {
            Family::Counter(family) => collectors.register(family.clone()),
            Family::Gauge(family) => collectors.register(family.clone()),
            Family::Histogram(family) => collectors.register_histograms(family),
        }?;
        Ok(family)
    }

    /// Returns all series with their current values, sorted by name; series without samples are left out (MET-3).
    pub(crate) fn gather(&self) -> Vec<Exposed> {
        let mut families = self.declared.gather();
        let names: HashSet<String> = families
            .iter()
            .map(|family| family.name().to_owned())
            .collect();
        families.extend(
            self.collectors
                .gather()
                .into_iter()
                .filter(|gather| !names.contains(gather.name())),
        );
        families.sort_by(|a, b| a.name().cmp(b.name()));
        families
    }

    fn options(&self, series: &Series) -> Opts {
        Opts::new(
            series.name.replace(PROVIDER, &self.provider),
            series.help_text(),
        )
    }

    fn shown<C: Collector + Clone + 'static>(&self, collector: C) -> C {
        self.collectors.register(collector.clone()).expect(SOUND);
        collector
    }
}

#[cfg(test)]
impl Default for Registry {
    fn default() -> Self {
        Self::new(Arc::new(runtime::clock::SystemClock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Kind, all};

    #[test]
    fn every_declaration_can_be_made() {
        let registry = Registry::default().of_provider("Acme-Cloud");
        let mut names = std::collections::HashSet::new();
        for series in all().filter(|series| names.insert(series.name)) {
            match (series.kind, series.labels) {
                (Kind::Counter, []) => drop(registry.counter(series)),
                (Kind::Counter, _) => drop(registry.counters(series)),
                (Kind::Gauge, []) => drop(registry.gauge(series)),
                (Kind::Gauge, _) => drop(registry.gauges(series)),
                (Kind::Histogram, []) => drop(registry.histogram(series)),
                (Kind::Histogram, _) => drop(registry.histograms(series)),
            }
        }
        registry.gather();
    }

    #[test]
    fn a_provider_s_name_is_made_fit_for_a_metric() {
        let registry = Registry::default().of_provider("Acme-Cloud");
        registry
            .counters(crate::series::CLOUD_REQUEST_ERRORS)
            .with_label_values(&["GET /x"])
            .inc();
        assert_eq!(
            registry.gather()[0].name(),
            "cloudprovider_acme_cloud_api_request_errors"
        );
    }
}
