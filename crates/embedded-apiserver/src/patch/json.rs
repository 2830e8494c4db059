//! JSON patch (RFC 6902).

use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};

use crate::status::ApiError;

/// Most operations that one patch may hold.
const MAX_OPERATIONS: usize = 10_000;

/// Applies the operations in `patch` to `object`.
///
/// # Errors
///
/// 400 if the patch cannot be read, 422 if an operation fails (a test that does not hold, a path that is not there).
pub(crate) fn apply(object: &mut Value, patch: &[u8]) -> Result<(), ApiError> {
    let value: Value = serde_json::from_slice(patch)
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    if !value.is_array() {
        return Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            if value.is_object() { "object" } else { "value" }
        )));
    }
    let operations: json_patch::Patch =
        serde_json::from_value(value).map_err(|_| unprocessable())?;
    if operations.0.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.0.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = object.clone();
    for operation in operations.0 {
        let operation = match operation {
            // A member that is not there is replaced by being added.
            PatchOperation::Replace(replace)
                if is_missing_member(&patched, &replace.path.to_string()) =>
            {
                PatchOperation::Add(AddOperation {
                    path: replace.path,
                    value: replace.value,
                })
            }
            other => other,
        };
        json_patch::patch(&mut patched, &[operation]).map_err(|_| unprocessable())?;
    }
    *object = patched;
    Ok(())
}

fn is_missing_member(object: &Value, path: &str) -> bool {
    let Some((parent, _)) = path.rsplit_once('/') else {
        return false;
    };
    object.pointer(path).is_none() && object.pointer(parent).is_some_and(Value::is_object)
}

fn unprocessable() -> ApiError {
    let mut error = ApiError::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    error.details = Some(json!({}));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_does_not_hold_changes_nothing() {
        let mut object = json!({"a": 1});
        let patch =
            br#"[{"op":"replace","path":"/a","value":2},{"op":"test","path":"/a","value":3}]"#;
        assert_eq!(apply(&mut object, patch).unwrap_err().code, 422);
        assert_eq!(object, json!({"a": 1}));
    }
}
