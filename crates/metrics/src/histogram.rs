//! Histograms with the buckets that their series declares, and with native ones (MET-7).
//!
//! One lock covers both, because a scraper refuses a native histogram whose count differs from that of its buckets. The
//! lock is held for one observation or for one copy.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, Opts};
use runtime::clock::Clock;

use crate::native::NativeHistogram;
use crate::series::CONVENTIONAL;

/// Label of a bucket's bound, which no series may have.
const BOUND: &str = "le";

/// A histogram with fixed label values. Clones share the observations.
#[derive(Clone)]
pub(crate) struct Histogram(Arc<Observed>);

struct Observed {
    bounds: &'static [f64],
    created: Timestamp,
    state: Mutex<State>,
}

struct State {
    count: u64,
    sum: f64,
    buckets: Box<[u64]>,
    native: Option<NativeHistogram>,
}

/// The observations of a histogram at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// Upper bound of each declared bucket, and the number of observations up to this bound.
    pub(crate) buckets: Vec<(f64, u64)>,
    pub(crate) native: Option<NativeHistogram>,
    pub(crate) created: Timestamp,
}

impl Histogram {
    pub(crate) fn observe(&self, value: f64) {
        let Observed { bounds, state, .. } = &*self.0;
        let bucket = bounds.iter().position(|bound| value <= *bound);
        let mut state = state.lock();
        state.count += 1;
        state.sum += value;
        if let Some(bucket) = bucket {
            state.buckets[bucket] += 1;
        }
        if let Some(native) = &mut state.native {
            native.observe(value);
        }
    }

    /// Returns the observations so far.
    pub(crate) fn sample(&self) -> Sample {
        let Observed {
            bounds,
            created,
            state,
        } = &*self.0;
        let state = state.lock();
        let mut below = 0;
        let cumulate = |(bound, count): (&f64, &u64)| {
            below += count;
            (*bound, below)
        };
        let buckets = bounds.iter().zip(&state.buckets).map(cumulate).collect();
        Sample {
            count: state.count,
            sum: state.sum,
            buckets,
            native: state.native.clone(),
            created: *created,
        }
    }
}

/// Creator of histograms: source of creation times, and the switch of native histograms.
#[derive(Clone)]
pub(crate) struct Histograms {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) is_native: Arc<AtomicBool>,
}

/// The histograms of a series. Clones share them.
#[derive(Clone)]
pub(crate) struct HistogramVec(Arc<Family>);

struct Family {
    desc: Desc,
    bounds: &'static [f64],
    /// Positions of the labels in the order of their names, which is the order in which a scrape shows them.
    order: Box<[usize]>,
    histograms: Histograms,
    /// Histograms with their label values in that order, sorted by these values.
    children: RwLock<Vec<(LabelValues, Histogram)>>,
}

type LabelValues = Box<[Box<str>]>;

impl HistogramVec {
    /// Returns a family without histograms. The options, the labels or the bounds may be invalid.
    pub(crate) fn new(
        histograms: Histograms,
        options: Opts,
        labels: &[&str],
        bounds: &'static [f64],
    ) -> Result<Self, Error> {
        let desc = Desc::new(
            options.name,
            options.help,
            labels.iter().map(|&label| label.to_owned()).collect(),
            HashMap::new(),
        )?;
        if labels.contains(&BOUND) {
            return Err(Error::Msg(format!(
                "label {BOUND} of {} is reserved for bounds",
                desc.fq_name
            )));
        }
        let bounds = if bounds.is_empty() {
            CONVENTIONAL
        } else {
            bounds
        };
        if let Some(pair) = bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(Error::Msg(format!(
                "bounds of {} must rise: {} >= {}",
                desc.fq_name, pair[0], pair[1]
            )));
        }
        // The last bucket is implicit.
        let bounds = bounds.strip_suffix(&[f64::INFINITY]).unwrap_or(bounds);
        let mut order: Box<[usize]> = (0..labels.len()).collect();
        order.sort_by_key(|&label| labels[label]);
        Ok(Self(Arc::new(Family {
            desc,
            bounds,
            order,
            histograms,
            children: RwLock::default(),
        })))
    }

    /// Returns the histogram with these label values, in the order of the declaration, created at its first use.
    pub(crate) fn with_label_values(&self, values: &[&str]) -> Histogram {
        let Family {
            order, children, ..
        } = &*self.0;
        assert_eq!(order.len(), values.len(), "label values of {}", self.name());
        let find = |children: &[(LabelValues, Histogram)]| {
            children.binary_search_by(|(known, _)| {
                known
                    .iter()
                    .map(|text| &**text)
                    .cmp(order.iter().map(|&order| values[order]))
            })
        };
        let known = children.read();
        if let Ok(at) = find(&known) {
            return known[at].1.clone();
        }
        drop(known);
        let mut children = children.write();
        match find(&children) {
            Ok(at) => children[at].1.clone(),
            Err(at) => {
                let histogram = self.new_histogram();
                children.insert(
                    at,
                    (
                        order.iter().map(|&label| values[label].into()).collect(),
                        histogram.clone(),
                    ),
                );
                histogram
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.desc.fq_name
    }

    pub(crate) fn help(&self) -> &str {
        &self.0.desc.help
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.children.read().is_empty()
    }

    /// Calls a function with the labels and the observations of each histogram, in the order of a scrape.
    pub(crate) fn for_each(&self, mut shown: impl FnMut(&[(&str, &str)], &Sample)) {
        let Family {
            desc,
            order,
            children,
            ..
        } = &*self.0;
        // A copy, because nobody should wait for a scrape to create a histogram.
        let children = children.read().clone();
        for (values, histogram) in &children {
            let names = order
                .iter()
                .map(|&label| desc.variable_labels[label].as_str());
            let labels: Vec<_> = names.zip(values.iter().map(|value| &**value)).collect();
            shown(&labels, &histogram.sample());
        }
    }

    /// Forgets the native buckets.
    pub(crate) fn drop_native(&self) {
        for (_, histogram) in &*self.0.children.read() {
            histogram.0.state.lock().native = None;
        }
    }

    fn new_histogram(&self) -> Histogram {
        let Family {
            bounds,
            histograms: Histograms { clock, is_native },
            ..
        } = &*self.0;
        let native = is_native
            .load(Ordering::Relaxed)
            .then(NativeHistogram::default);
        let state = State {
            count: 0,
            sum: 0.0,
            buckets: vec![0; bounds.len()].into(),
            native,
        };
        Histogram(Arc::new(Observed {
            bounds,
            created: clock.now(),
            state: Mutex::new(state),
        }))
    }
}

/// Reserves the name of the series in the registry of the library, which does not know native histograms.
impl Collector for HistogramVec {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::clock::SystemClock;

    fn family(labels: &[&str], bounds: &'static [f64]) -> Result<HistogramVec, Error> {
        let histograms = Histograms {
            clock: Arc::new(SystemClock),
            is_native: Arc::new(true.into()),
        };
        HistogramVec::new(histograms, Opts::new("seconds", "Time."), labels, bounds)
    }

    #[test]
    fn bucket_contains_its_bound_and_the_last_one_has_none() {
        let histogram = family(&[], &[1.0, 2.0, f64::INFINITY])
            .unwrap()
            .with_label_values(&[]);
        for value in [-1.0, 1.0, 1.5, 2.0, 3.0, f64::NAN, f64::INFINITY] {
            histogram.observe(value);
        }
        let sample = histogram.sample();
        assert_eq!(
            (sample.count, sample.buckets),
            (7, vec![(1.0, 2), (2.0, 4)])
        );
    }

    #[test]
    fn labels_are_sorted_by_name_and_histograms_by_value() {
        let family = family(&["verb", "host"], &[1.0]).unwrap();
        assert!(family.is_empty());
        for labels in [["b", "x"], ["a", "y"], ["a", "x"], ["b", "x"]] {
            family.with_label_values(&labels).observe(0.5);
        }
        let mut shown = Vec::new();
        family.for_each(|labels, sample| shown.push(format!("{labels:?} {}", sample.count)));
        let expected = [
            r#"[("host", "x"), ("verb", "a")] 1"#,
            r#"[("host", "x"), ("verb", "b")] 2"#,
            r#"[("host", "y"), ("verb", "a")] 1"#,
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn invalid_declaration_is_refused() {
        let error = |labels, bounds| {
            family(labels, bounds)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(error(&[], &[2.0, 1.0]).contains("bounds of seconds must rise: 2 >= 1"));
        assert!(error(&["le"], &[1.0]).contains("label le of seconds is reserved"));
        assert!(error(&["a-b"], &[1.0]).contains("not a valid label name"));
        assert_eq!(error(&["verb"], &[]), "", "the conventional bounds");
    }

    #[test]
    fn threads_lose_no_observation_and_no_sample_is_torn() {
        let family = family(&["verb"], &[0.5]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..2000)
                        .for_each(|n| family.with_label_values(&["get"]).observe(f64::from(n % 7)));
                });
            }
            for _ in 0..200 {
                family.for_each(|_, sample| {
                    let native = sample.native.as_ref().unwrap();
                    let mut count = 0;
                    let mut counted = native.zeros;
                    for delta in native.positive.spans().deltas {
                        count += delta;
                        counted += u64::try_from(count).unwrap();
                    }
                    assert_eq!(sample.count, counted);
                });
            }
        });
        assert_eq!(family.with_label_values(&["get"]).sample().count, 8000);
    }
}
