//! Writing into JSON that a cloud or the Kubernetes API has sent.
//!
//! `value["key"] = …` panics if `value` is no object, and an answer can have any form. These functions never panic: a value
//! of another form on the way is replaced by an object.

use serde_json::{Map, Value};

/// Returns the value at a path of keys, to be written. What does not exist is created.
///
/// ```
/// use provider_kit::json_path::place;
/// use serde_json::json;
///
/// let mut answer = json!({"tags": "odd"});
/// *place(&mut answer, &["tags", "owner"]) = json!("web");
/// assert_eq!(answer, json!({"tags": {"owner": "web"}}));
/// ```
pub fn place<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, key| {
        fields(value).entry(*key).or_insert(Value::Null)
    })
}

/// Takes the value at a path of keys, and leaves `null`. Returns `null` if there is none.
#[must_use]
pub fn take(value: &mut Value, path: &[&str]) -> Value {
    path.iter()
        .try_fold(value, |value, key| value.get_mut(*key))
        .map(Value::take)
        .unwrap_or_default()
}

/// Returns the list at a path of keys, to be written. What is no list becomes an empty one.
pub fn list<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Vec<Value> {
    let value = place(value, path);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(items) => items,
        _ => unreachable!("the value was just made a list"),
    }
}

/// Returns the fields of an object, to be written. What is no object becomes an empty one.
pub fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("the value was just made an object"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_of_any_form_is_written_without_a_panic() {
        for odd in [
            json!(null),
            json!("text"),
            json!(7),
            json!([1]),
            json!({"a": "text"}),
            json!({"a": [1]}),
        ] {
            let mut value = odd.clone();
            *place(&mut value, &["a", "b"]) = json!(1);
            assert_eq!(value, json!({"a": {"b": 1}}), "{odd}");
            let mut value = odd.clone();
            list(&mut value, &["a"]).push(json!(2));
            assert_eq!(
                value["a"].as_array().and_then(|all| all.last()),
                Some(&json!(2)),
                "{odd}"
            );
            assert_eq!(take(&mut odd.clone(), &["a", "b"]), Value::Null, "{odd}");
        }
        let mut value = json!({"a": {"b": [1]}});
        assert_eq!(
            (take(&mut value, &["a", "b"]), value),
            (json!([1]), json!({"a": {"b": null}}))
        );
    }
}
