//! Raw requests to a server in the process.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use embedded_apiserver::ApiServer;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// A response of the server.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

/// Sends a request with `Accept` and, for a body, its `Content-Type`.
pub(crate) async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    accept: &str,
    body: Option<(&str, Value)>,
) -> Answer {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept);
    if let Some((content_type, _)) = &body {
        request = request.header("content-type", *content_type);
    }
    let bytes = body.map(|(_, value)| value.to_string()).unwrap_or_default();
    let response = server
        .service()
        .oneshot(request.body(axum::body::Body::from(bytes)).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> Answer {
    send(server, "GET", path, "application/json", None).await
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(
        server,
        "POST",
        path,
        "application/json",
        Some(("application/json", body)),
    )
    .await
}

pub(crate) async fn put(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(
        server,
        "PUT",
        path,
        "application/json",
        Some(("application/json", body)),
    )
    .await
}

pub(crate) async fn delete(server: &ApiServer, path: &str) -> Answer {
    send(server, "DELETE", path, "application/json", None).await
}

/// Patches in the format `merge`, `strategic-merge` or `json`.
pub(crate) async fn patch(server: &ApiServer, format: &str, path: &str, body: Value) -> Answer {
    let content_type = format!("application/{format}-patch+json");
    send(
        server,
        "PATCH",
        path,
        "application/json",
        Some((&content_type, body)),
    )
    .await
}

/// A watch with its buffered bytes.
pub(crate) struct Watch {
    body: axum::body::BodyDataStream,
    pending: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(server: &ApiServer, path: &str, accept: &str) -> Self {
        let request = http::Request::builder().uri(path).header("accept", accept);
        let response = server
            .service()
            .oneshot(request.body(axum::body::Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body().into_data_stream(),
            pending: Vec::new(),
        }
    }

    /// Returns the next event; none if the watch ended; an error if it was cut.
    pub(crate) async fn next(&mut self) -> Option<Result<Value, String>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Some(Ok(serde_json::from_slice(&line).unwrap()));
            }
            match self.body.next().await? {
                Ok(bytes) => self.pending.extend_from_slice(&bytes),
                Err(error) => return Some(Err(error.to_string())),
            }
        }
    }

    /// Returns the next event, which must come.
    pub(crate) async fn event(&mut self) -> Value {
        self.next()
            .await
            .expect("the watch ended")
            .expect("the watch was cut")
    }
}
