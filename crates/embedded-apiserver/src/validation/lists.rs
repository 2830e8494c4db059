//! Walking lists of an object.

use serde_json::Value;

/// Returns the items of the list at a field, with their index.
pub(super) fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value[field].as_array().into_iter().flatten().enumerate()
}

/// Returns the text of a field; what is not set is empty.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
