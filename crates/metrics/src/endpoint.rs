//! The endpoints `/metrics` and `/metrics/slis` (MET-1, MET-2, MET-7, MET-30).

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};
use serving::health::Health;

use crate::accept::Format;
use crate::exposition::Exposed;
use crate::series::{METRICS, SLIS};
use crate::{Metrics, gzip, protobuf, text};

/// Header with the start time of the process, which tells scrapers that counters were reset.
const PROCESS_START: HeaderName = HeaderName::from_static("process-start-time-unix");

impl Metrics {
    /// Returns the routes of both endpoints, which do not authenticate callers. Must be placed behind the layer that
    /// does.
    pub fn router(&self, health: &Health) -> Router {
        let this = self.clone();
        let metrics =
            move |headers: HeaderMap| std::future::ready(this.answer(&headers, &this.exposed()));
        let this = self.clone();
        let shown = health.clone();
        let forgotten = health.clone();
        let slis = move |headers: HeaderMap| {
            std::future::ready(this.answer(&headers, &this.exposed_slis(&shown)))
        };
        let reset = move || {
            forgotten.reset_slis();
            std::future::ready("metrics reset\n")
        };
        // Every HTTP method reads `/metrics`, and none resets the series (APP-99).
        Router::new()
            .route(METRICS, any(metrics))
            .route(SLIS, get(slis).delete(reset))
    }

    fn answer(&self, asked: &HeaderMap, families: &[Exposed]) -> Response {
        let format = Format::accepted(asked);
        let body = match format {
            Format::Text => text::write(families).into_bytes(),
            Format::Protobuf(_) => protobuf::write(families, self.process_started()),
        };
        let packed = gzip::is_accepted(asked);
        let mut answer = if packed {
            gzip::compress(&body).into_response()
        } else {
            body.into_response()
        };
        let headers = answer.headers_mut();
        if packed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        headers.insert(CONTENT_TYPE, format.content_type());
        headers.insert(
            PROCESS_START,
            HeaderValue::from(self.process_started().as_secs()),
        );
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use axum::body::Body;
    use http::Request;
    use http::header::{ACCEPT, ACCEPT_ENCODING};
    use http_body_util::BodyExt as _;
    use serving::health::Probe;
    use tower::ServiceExt as _;

    use super::*;
    use crate::protobuf::{Counter, Family, Gauge, read};

    /// Header of Prometheus 3.9 with native histograms.
    const PROMETHEUS: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;\
        q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
        application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
        text/plain;version=0.0.4;q=0.2,*/*;q=0.1";

    fn metrics() -> Metrics {
        let metrics = Metrics::new();
        let calls = metrics.cloud("acme");
        for milliseconds in [3, 250, 251, 4000] {
            calls.finished("GET /x", Some(200), Duration::from_millis(milliseconds));
        }
        metrics.queues().waited("Nodes", Duration::ZERO);
        metrics
    }

    async fn scrape(
        metrics: &Metrics,
        health: &Health,
        path: &str,
        coding: &str,
    ) -> (HeaderMap, Vec<u8>) {
        let request = Request::get(path)
            .header(ACCEPT, PROMETHEUS)
            .header(ACCEPT_ENCODING, coding);
        let answer = metrics
            .router(health)
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let (head, body) = answer.into_parts();
        (
            head.headers,
            body.collect().await.unwrap().to_bytes().to_vec(),
        )
    }

    /// Returns the samples of a family in the text format, sorted and without the label of bounds, which is compared by
    /// its value.
    fn samples(family: &Family) -> Vec<String> {
        let mut samples = Vec::new();
        for metric in &family.metric {
            let pairs = metric
                .label
                .iter()
                .map(|pair| format!("{}={:?}", pair.name(), pair.value()));
            let labels = pairs.collect::<Vec<_>>().join(",");
            let mut sample = |suffix: &str, bound: Option<f64>, value: f64| {
                let bound = bound.map(|bound| format!("le=\"{bound}\"").replace("inf", "+Inf"));
                let labels = [Some(labels.clone()).filter(|text| !text.is_empty()), bound];
                let labels = labels.into_iter().flatten().collect::<Vec<_>>().join(",");
                let labels = if labels.is_empty() {
                    labels
                } else {
                    format!("{{{labels}}}")
                };
                samples.push(format!("{}{suffix}{labels} {value}", family.name()));
            };
            if let Some(histogram) = &metric.histogram {
                #[allow(clippy::cast_precision_loss)]
                let count = histogram.count() as f64;
                for bucket in &histogram.bucket {
                    #[allow(clippy::cast_precision_loss)]
                    sample("_bucket", Some(bucket.upper_bound()), bucket.count() as f64);
                }
                sample("_bucket", Some(f64::INFINITY), count);
                sample("_sum", None, histogram.sum());
                sample("_count", None, count);
            } else {
                let gauge = metric.gauge.as_ref().map(Gauge::value);
                sample(
                    "",
                    None,
                    gauge
                        .or_else(|| metric.counter.as_ref().map(Counter::value))
                        .unwrap(),
                );
            }
        }
        samples
    }

    #[tokio::test]
    async fn protobuf_and_text_contain_the_same_samples() {
        let metrics = metrics();
        let health = Health::new();
        let (headers, body) = scrape(&metrics, &health, METRICS, "identity").await;
        assert_eq!(
            headers[CONTENT_TYPE],
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; \
             escaping=underscores"
        );
        assert_eq!(headers[VARY], "Accept, Accept-Encoding");
        // Series about the process and the runtime differ from one scrape to the next.
        let is_fixed =
            |line: &str| !line.starts_with("process_") && !line.starts_with("ccm_runtime_");
        let is_number = |line: &&str| !line.starts_with('#') && is_fixed(line);
        let text: Vec<_> = metrics
            .render()
            .lines()
            .filter(is_number)
            .map(|line| {
                let (series, number) = line.rsplit_once(' ').unwrap();
                let series = match series.split_once("le=\"") {
                    Some((begin, "+Inf\"}")) => format!("{begin}le=\"+Inf\"}}"),
                    Some((begin, end)) => {
                        let bound: f64 = end.trim_end_matches("\"}").parse().unwrap();
                        format!("{begin}le=\"{bound}\"}}")
                    }
                    None => series.to_owned(),
                };
                format!("{series} {}", number.parse::<f64>().unwrap())
            })
            .collect();
        let families = read(&body);
        let protobuf: Vec<_> = families
            .iter()
            .flat_map(samples)
            .filter(|line| is_fixed(line))
            .collect();
        assert!(protobuf.len() > 100, "{}", protobuf.len());
        assert_eq!(protobuf, text);
    }

    #[tokio::test]
    async fn histogram_is_native_too_unless_that_is_disabled() {
        let metrics = metrics();
        let health = Health::new();
        let histogram = |body: &[u8]| {
            let mut families = read(body).into_iter();
            let mut family = families
                .find(|family| family.name() == "ccm_cloud_api_duration_seconds")
                .unwrap();
            family.metric.remove(0).histogram.unwrap()
        };
        let (_, body) = scrape(&metrics, &health, METRICS, "identity").await;
        let native = histogram(&body);
        assert_eq!(
            (native.count(), native.schema, native.zero_count),
            (4, Some(3), Some(0))
        );
        let spans: Vec<_> = native
            .positive_span
            .iter()
            .map(|span| (span.offset(), span.length()))
            .collect();
        assert_eq!(
            (spans, native.positive_delta),
            (vec![(-67, 1), (50, 2), (30, 1)], vec![1, 0, 0, 0])
        );
        assert!(
            native
                .created
                .is_some_and(|created| created.seconds > 1_700_000_000)
        );
        metrics.disable_native_histograms();
        let (_, body) = scrape(&metrics, &health, METRICS, "identity").await;
        let classic = histogram(&body);
        assert_eq!(
            (classic.count(), classic.bucket, classic.schema),
            (4, native.bucket, None)
        );
    }

    #[tokio::test]
    async fn health_series_are_protobuf_and_compressed_for_the_same_clients() {
        let health = Health::new();
        health.add(
            "leaderElection",
            std::sync::Arc::new(|| Err("no lease".to_owned())),
        );
        _ = health.report(Probe::Healthz, &[]);
        let (headers, body) = scrape(&metrics(), &health, SLIS, "gzip").await;
        assert_eq!(headers[CONTENT_ENCODING], "gzip");
        assert!(
            headers[CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with("application/vnd.google.protobuf;")
        );
        let mut bytes = Vec::new();
        flate2::bufread::GzDecoder::new(&*body)
            .read_to_end(&mut bytes)
            .unwrap();
        let samples: Vec<_> = read(&bytes).iter().flat_map(samples).collect();
        let failed = r#"kubernetes_healthchecks_total{name="leaderElection",type="healthz",status="error"} 1"#;
        assert!(samples.iter().any(|sample| sample == failed), "{samples:?}");
    }
}
