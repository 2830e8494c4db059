//! Decoding of a request's body to an object of the resource's type.

use http::header;
use serde_json::{Value, json};

use super::Call;
use crate::request::Verb;
use crate::resources::Resource;
use crate::schema::{Schema, decode, duplicates, protobuf};
use crate::status::ApiError;

/// Treatment of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// A decoded object and the warnings about it.
pub(super) struct Decoded {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
    /// `metadata.managedFields: []` was sent: forget who owned what.
    pub(super) resets_managers: bool,
}

const MEDIA_TYPES: &str = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Parses the `fieldValidation` option.
pub(super) fn field_validation(call: &Call<'_>) -> Result<FieldValidation, ApiError> {
    match call.request.options.get("fieldValidation") {
        None | Some("Warn") => Ok(FieldValidation::Warn),
        Some("Ignore") => Ok(FieldValidation::Ignore),
        Some("Strict") => Ok(FieldValidation::Strict),
        Some(other) => {
            let kind = match call.request.verb {
                crate::request::Verb::Create => "CreateOptions",
                crate::request::Verb::Update => "UpdateOptions",
                _ => "PatchOptions",
            };
            let cause = crate::status::StatusCause::unsupported(
                "fieldValidation",
                &json!(other),
                &["", "Ignore", "Strict", "Warn"],
            );
            Err(ApiError::invalid_kind("meta.k8s.io", kind, "", &[cause]))
        }
    }
}

/// Decodes the body to a JSON value, from any accepted format.
pub(super) fn body_value(call: &Call<'_>) -> Result<Value, ApiError> {
    let content_type = call.request.header(header::CONTENT_TYPE);
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "" | "application/json" => from_json(call.resource(), call.body),
        "application/yaml" => from_yaml(call.body),
        "application/vnd.kubernetes.protobuf" => {
            let ty = Schema::get().type_of(call.resource().type_name);
            protobuf::decode(call.body, &ty).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "the body is no {} in protobuf that this server reads",
                    call.resource().kind
                ))
            })
        }
        _ => Err(ApiError::new(415, "UnsupportedMediaType", MEDIA_TYPES)),
    }
}

fn from_json(resource: &Resource, body: &[u8]) -> Result<Value, ApiError> {
    let unrecognised = |problem: String, shown: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {problem} ({shown})",
            resource.kind
        ))
    };
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(other) => {
            let what = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => "bool",
            };
            let into = r#"json: cannot unmarshal WHAT into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            Err(unrecognised(into.replace("WHAT", what), shown_body(body)))
        }
        Err(problem) if problem.is_eof() => Err(unrecognised(
            "unexpected end of JSON input".to_owned(),
            shown_body(body),
        )),
        Err(problem) => {
            let at = problem
                .column()
                .saturating_sub(1)
                .min(body.len().saturating_sub(1));
            let found = body.get(at).map_or(' ', |byte| char::from(*byte));
            let problem =
                format!("invalid character '{found}' looking for beginning of object key string");
            Err(unrecognised(problem, shown_body(body)))
        }
    }
}

/// Returns the body as the error shows it: as text if it looks like JSON, in hexadecimal otherwise.
fn shown_body(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    if body.first() == Some(&b'{') {
        return String::from_utf8_lossy(body).into_owned();
    }
    body.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses YAML, of which JSON is a subset.
pub(super) fn from_yaml(body: &[u8]) -> Result<Value, ApiError> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text =
        std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    serde_saphyr::from_str(text)
        .map_err(|problem| ApiError::bad_request(format!("error decoding YAML: {problem}")))
}

/// Checks kind and version, then the fields.
pub(super) fn decode_object(call: &Call<'_>, value: Value) -> Result<Decoded, ApiError> {
    let validation = field_validation(call)?;
    let resource = call.resource();
    check_kind(resource, &value)?;
    let resets_managers = value["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|entries| {
            entries
                .iter()
                .all(|entry| entry.as_object().is_some_and(serde_json::Map::is_empty))
        });
    let ty = Schema::get().type_of(resource.type_name);
    let mut unknown = Vec::new();
    let mut object = decode::decode(value, &ty, &mut unknown)
        .map_err(|problem| cannot_handle(resource, &problem))?;
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    let is_whole = matches!(call.request.verb, Verb::Create | Verb::Update)
        && validation != FieldValidation::Ignore;
    let doubled = if is_whole {
        duplicates::find(call.body)
    } else {
        Vec::new()
    };
    let doubled = doubled
        .iter()
        .map(|path| format!("duplicate field \"{path}\""));
    let unknown = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""));
    let problems: Vec<String> = doubled.chain(unknown).collect();
    if validation == FieldValidation::Strict && !problems.is_empty() {
        return Err(cannot_handle(
            resource,
            &format!("strict decoding error: {}", problems.join(", ")),
        ));
    }
    let warnings = if validation == FieldValidation::Warn {
        problems
    } else {
        Vec::new()
    };
    Ok(Decoded {
        object,
        warnings,
        resets_managers,
    })
}

fn check_kind(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let kind = text("kind");
    let version = text("apiVersion");
    let kind = if kind.is_empty() { resource.kind } else { kind };
    let version = if version.is_empty() {
        resource.api_version()
    } else {
        version.to_owned()
    };
    if kind == resource.kind && version == resource.api_version() {
        return Ok(());
    }
    let handled = format!(
        "{kind} in version {:?} cannot be handled as a {}",
        version.rsplit('/').next().unwrap_or_default(),
        resource.kind
    );
    let known = crate::resources::by_kind(&version, kind).is_some();
    let detail = if known {
        let package = if resource.group.is_empty() {
            "core".to_owned()
        } else {
            resource
                .group
                .split('.')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        format!(
            "converting (v1.{kind}) to ({package}.{}): unknown conversion",
            resource.kind
        )
    } else {
        format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    Err(ApiError::bad_request(format!("{handled}: {detail}")))
}

fn cannot_handle(resource: &Resource, problem: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {problem}",
        resource.kind, resource.version, resource.kind
    ))
}
