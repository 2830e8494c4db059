//! Samples that are computed at each scrape, from data that other components hold.

use crate::exposition::Exposed;
use crate::series::Series;

/// A series with its current samples: the label values, in order, and the number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Computed {
    pub(crate) series: &'static Series,
    pub(crate) samples: Vec<(Vec<String>, f64)>,
}

/// A collector of samples.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Computed>);

impl Samples {
    /// Adds a sample of a series without labels.
    pub(crate) fn put(&mut self, series: &'static Series, number: f64) {
        self.put_by(series, &[], number);
    }

    /// Adds a sample of a series with labels.
    pub(crate) fn put_by(&mut self, series: &'static Series, labels: &[&str], number: f64) {
        debug_assert_eq!(series.labels.len(), labels.len(), "{}", series.name);
        let sample = (
            labels.iter().map(|&value| value.to_owned()).collect(),
            number,
        );
        match self
            .0
            .iter_mut()
            .find(|computed| computed.series.name == series.name)
        {
            Some(computed) => computed.samples.push(sample),
            None => self.0.push(Computed {
                series,
                samples: vec![sample],
            }),
        }
    }

    /// Returns the series with their samples.
    pub(crate) fn exposed(self) -> impl Iterator<Item = Exposed> {
        self.0.into_iter().map(Exposed::Computed)
    }
}

/// A function that adds samples at each scrape.
pub(crate) type Source = Box<dyn Fn(&mut Samples) + Send + Sync>;
