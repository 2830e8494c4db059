//! Not yet.
use crate::negotiate::View;
use serde_json::{Value, json};
pub(crate) fn table(_view: &View, metadata: Value, rows: Vec<Value>, _first: bool) -> Value {
    json!({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":metadata,"columnDefinitions":[],"rows":rows})
}
pub(crate) fn row(_view: &View, value: &Value) -> Value {
    json!({"cells":[], "object": value})
}
pub(crate) fn bookmark_row(_view: &View, metadata: &Value) -> Value {
    json!({"cells":[], "object": {"metadata": metadata}})
}
