//! The Prometheus text format, version 0.0.4 (MET-1).

use std::fmt::Write as _;

use prometheus::proto::{Histogram, Metric, MetricFamily, MetricType};

use crate::number::write_number;
use crate::samples::Computed;

/// Content type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes the registered and the computed series, sorted by name.
pub(crate) fn write(counted: &[MetricFamily], computed: &[Computed]) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let (mut counted, mut computed) = (counted.iter().peekable(), computed.iter().peekable());
    loop {
        match (counted.peek(), computed.peek()) {
            (Some(next), Some(other)) if next.name() <= other.series.name => write_family(&mut out, next),
            (_, Some(next)) => {
                write_computed(&mut out, next);
                computed.next();
                continue;
            }
            (Some(next), None) => write_family(&mut out, next),
            (None, None) => return out,
        }
        counted.next();
    }
}

fn write_family(out: &mut String, family: &MetricFamily) {
    let (name, kind) = (family.name(), family.get_field_type());
    let word = match kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY | MetricType::UNTYPED => "untyped",
    };
    write_head(out, name, word, family.help());
    for metric in family.get_metric() {
        match kind {
            MetricType::COUNTER => write_sample(out, name, "", metric, metric.get_counter().get_value()),
            MetricType::HISTOGRAM => write_histogram(out, name, metric, metric.get_histogram()),
            _ => write_sample(out, name, "", metric, metric.get_gauge().get_value()),
        }
    }
}

fn write_computed(out: &mut String, computed: &Computed) {
    let series = computed.series;
    write_head(out, series.name, series.kind.as_str(), &series.help_text());
    for (values, number) in &computed.samples {
        out.push_str(series.name);
        write_labels(out, series.labels.iter().copied().zip(values.iter().map(String::as_str)), None);
        write_end(out, *number);
    }
}

#[allow(clippy::cast_precision_loss, reason = "all numbers of the format are of this type")]
fn write_histogram(out: &mut String, name: &str, metric: &Metric, histogram: &Histogram) {
    let count = histogram.get_sample_count();
    let bounded = histogram.get_bucket().iter().map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    for (bound, below) in bounded.chain([(f64::INFINITY, count)]) {
        out.push_str(name);
        out.push_str("_bucket");
        write_labels(out, labels(metric), Some(bound));
        write_end(out, below as f64);
    }
    write_sample(out, name, "_sum", metric, histogram.get_sample_sum());
    write_sample(out, name, "_count", metric, count as f64);
}

fn write_head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    _ = write!(out, "# HELP {name} ");
    write_escaped(out, help, false);
    _ = write!(out, "\n# TYPE {name} {kind}\n");
}

fn write_sample(out: &mut String, name: &str, suffix: &str, metric: &Metric, number: f64) {
    out.push_str(name);
    out.push_str(suffix);
    write_labels(out, labels(metric), None);
    write_end(out, number);
}

fn labels(metric: &Metric) -> impl Iterator<Item = (&str, &str)> {
    metric.get_label().iter().map(|pair| (pair.name(), pair.value()))
}

fn write_labels<'a>(out: &mut String, labels: impl Iterator<Item = (&'a str, &'a str)>, bound: Option<f64>) {
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
    use crate::series::{AUTHENTICATION_DURATION, CLOUD_API_PAUSES, FEATURES, REQUESTS, WEBHOOK_REQUESTS};

    #[test]
    fn counters_histograms_and_what_is_computed_stand_in_the_order_of_their_names() {
        let registry = Registry::default();
        registry.counters(REQUESTS).with_label_values(&["<error>", "GET", "a\"b\\c\nd"]).inc();
        registry.counters(WEBHOOK_REQUESTS);
        let pauses = registry.histogram(CLOUD_API_PAUSES);
        pauses.observe(0.25);
        pauses.observe(86400.0);
        let samples = vec![(vec!["A".to_owned(), String::new()], 1.0), (vec!["B".to_owned(), "BETA".to_owned()], 0.0)];
        let text = write(&registry.gather(), &[Computed { series: FEATURES, samples }]);
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
        registry.histograms(AUTHENTICATION_DURATION).with_label_values(&["success"]).observe(0.001);
        let text = write(&registry.gather(), &[]);
        assert!(text.contains("authentication_duration_seconds_bucket{result=\"success\",le=\"0.001\"} 1\n"), "{text}");
    }
}
