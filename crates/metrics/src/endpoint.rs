//! The endpoints `/metrics` and `/metrics/slis` (MET-1, MET-2, MET-30).

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};
use serving::health::Health;

use crate::series::{METRICS, SLIS};
use crate::{Metrics, gzip, text};

/// Header with the start time of the process, which tells scrapers that counters were reset.
const PROCESS_START: HeaderName = HeaderName::from_static("process-start-time-unix");

impl Metrics {
    /// Returns the routes of both endpoints, which do not authenticate callers. Must be placed behind the layer that
    /// does.
    pub fn router(&self, health: &Health) -> Router {
        let this = self.clone();
        let metrics = move |headers: HeaderMap| std::future::ready(this.answer(&headers, this.render()));
        let (this, shown, forgotten) = (self.clone(), health.clone(), health.clone());
        let slis = move |headers: HeaderMap| std::future::ready(this.answer(&headers, this.render_slis(&shown)));
        let reset = move || {
            forgotten.reset_slis();
            std::future::ready("metrics reset\n")
        };
        // Every HTTP method reads `/metrics`, and none resets the series (APP-99).
        Router::new().route(METRICS, any(metrics)).route(SLIS, get(slis).delete(reset))
    }

    fn answer(&self, asked: &HeaderMap, text: String) -> Response {
        let packed = gzip::is_accepted(asked);
        let mut answer = if packed { gzip::compress(text.as_bytes()).into_response() } else { text.into_response() };
        let headers = answer.headers_mut();
        if packed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(text::CONTENT_TYPE));
        headers.insert(PROCESS_START, HeaderValue::from(self.process_started().as_secs()));
        answer
    }
}
