//! A request as handlers see it, and what they give.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use tokio::time::Instant;

use crate::fault::Effects;

/// A request that arrived, for one of the cloud's services.
pub struct Asked<S> {
    /// The service.
    pub service: S,
    /// Method and path template, `GET /servers/{id}`.
    pub route: String,
    /// The path as it was sent.
    pub path: String,
    /// What stands for the `{…}` of the template.
    pub ids: Vec<String>,
    /// The parameters of the query, decoded.
    pub query: Vec<(String, String)>,
    /// Its headers.
    pub headers: HeaderMap,
    /// The body as it was sent.
    pub bytes: Bytes,
    /// The body; null if there was none, or no JSON.
    pub body: Value,
    /// Whose objects it is about: [`Cloud::admit`](crate::Cloud::admit) says it.
    pub project: String,
    /// The faults that hit it, for what a handler makes of them: pages, operations.
    pub effects: Effects,
    /// When it is carried out.
    pub now: Instant,
    /// Headers that its answer gets, whatever it is.
    pub on_answer: Vec<(&'static str, String)>,
}

impl<S> Asked<S> {
    /// The first id of the path.
    #[must_use]
    pub fn id(&self) -> &str {
        self.nth_id(0)
    }

    /// An id of the path, from 0; empty if it has none there.
    #[must_use]
    pub fn nth_id(&self, at: usize) -> &str {
        self.ids.get(at).map_or("", String::as_str)
    }

    /// A parameter of the query.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a parameter of the query.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|it| it.to_str().ok())
    }

    /// Whether it has a body that is no JSON.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.bytes.is_empty() && serde_json::from_slice::<Value>(&self.bytes).is_err()
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its body, and the type of its content.
    pub body: Option<(&'static str, String)>,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Reply {
    /// With JSON.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "it is made for this")]
    pub fn new(status: u16, body: Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    /// With a text of this type: YAML, XML, a page of HTML.
    #[must_use]
    pub fn text(status: u16, kind: &'static str, text: impl Into<String>) -> Self {
        Self { status, body: Some((kind, text.into())), headers: Vec::new() }
    }

    /// Without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, body: None, headers: Vec::new() }
    }

    /// With a further header.
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
