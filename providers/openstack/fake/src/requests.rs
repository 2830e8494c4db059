//! Bodies of requests, and results of handlers.

use fake_cloud::Reply;
use serde_json::Value;

use crate::model::{Kind, Object, text};
use crate::refusal::{Refusal, Service};

/// Result of a request handler.
pub(crate) type Answer = Result<Reply, Refusal>;

/// A request that passed the gate.
pub(crate) type ApiRequest = fake_cloud::ApiRequest<Service>;

/// Returns the object under the body's only key.
pub(crate) fn object(request: &ApiRequest, kind: Kind) -> Result<&Object, Refusal> {
    let key = kind.words().0;
    let object = request
        .body
        .get(key)
        .and_then(Value::as_object)
        .ok_or_else(|| match request.service {
            Service::Network => Refusal::bad(format!("Unable to find '{key}' in request body")),
            _ => Refusal::invalid(format!("Missing argument: \"{key}_\"")),
        })?;
    match too_long(object).filter(|_| request.service == Service::Network) {
        None => Ok(object),
        Some(key) => {
            let value = text(object, key);
            let limit = format!("exceeds maximum length of {LONGEST}");
            Err(Refusal::bad(format!(
                "Invalid input for {key}. Reason: '{value}' {limit}."
            )))
        }
    }
}

/// Maximum number of characters of a name or a description.
pub(crate) const LONGEST: usize = 255;

/// Returns the field that is longer than [`LONGEST`], if any.
pub(crate) fn too_long(object: &Object) -> Option<&'static str> {
    ["name", "description"]
        .into_iter()
        .find(|key| text(object, key).chars().count() > LONGEST)
}

/// Checks that `If-Match: revision_number=<n>`, if present, names the object's revision.
pub(crate) fn expect_revision(request: &ApiRequest, object: &Object) -> Result<(), Refusal> {
    let wanted = request
        .header("if-match")
        .and_then(|header| header.trim().strip_prefix("revision_number="));
    let Some(wanted) = wanted else { return Ok(()) };
    let actual = object
        .get("revision_number")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    if wanted.trim_matches('"').parse() == Ok(actual) {
        return Ok(());
    }
    let message = format!("Constrained to {wanted}, but current revision is {actual}");
    Err(Refusal::new(412, "RevisionNumberConstraintFailed", message))
}

/// Returns status 200 with one object.
pub(crate) fn one(kind: Kind, object: Object) -> Answer {
    Ok(Reply::new(200, under(kind, object)))
}

/// Returns status 201 with one object.
pub(crate) fn made(kind: Kind, object: Object) -> Answer {
    Ok(Reply::new(201, under(kind, object)))
}

/// Returns an object under its only key.
fn under(kind: Kind, object: Object) -> Value {
    Value::Object(Object::from_iter([(
        kind.words().0.to_owned(),
        Value::Object(object),
    )]))
}
