//! The families of series that a scrape returns, in any format.

use prometheus::proto::MetricFamily;

use crate::histogram::HistogramVec;
use crate::samples::Computed;

/// A family of series with its current values.
pub(crate) enum Exposed {
    /// Counters or gauges of the registry.
    Counted(MetricFamily),
    /// Histograms, which are read when they are written.
    Histograms(HistogramVec),
    /// Values that were computed for this scrape.
    Computed(Computed),
}

impl Exposed {
    /// Returns the name of the series.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Counted(family) => family.name(),
            Self::Histograms(family) => family.name(),
            Self::Computed(family) => family.series.name,
        }
    }
}
