//! A request as handlers see it, and what they give.

use http::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

use crate::faults::Effects;
use crate::model::{Kind, Model, Object};
use crate::refusal::{Refusal, Service};

/// What a handler gives.
pub(crate) type Answer = Result<Reply, Refusal>;

/// A request that passed the gate.
pub(crate) struct Asked {
    pub(crate) service: Service,
    /// The path without the service's prefix: `/v2.0/ports`.
    pub(crate) path: String,
    /// What stands for the `{…}` of the template.
    pub(crate) ids: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// The token's project.
    pub(crate) project: String,
    pub(crate) effects: Effects,
    pub(crate) now: Instant,
}

impl Asked {
    /// The first id of the path.
    pub(crate) fn id(&self) -> &str {
        self.ids.first().map_or("", String::as_str)
    }

    /// A parameter of the query.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|it| it.to_str().ok())
    }

    /// What is under the body's only key.
    pub(crate) fn object(&self, kind: Kind) -> Result<&Object, Refusal> {
        let key = kind.words().0;
        self.body.get(key).and_then(Value::as_object).ok_or_else(|| match self.service {
            Service::Network => Refusal::bad(format!("Unable to find '{key}' in request body")),
            _ => Refusal::invalid(format!("Missing argument: \"{key}_\"")),
        })
    }

    /// `If-Match: revision_number=<n>` must name the object's revision.
    pub(crate) fn expect_revision(&self, object: &Object) -> Result<(), Refusal> {
        let wanted = self.header("if-match").and_then(|it| it.trim().strip_prefix("revision_number="));
        let Some(wanted) = wanted else { return Ok(()) };
        let actual = object.get("revision_number").and_then(Value::as_u64).unwrap_or_default();
        if wanted.trim_matches('"').parse() == Ok(actual) {
            return Ok(());
        }
        let message = format!("Constrained to {wanted}, but current revision is {actual}");
        Err(Refusal::new(412, "RevisionNumberConstraintFailed", message))
    }
}

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Option<Value>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, body: Some(body), headers: Vec::new() }
    }

    /// 200 with one object.
    pub(crate) fn one(kind: Kind, object: Object) -> Answer {
        Ok(Self::new(200, under(kind, object)))
    }

    /// 201 with one object.
    pub(crate) fn made(kind: Kind, object: Object) -> Answer {
        Ok(Self::new(201, under(kind, object)))
    }

    /// 204, or another status without a body.
    pub(crate) fn empty(status: u16) -> Answer {
        Ok(Self { status, body: None, headers: Vec::new() })
    }
}

/// An object under its only key.
fn under(kind: Kind, object: Object) -> Value {
    Value::Object(Object::from_iter([(kind.words().0.to_owned(), Value::Object(object))]))
}

/// Carries a request out.
pub(crate) type Handler = fn(&mut Model, &Asked) -> Answer;
