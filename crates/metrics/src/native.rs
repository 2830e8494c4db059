//! Native histograms: exponential buckets, of which only those with observations exist (MET-7).
//!
//! Index, resolution and limit of the buckets are those of the Go library `client_golang` with the options of
//! Kubernetes: eight buckets for each power of two, and fewer once a histogram has more than 160.

/// Schema of a new histogram: 2^3 buckets for each power of two, so that a bucket is at most 1.1 times as wide as the
/// one before.
const FINEST_SCHEMA: i32 = 3;
/// Schema that is not reduced any further: one bucket for 16 powers of two.
const COARSEST_SCHEMA: i32 = -4;
/// Number of buckets above which the resolution is halved.
const MAX_BUCKETS: usize = 160;
/// Number of empty buckets that a span contains instead of ending.
const MAX_GAP: i32 = 2;
/// Largest absolute value that counts as zero: 2^-128.
pub(crate) const ZERO_THRESHOLD: f64 = f64::from_bits((1023 - 128) << 52);
/// Lower bounds of the eight buckets between 0.5 and 1: 2^(n/8) / 2.
const BOUNDS: [f64; 8] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    0.707_106_781_186_547_5,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_4,
    0.917_004_043_204_671_1,
];

/// The native part of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NativeHistogram {
    /// Resolution of the buckets: bucket `n` ends at 2^(n / 2^schema).
    pub(crate) schema: i32,
    /// Number of observations up to [`ZERO_THRESHOLD`].
    pub(crate) zeros: u64,
    /// Buckets of the positive observations.
    pub(crate) positive: Buckets,
    /// Buckets of the absolute values of the negative observations.
    pub(crate) negative: Buckets,
}

impl Default for NativeHistogram {
    fn default() -> Self {
        Self {
            schema: FINEST_SCHEMA,
            zeros: 0,
            positive: Buckets::default(),
            negative: Buckets::default(),
        }
    }
}

impl NativeHistogram {
    /// Counts a value. A value that is not a number has no bucket.
    pub(crate) fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        if value.abs() <= ZERO_THRESHOLD {
            self.zeros += 1;
        } else {
            let buckets = if value > 0.0 {
                &mut self.positive
            } else {
                &mut self.negative
            };
            buckets.add(
                (self.schema..FINEST_SCHEMA)
                    .fold(finest_index(value.abs()), |index, _| halved(index)),
            );
        }
        // One step for each observation, like the Go library, even if a step does not suffice.
        if self.positive.0.len() + self.negative.0.len() > MAX_BUCKETS
            && self.schema > COARSEST_SCHEMA
        {
            self.schema -= 1;
            self.positive.merge_pairs();
            self.negative.merge_pairs();
        }
    }
}

/// Buckets with at least one observation, as pairs of index and count, sorted by index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Buckets(Vec<(i32, i64)>);

/// Buckets in the notation of the protobuf format.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spans {
    /// Distance from the end of the previous span and number of buckets. The first distance is an index.
    pub(crate) spans: Vec<(i32, u32)>,
    /// Difference between the count of each bucket and that of the previous one.
    pub(crate) deltas: Vec<i64>,
}

impl Buckets {
    fn add(&mut self, index: i32) {
        match self.0.binary_search_by_key(&index, |bucket| bucket.0) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (index, 1)),
        }
    }

    /// Merges each pair of neighbours into one bucket of the next lower schema.
    fn merge_pairs(&mut self) {
        for bucket in &mut self.0 {
            bucket.0 = halved(bucket.0);
        }
        self.0.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
    }

    /// Returns the buckets as spans of consecutive buckets. A gap of one or two buckets is written as empty buckets,
    /// because a new span takes more space.
    pub(crate) fn spans(&self) -> Spans {
        let mut out = Spans::default();
        let mut previous = 0;
        let mut next = 0;
        for &(index, count) in &self.0 {
            let gap = index - next;
            match out.spans.last_mut() {
                Some(span) if gap <= MAX_GAP => {
                    for _ in 0..gap {
                        out.deltas.push(-previous);
                        previous = 0;
                        span.1 += 1;
                    }
                    span.1 += 1;
                }
                _ => out.spans.push((gap, 1)),
            }
            out.deltas.push(count - previous);
            (previous, next) = (count, index + 1);
        }
        out
    }
}

/// Returns the index of the bucket that contains a positive value, in the finest schema. The value must be above
/// [`ZERO_THRESHOLD`], and is therefore no subnormal number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "an exponent has 11 bits, an index 14"
)]
fn finest_index(value: f64) -> i32 {
    if value.is_infinite() {
        return finest_index(f64::MAX) + 1;
    }
    const MANTISSA: u64 = (1 << 52) - 1;
    // The value is `fraction` times 2^`exponent`, and the fraction is from 0.5 to 1.
    let exponent = (value.to_bits() >> 52) as i32 - 1022;
    let fraction = f64::from_bits(value.to_bits() & MANTISSA | 1022 << 52);
    BOUNDS.partition_point(|bound| *bound < fraction) as i32 + (exponent - 1) * 8
}

/// Returns the index in the next lower schema: half of it, rounded up.
fn halved(index: i32) -> i32 {
    (index + 1) >> 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn observed(values: &[f64]) -> NativeHistogram {
        let mut native = NativeHistogram::default();
        values.iter().for_each(|value| native.observe(*value));
        native
    }

    /// Returns the upper bound of a bucket.
    fn upper_bound(index: i32, schema: i32) -> f64 {
        if schema < 0 {
            return 2f64.powi(index << -schema);
        }
        let exponent = index >> schema;
        let part = usize::try_from(index & ((1 << schema) - 1)).unwrap();
        BOUNDS[part << (FINEST_SCHEMA - schema)] * 2.0 * 2f64.powi(exponent)
    }

    /// Returns the index of a value by comparison with the bounds.
    fn slow_index(value: f64, schema: i32) -> i32 {
        if value.is_infinite() {
            return slow_index(f64::MAX, schema) + 1;
        }
        #[allow(clippy::cast_possible_truncation)]
        let mut index = (value.log2() * 2f64.powi(schema)).ceil() as i32;
        while upper_bound(index, schema) < value {
            index += 1;
        }
        while upper_bound(index - 1, schema) >= value {
            index -= 1;
        }
        index
    }

    /// Returns the buckets of the values whose sign is `sign`, counted one by one.
    fn slow_buckets(values: &[f64], sign: f64, schema: i32) -> BTreeMap<i32, i64> {
        let mut buckets = BTreeMap::new();
        for value in values
            .iter()
            .map(|value| value * sign)
            .filter(|value| *value > ZERO_THRESHOLD)
        {
            *buckets.entry(slow_index(value, schema)).or_default() += 1;
        }
        buckets
    }

    /// Returns the schema and the buckets after each observation, counted again from the start.
    fn slow(values: &[f64]) -> (i32, [BTreeMap<i32, i64>; 2]) {
        let mut schema = FINEST_SCHEMA;
        let both = |n, schema| [1.0, -1.0].map(|sign| slow_buckets(&values[..n], sign, schema));
        for n in 1..=values.len() {
            let is_counted = !values[n - 1].is_nan();
            let size: usize = both(n, schema).iter().map(BTreeMap::len).sum();
            if is_counted && size > MAX_BUCKETS && schema > COARSEST_SCHEMA {
                schema -= 1;
            }
        }
        (schema, both(values.len(), schema))
    }

    /// Returns the buckets that spans and deltas stand for, without empty ones.
    fn read_back(spans: &Spans) -> BTreeMap<i32, i64> {
        let mut deltas = spans.deltas.iter();
        let mut count = 0;
        let mut index = 0;
        let mut buckets = BTreeMap::new();
        for &(offset, length) in &spans.spans {
            index += offset;
            for _ in 0..length {
                count += deltas.next().unwrap();
                buckets.insert(index, count);
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets.retain(|_, count| *count != 0);
        buckets
    }

    #[test]
    fn bucket_ends_at_its_upper_bound() {
        for index in -1000..8192 {
            let bound = upper_bound(index, FINEST_SCHEMA);
            assert_eq!(
                (finest_index(bound), finest_index(bound.next_up())),
                (index, index + 1),
                "{bound}"
            );
        }
        assert_eq!(
            (finest_index(f64::MAX), finest_index(f64::INFINITY)),
            (8192, 8193)
        );
    }

    #[test]
    fn small_gap_belongs_to_a_span_and_a_larger_one_starts_another() {
        // The indices are -8, 0 (twice), 3 and 7.
        let native = observed(&[0.5, 1.0, 1.0, 1.26, 1.8]);
        assert_eq!(
            native.positive.spans(),
            Spans {
                spans: vec![(-8, 1), (7, 4), (3, 1)],
                deltas: vec![1, 1, -2, 0, 1, 0]
            }
        );
    }

    #[test]
    fn resolution_is_halved_with_the_bucket_that_is_one_too_many() {
        let values: Vec<f64> = (0..161).map(|n| 2f64.powi(n)).collect();
        assert_eq!(observed(&values[..160]).schema, FINEST_SCHEMA);
        assert_eq!(observed(&values).schema, FINEST_SCHEMA - 1);
    }

    #[test]
    fn empty_bucket_takes_no_memory() {
        assert_eq!(observed(&[0.0, f64::NAN, 1e-40]).positive.0.capacity(), 0);
        let native = observed(&[1e-30, 1e30]);
        assert!(native.positive.0.capacity() <= 4, "{native:?}");
    }

    fn any_value() -> impl Strategy<Value = f64> {
        prop_oneof![
            3 => (-40..40i32, 1.0..2.0f64).prop_map(|(exponent, fraction)| fraction * 2f64.powi(exponent)),
            3 => (-320..320i32).prop_map(|n| upper_bound(n, FINEST_SCHEMA)),
            1 => any::<f64>(),
            1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(0.0), Just(ZERO_THRESHOLD)],
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn buckets_are_those_of_a_slow_count(values in prop::collection::vec(any_value(), 0..400)) {
            let native = observed(&values);
            let (schema, [positive, negative]) = slow(&values);
            prop_assert_eq!(native.schema, schema);
            prop_assert_eq!(read_back(&native.positive.spans()), positive);
            prop_assert_eq!(read_back(&native.negative.spans()), negative);
        }

        #[test]
        fn each_number_is_counted_once(values in prop::collection::vec(any_value(), 0..400)) {
            let native = observed(&values);
            let counted: i64 = native.positive.0.iter().chain(&native.negative.0).map(|bucket| bucket.1).sum();
            let numbers = values.iter().filter(|value| !value.is_nan()).count();
            prop_assert_eq!(usize::try_from(native.zeros).unwrap() + usize::try_from(counted).unwrap(), numbers);
        }
    }
}
