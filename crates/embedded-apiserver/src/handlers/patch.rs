//! Patching an object: JSON patch, merge patch, strategic merge patch, server-side apply.

use axum::body::Body;
use http::{Response, header};
use serde_json::{Value, json};

use super::Call;
use super::create::insert;
use super::decoding::{decode_object, from_yaml};
use super::update::check_name;
use super::write::{RequestedChange, check_dry_run, check_field_manager, manager, modify};
use crate::fields::apply;
use crate::fields::managers::Operation;
use crate::schema::{Schema, decode};
use crate::status::{ApiError, StatusCause};
use crate::store::Stored;
use crate::{defaults, patch as formats};

/// The format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Merge,
    Strategic,
    Apply,
}

pub(super) fn patch(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let media = call
        .request
        .header(header::CONTENT_TYPE)
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    let format = match media.as_str() {
        "application/json-patch+json" => Format::Json,
        "application/merge-patch+json" => Format::Merge,
        "application/strategic-merge-patch+json" => Format::Strategic,
        "application/apply-patch+yaml" => Format::Apply,
        _ => {
            let mut error =
                ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            error.details = Some(json!({}));
            return Err(error);
        }
    };
    check_options(call, format)?;
    if format == Format::Apply {
        return apply_patch(call);
    }
    let (stored, warnings) = modify(call, &|stored, old| patched(call, format, stored, old))?;
    Ok(call.answer(200, &stored, &warnings))
}

fn check_options(call: &Call<'_>, format: Format) -> Result<(), ApiError> {
    check_dry_run(call, "PatchOptions")?;
    check_field_manager(call, "PatchOptions")?;
    let invalid = |cause: StatusCause| {
        Err(ApiError::invalid_kind(
            "meta.k8s.io",
            "PatchOptions",
            "",
            &[cause],
        ))
    };
    if format == Format::Apply && call.request.options.get("fieldManager").is_none() {
        return invalid(StatusCause::required(
            "fieldManager",
            "is required for apply patch",
        ));
    }
    if format != Format::Apply && call.request.options.get("force").is_some() {
        return invalid(StatusCause::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    Ok(())
}

/// Applies the patch to the existing object.
fn patched(
    call: &Call<'_>,
    format: Format,
    stored: &Stored,
    old: &Value,
) -> Result<RequestedChange, ApiError> {
    let resource = call.resource();
    let ty = Schema::get().type_of(resource.type_name);
    let mut object = old.clone();
    object["metadata"]["resourceVersion"] = json!(stored.revision.to_string());
    object["kind"] = json!(resource.kind);
    object["apiVersion"] = json!(resource.api_version());
    match format {
        Format::Json => formats::json::apply(&mut object, call.body)?,
        Format::Merge => {
            formats::merge::apply(&mut object, patch_value(call, "error decoding patch: ")?);
        }
        Format::Strategic => {
            formats::strategic::apply(&mut object, patch_value(call, "")?, &ty)
                .map_err(ApiError::internal)?;
        }
        Format::Apply => {}
    }
    let shown = object.clone();
    let decoded = decode_object(call, object)
        .map_err(|error| undecodable(error, format, &shown, resource.kind))?;
    let mut object = decoded.object;
    check_name(call, &mut object)?;
    defaults::apply(resource, &mut object);
    Ok(RequestedChange {
        object,
        managed: false,
        resets_managers: decoded.resets_managers,
        warnings: decoded.warnings,
    })
}

fn patch_value(call: &Call<'_>, prefix: &str) -> Result<Value, ApiError> {
    let value: Value = serde_json::from_slice(call.body)
        .map_err(|_| ApiError::bad_request("invalid JSON patch"))?;
    if !value.is_object() {
        let what = if value.is_array() { "array" } else { "value" };
        return Err(ApiError::bad_request(format!(
            "{prefix}json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )));
    }
    Ok(value)
}

/// Returns the error for a patched object that does not fit its type: an invalid `patch`, without the name of the
/// object.
fn undecodable(error: ApiError, format: Format, object: &Value, kind: &str) -> ApiError {
    let strict = error
        .message
        .split_once(&format!("cannot be handled as a {kind}: "))
        .map(|(_, rest)| rest.to_owned());
    let Some(problem) = strict else { return error };
    let shown = match format {
        Format::Strategic => go_map(object),
        _ => object.to_string(),
    };
    let value = if format == Format::Strategic {
        Value::String(shown)
    } else {
        json!(shown)
    };
    let cause = StatusCause::invalid("patch", &value, &problem);
    let mut error = ApiError::invalid_kind("", "", "", &[cause]);
    if let Some(details) = error.details.as_mut().and_then(Value::as_object_mut) {
        details.remove("kind");
    }
    error
}

/// Returns an object as Go's `%+v` prints a map.
fn go_map(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_map(value)))
                .collect();
            format!("map[{}]", pairs.join(" "))
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(go_map).collect::<Vec<_>>().join(" ")
        ),
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

fn apply_patch(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let resource = call.resource();
    let raw = from_yaml(call.body)?;
    let given = |key: &str| raw[key].as_str().unwrap_or_default().to_owned();
    let kind = given("kind");
    let version = given("apiVersion");
    if kind.is_empty() || version.is_empty() {
        let message = format!(
            "invalid object type: {}, Kind={kind}",
            group_version(&version)
        );
        return Err(ApiError::bad_request(message));
    }
    if kind != resource.kind || version != resource.api_version() {
        let message = format!(
            "the kind in the data ({version}, Kind={kind}) does not match the expected kind ({}, Kind={})",
            resource.api_version(),
            resource.kind
        );
        return Err(ApiError::bad_request(message));
    }
    if raw["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
    {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let decoded = decode_object(call, raw.clone())?;
    let mut config = keep_sent_fields(decoded.object, &raw);
    check_name(call, &mut config)?;
    let warnings = decoded.warnings;
    if call.inner.object(resource, &call.target.key()).is_none() {
        if call.subresource() == "status" {
            return Err(ApiError::not_found(resource, call.target.name()));
        }
        if raw["metadata"]["uid"].is_string() {
            return Err(ApiError::conflict(
                resource,
                call.target.name(),
                &format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    raw["metadata"]["uid"].as_str().unwrap_or_default()
                ),
            ));
        }
        let mut created = merged(call, &empty(call), &config)?;
        created["metadata"]["name"] = json!(call.target.name());
        if let Some(metadata) = created["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let stored = insert(call, created, true)?;
        return Ok(call.answer(201, &stored, &warnings));
    }
    let (stored, _) = modify(call, &|_, old| {
        let object = merged(call, old, &config)?;
        Ok(RequestedChange {
            object,
            managed: true,
            resets_managers: false,
            warnings: Vec::new(),
        })
    })?;
    Ok(call.answer(200, &stored, &warnings))
}

/// Formats a group and version as Go's `GroupVersion` prints them.
fn group_version(version: &str) -> String {
    if version.contains('/') {
        version.to_owned()
    } else {
        format!("/{version}")
    }
}

fn empty(call: &Call<'_>) -> Value {
    let schema = Schema::get();
    decode::zero(&schema.type_of(call.resource().type_name), schema)
}

fn merged(call: &Call<'_>, live: &Value, config: &Value) -> Result<Value, ApiError> {
    let resource = call.resource();
    let schema = Schema::get();
    let ty = schema.type_of(resource.type_name);
    let force = call.request.options.flag("force");
    let who = manager(call, Operation::Apply);
    let object = apply::apply(
        live,
        config,
        &ty,
        who,
        resource.has_status,
        force,
        &call.inner.now_text(),
    )?;
    let mut object = decode::decode(object, &ty, &mut Vec::new()).map_err(ApiError::bad_request)?;
    defaults::apply(resource, &mut object);
    Ok(object)
}

/// Removes defaults that decoding added: an applier owns only the fields that it sent.
fn keep_sent_fields(decoded: Value, raw: &Value) -> Value {
    match (decoded, raw) {
        (Value::Object(map), Value::Object(sent)) => Value::Object(
            map.into_iter()
                .filter_map(|(key, value)| {
                    sent.get(&key)
                        .map(|raw| (key, keep_sent_fields(value, raw)))
                })
                .collect(),
        ),
        (Value::Array(items), Value::Array(sent)) if items.len() == sent.len() => Value::Array(
            items
                .into_iter()
                .zip(sent)
                .map(|(item, raw)| keep_sent_fields(item, raw))
                .collect(),
        ),
        (decoded, _) => decoded,
    }
}
