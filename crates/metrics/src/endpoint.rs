//! `/metrics` and `/metrics/slis` (MET-1, MET-2, MET-30).

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use serving::health::Health;

use crate::series::{METRICS, SLIS};
use crate::{Metrics, text};

/// When the process started: whoever scrapes finds out that counters began anew.
const PROCESS_START: HeaderName = HeaderName::from_static("process-start-time-unix");

impl Metrics {
    /// Both paths. They know nothing of callers: put them behind the layer that does.
    pub fn router(&self, health: &Health) -> Router {
        let this = self.clone();
        let metrics = move || std::future::ready(this.answer(this.render()));
        let (this, shown, forgotten) = (self.clone(), health.clone(), health.clone());
        let slis = move || std::future::ready(this.answer(this.render_slis(&shown)));
        let reset = move || {
            forgotten.reset_slis();
            std::future::ready("metrics reset\n")
        };
        // Any method reads `/metrics`; none resets it (APP-99).
        Router::new().route(METRICS, any(metrics)).route(SLIS, get(slis).delete(reset))
    }

    fn answer(&self, body: String) -> Response {
        let mut answer = body.into_response();
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(text::CONTENT_TYPE));
        headers.insert(PROCESS_START, HeaderValue::from(self.process_started().as_secs()));
        answer
    }
}
