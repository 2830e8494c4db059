//! Answers that several endpoints give.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// Body of the answer to a request without TLS: the text of Go's HTTPS servers, which operators know.
pub(crate) const TLS_REQUIRED: &str = "Client sent an HTTP request to an HTTPS server.\n";

/// Returns plain text, marked so that no browser interprets it as anything else.
pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (status, headers, body.into()).into_response()
}

/// Returns an error response in the form of the Kubernetes API: an object of kind `Status` (APP-106).
pub(crate) fn refusal(status: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": {}, "code": status.as_u16(),
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (status, headers, body.to_string()).into_response()
}

/// Returns the answer for paths that are not served; give it to a router as its fallback.
#[allow(
    clippy::unused_async,
    reason = "a handler is a function that returns a future"
)]
pub async fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}
