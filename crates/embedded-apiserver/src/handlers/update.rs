//! Handler of the verb `update`.

use axum::body::Body;
use http::Response;
use serde_json::json;

use super::Call;
use super::create::insert;
use super::decoding::{body_value, decode_object};
use super::write::{RequestedChange, check_dry_run, check_field_manager, modify};
use crate::defaults;
use crate::status::{ApiError, StatusCause};

pub(super) fn update(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    check_dry_run(call, "UpdateOptions")?;
    check_field_manager(call, "UpdateOptions")?;
    let resource = call.resource();
    let decoded = decode_object(call, body_value(call)?)?;
    let mut object = decoded.object;
    check_name(call, &mut object)?;
    defaults::apply(resource, &mut object);
    let exists = call.inner.object(resource, &call.target.key()).is_some();
    if !exists
        && ["leases", "services", "events", "endpoints"].contains(&resource.plural)
        && call.subresource().is_empty()
    {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let stored = insert(call, object, false)?;
        return Ok(call.answer(201, &stored, &decoded.warnings));
    }
    if exists && resource.plural == "leases" && object["metadata"]["resourceVersion"].is_null() {
        let cause = StatusCause::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        return Err(ApiError::invalid_kind(
            resource.group,
            resource.plural,
            call.target.name(),
            &[cause],
        ));
    }
    let (stored, _) = modify(call, &|_, _| {
        Ok(RequestedChange {
            object: object.clone(),
            managed: false,
            resets_managers: decoded.resets_managers,
            warnings: Vec::new(),
        })
    })?;
    Ok(call.answer(200, &stored, &decoded.warnings))
}

/// Checks that name and namespace of the object are those of the path.
pub(super) fn check_name(call: &Call<'_>, object: &mut serde_json::Value) -> Result<(), ApiError> {
    let metadata = &mut object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let wanted = call.target.name();
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    } else if name != wanted {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )));
    }
    if let Some(namespace) = &call.target.namespace {
        let own_namespace = metadata["namespace"].as_str().unwrap_or_default();
        if own_namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        } else if own_namespace != namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}
