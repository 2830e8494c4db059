//! Creates metrics from the declarations of series.

use std::collections::HashSet;

use cloud_provider::ProviderSeries;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry as Collectors,
};

use crate::hooks::Family;
use crate::series::{PROVIDER, Series};

/// Panic message for errors that cannot occur, because a test registers every series.
const SOUND: &str = "the tables of series are sound, and each series is made once: a test makes all of them";

/// The registry, which creates metrics from declarations and collects them. Clones share all metrics.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    collectors: Collectors,
    /// Series about requests to a cloud that its provider declares. They replace those of all clouds that have the same
    /// name, because a provider has the labels of its Go program.
    declared: Collectors,
    provider: String,
}

impl Registry {
    /// Returns the registry for the series whose names contain the name of this provider.
    pub(crate) fn of_provider(&self, name: &str) -> Self {
        let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let (collectors, declared) = (self.collectors.clone(), self.declared.clone());
        Self { collectors, declared, provider: name.chars().map(allowed).collect() }
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
        self.shown(Histogram::with_opts(self.histogram_options(series)).expect(SOUND))
    }

    pub(crate) fn histograms(&self, series: &Series) -> HistogramVec {
        self.shown(HistogramVec::new(self.histogram_options(series), series.labels).expect(SOUND))
    }

    /// Registers a series that a provider declares. The declaration may be invalid, or its name may be taken.
    pub(crate) fn of_a_provider(&self, series: &ProviderSeries) -> Result<Family, prometheus::Error> {
        let family = Family::new(series.kind, Opts::new(series.name, series.help), series.labels)?;
        let replaces = series.name.starts_with("cloudprovider_");
        let collectors = if replaces { &self.declared } else { &self.collectors };
        collectors.register(match family.clone() {
            Family::Counter(family) => Box::new(family),
            Family::Gauge(family) => Box::new(family),
            Family::Histogram(family) => Box::new(family),
        })?;
        Ok(family)
    }

    /// Returns the current values of all series, sorted by name; series without samples are left out (MET-3).
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        let mut families = self.declared.gather();
        let names: HashSet<String> = families.iter().map(|it| it.name().to_owned()).collect();
        families.extend(self.collectors.gather().into_iter().filter(|it| !names.contains(it.name())));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        families
    }

    fn options(&self, series: &Series) -> Opts {
        Opts::new(series.name.replace(PROVIDER, &self.provider), series.help_text())
    }

    fn histogram_options(&self, series: &Series) -> HistogramOpts {
        HistogramOpts::from(self.options(series)).buckets(series.buckets.to_vec())
    }

    fn shown<C: Collector + Clone + 'static>(&self, collector: C) -> C {
        self.collectors.register(Box::new(collector.clone())).expect(SOUND);
        collector
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
        registry.counters(crate::series::CLOUD_REQUEST_ERRORS).with_label_values(&["GET /x"]).inc();
        assert_eq!(registry.gather()[0].name(), "cloudprovider_acme_cloud_api_request_errors");
    }
}
