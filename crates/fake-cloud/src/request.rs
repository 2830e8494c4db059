//! Requests as handlers see them, and their replies.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use tokio::time::Instant;

use crate::fault::Effects;

/// A request that arrived for one of the cloud's services.
pub struct ApiRequest<S> {
    /// Service that the request is for.
    pub service: S,
    /// Method and path template, such as `GET /servers/{id}`.
    pub route: String,
    /// Path, as it was sent.
    pub path: String,
    /// Values of the `{…}` in the template.
    pub ids: Vec<String>,
    /// Parameters of the query, decoded.
    pub query: Vec<(String, String)>,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Body, as it was sent.
    pub bytes: Bytes,
    /// Body as JSON; null if there was none, or no valid JSON.
    pub body: Value,
    /// Project of the objects, set by [`Cloud::admit`](crate::Cloud::admit).
    pub project: String,
    /// Faults that hit the request, for handlers with pages or operations.
    pub effects: Effects,
    /// Time at which the request is carried out.
    pub now: Instant,
    /// Headers that are added to every answer to the request.
    pub on_answer: Vec<(&'static str, String)>,
}

impl<S> ApiRequest<S> {
    /// Returns the first ID in the path.
    #[must_use]
    pub fn id(&self) -> &str {
        self.nth_id(0)
    }

    /// Returns an ID in the path, counted from 0; empty if there is none.
    #[must_use]
    pub fn nth_id(&self, at: usize) -> &str {
        self.ids.get(at).map_or("", String::as_str)
    }

    /// Returns a parameter of the query.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns all values of a parameter of the query.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns a header of the request.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .and_then(|header| header.to_str().ok())
    }

    /// Returns `true` if the body is not valid JSON.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.bytes.is_empty() && serde_json::from_slice::<Value>(&self.bytes).is_err()
    }
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status of the answer.
    pub status: u16,
    /// Body of the answer, with its content type.
    pub body: Option<(&'static str, String)>,
    /// Further headers of the answer.
    pub headers: Vec<(&'static str, String)>,
}

impl Reply {
    /// Returns an answer with a JSON body.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "it is made for this")]
    pub fn new(status: u16, body: Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    /// Returns an answer with a text body of this content type: YAML, XML, HTML.
    #[must_use]
    pub fn text(status: u16, kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            body: Some((kind, text.into())),
            headers: Vec::new(),
        }
    }

    /// Returns an answer without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            body: None,
            headers: Vec::new(),
        }
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = match self.body {
            Some((kind, text)) => (status, [(header::CONTENT_TYPE, kind)], text).into_response(),
            None => status.into_response(),
        };
        for (name, value) in self.headers {
            if let Ok(value) = value.parse() {
                answer.headers_mut().insert(name, value);
            }
        }
        answer
    }
}
