//! Handler of the verb `create`.

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::Call;
use super::decoding::{body_value, decode_object};
use super::write::{check_dry_run, check_field_manager, record_update};
use crate::resources;
use crate::status::ApiError;
use crate::store::{Expect, Stored, key};
use crate::{admission, defaults, events, strategy, validation};

/// Maximum number of attempts to generate a free name.
const NAME_TRIES: usize = 8;
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(super) fn create(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    check_dry_run(call, "CreateOptions")?;
    check_field_manager(call, "CreateOptions")?;
    let decoded = decode_object(call, body_value(call)?)?;
    let stored = insert(call, decoded.object, false)?;
    Ok(call.answer(201, &stored, &decoded.warnings))
}

/// Creates `object`; `managed` is set if its managedFields are already right (an apply).
pub(super) fn insert(
    call: &Call<'_>,
    mut object: Value,
    managed: bool,
) -> Result<std::sync::Arc<Stored>, ApiError> {
    let resource = call.resource();
    let metadata = &object["metadata"];
    if let Some(version) = metadata["resourceVersion"].as_str()
        && !version.is_empty()
    {
        return Err(ApiError::internal(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    check_namespace(call, &mut object)?;
    let name = name_of(&object, "name");
    let prefix = name_of(&object, "generateName");
    defaults::apply(resource, &mut object);
    if !managed {
        record_update(call, None, &mut object, false);
    }
    admission::create(&call.inner.options, resource, &mut object);
    strategy::create(resource, &mut object, &call.inner.now_text());
    set_system_fields(call, &mut object);

    let name_is_given = !name.is_empty();
    for attempt in 0..NAME_TRIES {
        let name = if name.is_empty() && !prefix.is_empty() {
            generated(&prefix)
        } else {
            name.clone()
        };
        if !name.is_empty() {
            object["metadata"]["name"] = json!(name);
        }
        let causes = validation::create(resource, &object);
        if !causes.is_empty() {
            return Err(ApiError::invalid(resource, &name, &causes));
        }
        let key = key(call.target.namespace.as_deref(), &name);
        if let Some(existing) = call.inner.store.get(call.storage(), &key) {
            if name_is_given || attempt + 1 == NAME_TRIES {
                return Err(name_conflict(call, &object, &name, &existing));
            }
            continue;
        }
        let mut candidate = object.clone();
        call.inner.allocators.allocate(
            resource,
            None,
            &mut candidate,
            call.request.options.dry_run(),
        )?;
        if call.request.options.dry_run() {
            let body = crate::negotiate::to_bytes(&candidate);
            return Ok(std::sync::Arc::new(Stored {
                key: key.into(),
                revision: 0,
                body,
            }));
        }
        let candidate = if resource.group == "events.k8s.io" {
            events::to_core(&candidate)
        } else {
            candidate
        };
        match call
            .inner
            .store
            .put(call.storage(), &key, Expect::Absent, candidate.clone())
        {
            Ok(stored) => return Ok(stored),
            Err(_) => call.inner.allocators.release(resource, &candidate),
        }
    }
    Err(ApiError::already_exists(resource, &name))
}

fn name_conflict(call: &Call<'_>, object: &Value, name: &str, existing: &Stored) -> ApiError {
    if !name_of(object, "generateName").is_empty() {
        return ApiError::generate_name_conflict(call.resource(), name);
    }
    let mut error = ApiError::already_exists(call.resource(), name);
    if !existing.value()["metadata"]["deletionTimestamp"].is_null() {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

fn name_of(object: &Value, field: &str) -> String {
    object["metadata"][field]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn generated(prefix: &str) -> String {
    let prefix: String = prefix.chars().take(63 - 5).collect();
    let letters = (0..5).map(|_| char::from(NAME_LETTERS[fastrand::usize(..NAME_LETTERS.len())]));
    prefix.chars().chain(letters).collect()
}

/// Checks that the object's namespace is that of the path, and exists.
fn check_namespace(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let Some(namespace) = &call.target.namespace else {
        return Ok(());
    };
    match object["metadata"]["namespace"].as_str().unwrap_or_default() {
        "" => object["metadata"]["namespace"] = json!(namespace),
        own if own == namespace => {}
        _ => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    let namespaces = resources::by_plural("namespaces").unwrap_or(call.resource());
    let Some(stored) = call.inner.store.get("namespaces", namespace) else {
        return Err(ApiError::not_found(namespaces, namespace));
    };
    if !stored.value()["metadata"]["deletionTimestamp"].is_null() {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let detail = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = ApiError::forbidden(call.resource(), name, &detail);
        if let Some(details) = &mut error.details {
            details["causes"] = json!([{"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]);
        }
        return Err(error);
    }
    Ok(())
}

fn set_system_fields(call: &Call<'_>, object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
    ] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), json!(crate::server::new_uid()));
    metadata.insert("creationTimestamp".to_owned(), json!(call.inner.now_text()));
}
