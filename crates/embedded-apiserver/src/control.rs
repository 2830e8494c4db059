//! Control endpoints for people: `/_faults`, `/_compact`, `/_requests`.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use crate::faults::Rule;
use crate::negotiate::{json_response, to_bytes};
use crate::server::Inner;

const USAGE: &str =
    "GET, POST or DELETE /_faults, DELETE /_faults/ID, POST /_compact, GET or DELETE /_requests";

pub(crate) fn answer(inner: &Inner, method: &Method, path: &str, body: &Bytes) -> Response<Body> {
    let (code, value) = match (method.as_str(), path) {
        ("GET", "/_faults") => (200, json!(inner.faults.list())),
        ("POST", "/_faults") => match serde_json::from_slice::<Rule>(body) {
            Ok(rule) => (
                201,
                json!({"id": inner.faults.add(rule.matcher, rule.action)}),
            ),
            Err(problem) => (
                400,
                json!({"error": format!("not a fault rule: {problem}")}),
            ),
        },
        ("DELETE", "/_faults") => {
            inner.faults.clear();
            (200, json!({}))
        }
        ("DELETE", path) if path.starts_with("/_faults/") => {
            let removed = path["/_faults/".len()..]
                .parse()
                .is_ok_and(|id| inner.faults.remove(id));
            (if removed { 200 } else { 404 }, json!({}))
        }
        ("POST", "/_compact") => {
            inner.store.compact();
            (200, json!({"revision": inner.store.revision()}))
        }
        ("GET", "/_requests") => (200, counts(inner)),
        ("DELETE", "/_requests") => {
            inner.requests.clear();
            (200, json!({}))
        }
        _ => (
            404,
            json!({"error": format!("{method} {path} is unknown; there is: {USAGE}")}),
        ),
    };
    json_response(code, to_bytes(&value))
}

fn counts(inner: &Inner) -> Value {
    let counts = inner.requests.counts();
    let rows = counts.into_iter().map(
        |((verb, resource), count)| json!({"verb": verb, "resource": resource, "count": count}),
    );
    Value::Array(rows.collect())
}
