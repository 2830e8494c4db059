//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges `patch` into `object`: null removes, objects merge, everything else replaces.
pub(crate) fn apply(object: &mut Value, patch: Value) {
    let Value::Object(changes) = patch else {
        *object = patch;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(map) = object.as_object_mut() else {
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            map.remove(&key);
        } else {
            apply(map.entry(key).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_removes_and_lists_are_replaced() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        apply(
            &mut object,
            json!({"a": {"b": null, "d": {"e": null}}, "l": [3]}),
        );
        assert_eq!(object, json!({"a": {"c": 2, "d": {}}, "l": [3]}));
    }
}
