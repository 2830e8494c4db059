//! Figures that are computed when somebody asks, because something else holds what they are made of.

use crate::series::Series;

/// A series with its samples as they are now: the values of its labels, in their order, and the number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Computed {
    pub(crate) series: &'static Series,
    pub(crate) samples: Vec<(Vec<String>, f64)>,
}

/// Samples that are being collected.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Computed>);

impl Samples {
    /// A sample of a series without labels.
    pub(crate) fn put(&mut self, series: &'static Series, number: f64) {
        self.put_by(series, &[], number);
    }

    /// A sample of a series with labels.
    pub(crate) fn put_by(&mut self, series: &'static Series, labels: &[&str], number: f64) {
        debug_assert_eq!(series.labels.len(), labels.len(), "{}", series.name);
        let sample = (labels.iter().map(|&value| value.to_owned()).collect(), number);
        match self.0.iter_mut().find(|computed| computed.series.name == series.name) {
            Some(computed) => computed.samples.push(sample),
            None => self.0.push(Computed { series, samples: vec![sample] }),
        }
    }

    /// All of them, by name.
    pub(crate) fn sorted(mut self) -> Vec<Computed> {
        self.0.sort_by_key(|computed| computed.series.name);
        self.0
    }
}

/// Something that knows figures.
pub(crate) type Source = Box<dyn Fn(&mut Samples) + Send + Sync>;
