//! Errors as the API answers them: a `Status` object with the real server's reasons and wording.

use serde_json::{Map, Value, json};

use crate::resources::Resource;

/// Error that is sent as a Status object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    /// `metadata` of the Status: an expired list carries a new continue token here.
    pub(crate) metadata: Value,
}

/// An invalid field of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatusCause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl StatusCause {
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {}: {detail}", shown(value)),
            field: field.into(),
        }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            reason: "FieldValueRequired",
            message,
            field: field.into(),
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {detail}"),
            field: field.into(),
        }
    }

    pub(crate) fn duplicate(field: impl Into<String>, shown: &str) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {shown}"),
            field: field.into(),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self {
            reason: "FieldValueTooLong",
            message,
            field: field.into(),
        }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            list.join(", ")
        );
        Self {
            reason: "FieldValueNotSupported",
            message,
            field: field.into(),
        }
    }
}

/// Returns a value as Go prints it in a field error.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            metadata: json!({}),
        }
    }

    fn about(mut self, resource: &Resource, kind: &str, name: &str) -> Self {
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".to_owned(), json!(name));
        }
        if !resource.group.is_empty() {
            details.insert("group".to_owned(), json!(resource.group));
        }
        details.insert("kind".to_owned(), json!(kind));
        self.details = Some(Value::Object(details));
        self
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", resource.qualified()),
        )
        .about(resource, resource.plural, name)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", resource.qualified()),
        )
        .about(resource, resource.plural, name)
    }

    pub(crate) fn generate_name_conflict(resource: &Resource, name: &str) -> Self {
        let mut error = Self::already_exists(resource, name);
        error
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        if let Some(details) = &mut error.details {
            details["retryAfterSeconds"] = json!(1);
        }
        error
    }

    /// Creates the error for an object that changed since the version that the writer read.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {detail}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).about(resource, resource.plural, name)
    }

    /// Creates the error for a delete precondition that does not hold: it names the kind where other conflicts name the
    /// resource.
    pub(crate) fn precondition(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {detail}",
            resource.qualified_kind()
        );
        Self::new(409, "Conflict", message).about(resource, resource.kind, name)
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {detail}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, resource.plural, name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn unknown_path() -> Self {
        let mut error = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        error.details = Some(json!({}));
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut error = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        error.details = Some(json!({}));
        error
    }

    /// Creates the error for an invalid object of `resource`.
    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[StatusCause]) -> Self {
        Self::invalid_kind(resource.group, resource.kind, name, causes)
    }

    /// Creates the error for an invalid value of `kind`.
    pub(crate) fn invalid_kind(
        group: &str,
        kind: &str,
        name: &str,
        causes: &[StatusCause],
    ) -> Self {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        // Two validations may find the same mistake, which is reported once.
        let mut found: Vec<&StatusCause> = Vec::new();
        for cause in causes {
            if !found.contains(&cause) {
                found.push(cause);
            }
        }
        let lines: Vec<String> = found
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let text = if lines.len() == 1 {
            lines.concat()
        } else {
            format!("[{}]", lines.join(", "))
        };
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".to_owned(), json!(name));
        }
        if !group.is_empty() {
            details.insert("group".to_owned(), json!(group));
        }
        if !kind.is_empty() {
            details.insert("kind".to_owned(), json!(kind));
        }
        let causes: Vec<Value> = found
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        details.insert("causes".to_owned(), Value::Array(causes));
        let mut error = Self::new(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid: {text}"),
        );
        error.details = Some(Value::Object(details));
        error
    }

    /// Returns the error as a Status object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// Returns the Status that answers a delete.
pub(crate) fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural, "uid": uid});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
