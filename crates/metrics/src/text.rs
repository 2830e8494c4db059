//! The Prometheus text format, version 0.0.4 (MET-1).

use std::fmt::Write as _;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use crate::exposition::Exposed;
use crate::histogram::{HistogramVec, Sample};
use crate::number::write_number;
use crate::samples::Computed;
use crate::series::Kind;

/// Content type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes the families in their order.
pub(crate) fn write(families: &[Exposed]) -> String {
    let mut out = String::with_capacity(64 * 1024);
    for family in families {
        match family {
            Exposed::Counted(family) => write_counted(&mut out, family),
            Exposed::Histograms(family) => write_histograms(&mut out, family),
            Exposed::Computed(family) => write_computed(&mut out, family),
        }
    }
    out
}

fn write_counted(out: &mut String, family: &MetricFamily) {
    let name = family.name();
    let kind = family.get_field_type();
    let word = match kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM | MetricType::SUMMARY | MetricType::UNTYPED => "untyped",
    };
    write_head(out, name, word, family.help());
    for metric in family.get_metric() {
        let number = match kind {
            MetricType::COUNTER => metric.get_counter().get_value(),
            _ => metric.get_gauge().get_value(),
        };
        write_sample(out, name, labels(metric), number);
    }
}

fn write_computed(out: &mut String, computed: &Computed) {
    let series = computed.series;
    write_head(out, series.name, series.kind.as_str(), &series.help_text());
    for (values, number) in &computed.samples {
        let labels = series
            .labels
            .iter()
            .copied()
            .zip(values.iter().map(String::as_str));
        write_sample(out, series.name, labels, *number);
    }
}

fn write_histograms(out: &mut String, family: &HistogramVec) {
    write_head(out, family.name(), Kind::Histogram.as_str(), family.help());
    family.for_each(|labels, sample| write_histogram(out, family.name(), labels, sample));
}

#[allow(
    clippy::cast_precision_loss,
    reason = "all numbers of the format are of this type"
)]
fn write_histogram(out: &mut String, name: &str, labels: &[(&str, &str)], sample: &Sample) {
    for &(bound, below) in sample
        .buckets
        .iter()
        .chain([&(f64::INFINITY, sample.count)])
    {
        out.push_str(name);
        out.push_str("_bucket");
        write_labels(out, labels.iter().copied(), Some(bound));
        write_end(out, below as f64);
    }
    for (suffix, number) in [("_sum", sample.sum), ("_count", sample.count as f64)] {
        out.push_str(name);
        write_sample(out, suffix, labels.iter().copied(), number);
    }
}

fn write_head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    _ = write!(out, "# HELP {name} ");
    write_escaped(out, help, false);
    _ = write!(out, "\n# TYPE {name} {kind}\n");
}

fn write_sample<'a>(
    out: &mut String,
    name: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    number: f64,
) {
    out.push_str(name);
    write_labels(out, labels, None);
    write_end(out, number);
}

fn labels(metric: &Metric) -> impl Iterator<Item = (&str, &str)> {
    metric
        .get_label()
        .iter()
        .map(|pair| (pair.name(), pair.value()))
}

fn write_labels<'a>(
    out: &mut String,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    bound: Option<f64>,
) {
    let begin = out.len();
    for (name, value) in labels {
        out.push(if out.len() == begin { '{' } else { ',' });
        out.push_str(name);
        out.push_str("=\"");
        write_escaped(out, value, true);
        out.push('"');
    }
    if let Some(bound) = bound {
        out.push(if out.len() == begin { '{' } else { ',' });
        out.push_str("le=\"");
        write_number(out, bound);
        out.push('"');
    }
    if out.len() > begin {
        out.push('}');
    }
}

fn write_end(out: &mut String, number: f64) {
    out.push(' ');
    write_number(out, number);
    out.push('\n');
}

fn write_escaped(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::series::{
        AUTHENTICATION_DURATION, CLOUD_API_PAUSES, FEATURES, REQUESTS, WEBHOOK_REQUESTS,
    };

    #[test]
    fn counters_histograms_and_computed_series_have_the_text_format() {
        let registry = Registry::default();
        registry
            .counters(REQUESTS)
            .with_label_values(&["<error>", "GET", "a\"b\\c\nd"])
            .inc();
        registry.counters(WEBHOOK_REQUESTS);
        let pauses = registry.histogram(CLOUD_API_PAUSES);
        pauses.observe(0.25);
        pauses.observe(86400.0);
        let samples = vec![
            (vec!["A".to_owned(), String::new()], 1.0),
            (vec!["B".to_owned(), "BETA".to_owned()], 0.0),
        ];
        let mut families = registry.gather();
        families.insert(
            1,
            Exposed::Computed(Computed {
                series: FEATURES,
                samples,
            }),
        );
        let text = write(&families);
        let expected = r#"# HELP ccm_cloud_api_throttle_wait_seconds [ALPHA] Pauses that the cloud asked for.
# TYPE ccm_cloud_api_throttle_wait_seconds histogram
ccm_cloud_api_throttle_wait_seconds_bucket{le="0.1"} 0
ccm_cloud_api_throttle_wait_seconds_bucket{le="0.5"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="1"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="5"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="10"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="30"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="60"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="300"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="900"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="3600"} 1
ccm_cloud_api_throttle_wait_seconds_bucket{le="+Inf"} 2
ccm_cloud_api_throttle_wait_seconds_sum 86400.25
ccm_cloud_api_throttle_wait_seconds_count 2
# HELP kubernetes_feature_enabled [BETA] 1 if the feature gate is enabled, 0 if it is disabled.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="A",stage=""} 1
kubernetes_feature_enabled{name="B",stage="BETA"} 0
# HELP rest_client_requests_total [ALPHA] Requests to the API server, by HTTP status; <error> if there was no answer.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="<error>",host="a\"b\\c\nd",method="GET"} 1
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn bounds_stand_after_the_labels() {
        let registry = Registry::default();
        registry
            .histograms(AUTHENTICATION_DURATION)
            .with_label_values(&["success"])
            .observe(0.001);
        let text = write(&registry.gather());
        assert!(
            text.contains(
                "authentication_duration_seconds_bucket{result=\"success\",le=\"0.001\"} 1\n"
            ),
            "{text}"
        );
    }
}
