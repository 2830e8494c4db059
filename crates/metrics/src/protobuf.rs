//! The protobuf format of Prometheus: length-delimited messages `io.prometheus.client.MetricFamily` (MET-7).
//!
//! The messages have the fields that a scraper of counters, gauges and histograms reads.

use std::time::Duration;

use jiff::Timestamp;
use prometheus::proto::MetricType;
use prost::Message;

use crate::exposition::Exposed;
use crate::histogram::Sample;
use crate::native::{Spans, ZERO_THRESHOLD};
use crate::samples::Computed;
use crate::series::Kind;

/// Writes the families. `started` is the start time of the process since the Unix epoch.
pub(crate) fn write(families: &[Exposed], started: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024);
    let started = Time::from(started);
    for family in families {
        // Writing to a vector cannot fail. One message exists at a time, because all of them take much memory.
        _ = message(family, started).encode_length_delimited(&mut out);
    }
    out
}

fn message(family: &Exposed, started: Time) -> Family {
    match family {
        Exposed::Counted(family) => {
            let kind = if family.get_field_type() == MetricType::COUNTER {
                Kind::Counter
            } else {
                Kind::Gauge
            };
            let metrics = family.get_metric().iter().map(|metric| {
                let label = labels(
                    metric
                        .get_label()
                        .iter()
                        .map(|pair| (pair.name(), pair.value())),
                );
                match kind {
                    // A counter was 0 when the process started, even if its labels are newer.
                    Kind::Counter => {
                        Metric::counter(label, metric.get_counter().get_value(), Some(started))
                    }
                    _ => Metric::gauge(label, metric.get_gauge().get_value()),
                }
            });
            Family::new(family.name(), family.help(), kind, metrics.collect())
        }
        Exposed::Histograms(family) => {
            let mut metrics = Vec::new();
            family.for_each(|pairs, sample| {
                let histogram = Some(Histogram::from(sample));
                metrics.push(Metric {
                    label: labels(pairs.iter().copied()),
                    histogram,
                    ..Metric::default()
                });
            });
            Family::new(family.name(), family.help(), Kind::Histogram, metrics)
        }
        Exposed::Computed(Computed { series, samples }) => {
            let metrics = samples.iter().map(|(values, number)| {
                let label = labels(
                    series
                        .labels
                        .iter()
                        .copied()
                        .zip(values.iter().map(String::as_str)),
                );
                match series.kind {
                    Kind::Counter => Metric::counter(label, *number, None),
                    _ => Metric::gauge(label, *number),
                }
            });
            Family::new(
                series.name,
                &series.help_text(),
                series.kind,
                metrics.collect(),
            )
        }
    }
}

fn labels<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<LabelPair> {
    pairs
        .map(|(name, value)| LabelPair {
            name: Some(name.to_owned()),
            value: Some(value.to_owned()),
        })
        .collect()
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Family {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) metric: Vec<Metric>,
}

impl Family {
    fn new(name: &str, help: &str, kind: Kind, metric: Vec<Metric>) -> Self {
        let kind = match kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Histogram => 4,
        };
        Self {
            name: Some(name.to_owned()),
            help: Some(help.to_owned()),
            kind: Some(kind),
            metric,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(crate) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(crate) gauge: Option<Gauge>,
    #[prost(message, optional, tag = "3")]
    pub(crate) counter: Option<Counter>,
    #[prost(message, optional, tag = "7")]
    pub(crate) histogram: Option<Histogram>,
}

impl Metric {
    fn counter(label: Vec<LabelPair>, value: f64, created: Option<Time>) -> Self {
        Self {
            label,
            counter: Some(Counter {
                value: Some(value),
                created,
            }),
            ..Self::default()
        }
    }

    fn gauge(label: Vec<LabelPair>, value: f64) -> Self {
        Self {
            label,
            gauge: Some(Gauge { value: Some(value) }),
            ..Self::default()
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Gauge {
    #[prost(double, optional, tag = "1")]
    pub(crate) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Counter {
    #[prost(double, optional, tag = "1")]
    pub(crate) value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(crate) created: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub(crate) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(crate) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) negative_span: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    pub(crate) negative_delta: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) positive_span: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(crate) positive_delta: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub(crate) created: Option<Time>,
}

impl From<&Sample> for Histogram {
    fn from(sample: &Sample) -> Self {
        let bucket = |&(bound, count): &(f64, u64)| Bucket {
            count: Some(count),
            upper_bound: Some(bound),
        };
        let classic = Self {
            count: Some(sample.count),
            sum: Some(sample.sum),
            bucket: sample.buckets.iter().map(bucket).collect(),
            created: Some(sample.created.into()),
            ..Self::default()
        };
        let Some(native) = &sample.native else {
            return classic;
        };
        let messages = |Spans { spans, deltas }: Spans| {
            let span = |(offset, length)| Span {
                offset: Some(offset),
                length: Some(length),
            };
            (spans.into_iter().map(span).collect(), deltas)
        };
        let (positive_span, positive_delta) = messages(native.positive.spans());
        let (negative_span, negative_delta) = messages(native.negative.spans());
        Self {
            schema: Some(native.schema),
            zero_threshold: Some(ZERO_THRESHOLD),
            zero_count: Some(native.zeros),
            negative_span,
            negative_delta,
            positive_span,
            positive_delta,
            ..classic
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) upper_bound: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(sint32, optional, tag = "1")]
    pub(crate) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) length: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

impl From<Duration> for Time {
    fn from(since_epoch: Duration) -> Self {
        let seconds = since_epoch.as_secs().cast_signed();
        let nanos = since_epoch.subsec_nanos().cast_signed();
        Self { seconds, nanos }
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self {
            seconds: time.as_second(),
            nanos: time.subsec_nanosecond(),
        }
    }
}

/// Reads the families of a response body.
#[cfg(test)]
pub(crate) fn read(mut bytes: &[u8]) -> Vec<Family> {
    let mut families = Vec::new();
    while !bytes.is_empty() {
        families.push(Family::decode_length_delimited(&mut bytes).unwrap());
    }
    families
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use runtime::clock::ManualClock;

    use super::*;
    use crate::registry::Registry;
    use crate::series::{
        AUTHENTICATION_DURATION, FEATURES, REQUESTS, RUNNING_CONTROLLERS, Series, Stability,
    };

    /// Histograms of client_golang; see the script `record` beside the file.
    const RECORDED: &str = include_str!("../tests/client_golang/histograms.jsonl");

    static SECONDS: Series = Series::histogram(
        "recorded_seconds",
        &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0],
    )
    .is(Stability::Convention)
    .help("Recorded.");

    #[test]
    fn histograms_are_those_of_client_golang_byte_by_byte() {
        let mut schemas = Vec::new();
        for line in RECORDED.lines() {
            let recorded: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = &recorded["name"];
            let expected = STANDARD
                .decode(recorded["family"].as_str().unwrap())
                .unwrap();
            let created = ManualClock::new("2025-11-28T20:00:00.25Z".parse().unwrap());
            let registry = Registry::new(Arc::new(created));
            let histogram = registry.histogram(&SECONDS);
            for value in recorded["values"].as_array().unwrap() {
                histogram.observe(value.as_str().unwrap().parse().unwrap());
            }
            let bytes = write(&registry.gather(), Duration::ZERO);
            let [theirs, ours] = [&expected, &bytes].map(|bytes| read(bytes));
            // Compared as text, in which each value that is not a number reads the same.
            assert_eq!(format!("{ours:#?}"), format!("{theirs:#?}"), "{name}");
            let histogram = ours[0].metric[0].histogram.as_ref().unwrap();
            assert!(
                bytes == expected || histogram.sum.unwrap().is_nan(),
                "{name}: {bytes:?} is not {expected:?}"
            );
            schemas.push(histogram.schema.unwrap());
        }
        assert_eq!(schemas.len(), 15);
        assert!(
            [3, 2, -4].iter().all(|schema| schemas.contains(schema)),
            "{schemas:?}"
        );
    }

    #[test]
    fn counters_and_gauges_have_their_labels_and_counters_their_start() {
        let registry = Registry::default();
        registry
            .counters(REQUESTS)
            .with_label_values(&["200", "GET", "a\"b"])
            .inc_by(3);
        registry
            .gauges(RUNNING_CONTROLLERS)
            .with_label_values(&["cloud-node", "m"])
            .set(0.5);
        let mut families = registry.gather();
        let samples = vec![(vec!["A".to_owned(), String::new()], 1.0)];
        families.push(Exposed::Computed(Computed {
            series: FEATURES,
            samples,
        }));
        let read = read(&write(&families, Duration::from_millis(1_764_360_000_250)));
        let mut shown = Vec::new();
        for family in &read {
            for metric in &family.metric {
                let labels: Vec<_> = metric
                    .label
                    .iter()
                    .map(|label_pair| format!("{}={}", label_pair.name(), label_pair.value()))
                    .collect();
                let value = metric
                    .counter
                    .as_ref()
                    .map_or_else(|| metric.gauge.as_ref().unwrap().value(), Counter::value);
                let created = metric
                    .counter
                    .as_ref()
                    .and_then(|counter| counter.created)
                    .map(|time| time.nanos);
                shown.push(format!(
                    "{} {:?} {labels:?} {value} {created:?}",
                    family.name(),
                    family.kind
                ));
            }
        }
        let expected = [
            r#"rest_client_requests_total Some(0) ["code=200", "host=a\"b", "method=GET"] 3 Some(250000000)"#,
            r#"running_managed_controllers Some(1) ["manager=m", "name=cloud-node"] 0.5 None"#,
            r#"kubernetes_feature_enabled Some(1) ["name=A", "stage="] 1 None"#,
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn classic_histogram_has_no_native_field() {
        let registry = Registry::default();
        let histograms = registry.histograms(AUTHENTICATION_DURATION);
        histograms.with_label_values(&["success"]).observe(0.001);
        registry.disable_native_histograms();
        for label in ["success", "failure"] {
            histograms.with_label_values(&[label]).observe(0.001);
        }
        let read = read(&write(&registry.gather(), Duration::ZERO));
        for metric in &read[0].metric {
            let histogram = metric.histogram.as_ref().unwrap();
            let native = (
                histogram.schema,
                histogram.zero_threshold,
                histogram.zero_count,
            );
            assert_eq!(
                (native, histogram.positive_span.len()),
                ((None, None, None), 0)
            );
            assert!(
                histogram.count() > 0
                    && histogram.bucket.last().unwrap().count() == histogram.count()
            );
        }
    }
}
