//! Shared steps of update, patch and apply: from an existing object and a requested change to a new version.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Call;
use crate::fields::managers::{Manager, Managers, Operation};
use crate::request::Verb;
use crate::schema::{Schema, decode};
use crate::status::{ApiError, StatusCause};
use crate::store::{Expect, Stored};
use crate::{events, strategy, validation};

/// Maximum number of attempts of a write that conflicts with other writers.
const TRIES: usize = 5;

/// Checks that the `dryRun` option is `All`, if present.
pub(super) fn check_dry_run(call: &Call<'_>, kind: &str) -> Result<(), ApiError> {
    let values: Vec<&str> = call.request.options.all("dryRun").collect();
    if values.iter().all(|value| *value == "All") {
        return Ok(());
    }
    let cause = StatusCause::unsupported("dryRun", &json!(values), &["All"]);
    Err(ApiError::invalid_kind("meta.k8s.io", kind, "", &[cause]))
}

/// Checks that the `fieldManager` option is short and printable.
pub(super) fn check_field_manager(call: &Call<'_>, kind: &str) -> Result<(), ApiError> {
    let Some(manager) = call.request.options.get("fieldManager") else {
        return Ok(());
    };
    if manager.len() > 128 {
        let cause = StatusCause::too_long("fieldManager", 128);
        return Err(ApiError::invalid_kind("meta.k8s.io", kind, "", &[cause]));
    }
    Ok(())
}

/// Returns the field manager of a write.
pub(super) fn manager(call: &Call<'_>, operation: Operation) -> Manager {
    Manager {
        name: call.request.field_manager(),
        operation,
        api_version: call.resource().api_version(),
        subresource: call.subresource().to_owned(),
    }
}

/// Updates the field ownership (`managedFields`) in `new`.
pub(super) fn record_update(call: &Call<'_>, old: Option<&Value>, new: &mut Value, reset: bool) {
    let schema = Schema::get();
    let ty = schema.type_of(call.resource().type_name);
    let empty = decode::zero(&ty, schema);
    let mut managers = match (reset, new["metadata"]["managedFields"].is_array(), old) {
        (true, _, _) => Managers::default(),
        (false, true, _) => Managers::read(new),
        (false, false, Some(old)) => Managers::read(old),
        (false, false, None) => Managers::default(),
    };
    if !reset {
        let before = old.unwrap_or(&empty);
        managers.update(
            manager(call, Operation::Update),
            before,
            new,
            &ty,
            call.resource().has_status,
            &call.inner.now_text(),
        );
    }
    managers.write(new);
}

/// Result of a requested change on the existing object.
pub(super) struct RequestedChange {
    pub(super) object: Value,
    /// If set, `managedFields` are already up to date.
    pub(super) managed: bool,
    pub(super) resets_managers: bool,
    pub(super) warnings: Vec<String>,
}

/// Applies `change` to the existing object, and retries if another writer changed the object meanwhile.
pub(super) fn modify(
    call: &Call<'_>,
    change: &dyn Fn(&Stored, &Value) -> Result<RequestedChange, ApiError>,
) -> Result<(Arc<Stored>, Vec<String>), ApiError> {
    for _ in 0..TRIES {
        let stored = call.existing()?;
        let old = call.view().value(&stored);
        let requested = change(&stored, &old)?;
        let warnings = requested.warnings;
        let managed = requested.managed;
        let reset = requested.resets_managers;
        let new = prepare(call, &stored, &old, requested.object, managed, reset)?;
        if let Some(written) = commit(call, &stored, &old, new)? {
            return Ok((written, warnings));
        }
    }
    Err(ApiError::modified(call.resource(), call.target.name()))
}

/// Returns the new version, with defaults and validated.
fn prepare(
    call: &Call<'_>,
    stored: &Stored,
    old: &Value,
    mut new: Value,
    managed: bool,
    reset: bool,
) -> Result<Value, ApiError> {
    let resource = call.resource();
    let name = call.target.name();
    check_identity(call, stored, old, &new)?;
    let fixed = fixed_fields(old, &new);
    if !managed {
        record_update(call, Some(old), &mut new, reset);
    }
    keep_system_fields(old, &mut new);
    strategy::update(resource, call.subresource(), &mut new, old);
    let causes = validation::update(resource, call.subresource(), &new, old, &fixed);
    if !causes.is_empty() {
        return Err(ApiError::invalid(resource, name, &causes));
    }
    Ok(new)
}

/// Checks that UID and resourceVersion in the requested object, if present, are those of the stored one.
fn check_identity(
    call: &Call<'_>,
    stored: &Stored,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    let resource = call.resource();
    let name = call.target.name();
    let metadata = &new["metadata"];
    let uid = &metadata["uid"];
    let old_uid = &old["metadata"]["uid"];
    // A patch that names another uid is invalid (as any change of it); a PUT is about another object.
    if let Some(uid) = uid.as_str()
        && Some(uid) != old_uid.as_str()
        && call.request.verb == Verb::Update
    {
        let old_uid = old_uid.as_str().unwrap_or_default();
        let registry = if resource.plural == "nodes" {
            "minions"
        } else if resource.plural == "services" {
            "services/specs"
        } else {
            resource.plural
        };
        let detail = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{registry}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}",
            stored.key
        );
        return Err(ApiError::conflict(resource, name, &detail));
    }
    if let Some(version) = metadata["resourceVersion"]
        .as_str()
        .filter(|version| !version.is_empty())
    {
        let parsed: u64 = version.parse().map_err(|_| {
            ApiError::internal(format!(
                "strconv.ParseUint: parsing {version:?}: invalid syntax"
            ))
        })?;
        if parsed != stored.revision && parsed != 0 {
            return Err(ApiError::modified(resource, name));
        }
    }
    Ok(())
}

/// Returns an error for each field that only the server sets and that the writer tries to change.
fn fixed_fields(old: &Value, new: &Value) -> Vec<StatusCause> {
    let before = &old["metadata"];
    let metadata = &new["metadata"];
    let fields = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"];
    let changed = fields
        .into_iter()
        .filter(|field| !metadata[*field].is_null() && metadata[*field] != before[*field]);
    changed
        .map(|f| StatusCause::invalid(format!("metadata.{f}"), &metadata[f], "field is immutable"))
        .collect()
}

/// Restores the fields that only the server sets.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let before = &old["metadata"];
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
        "generateName",
    ] {
        match &before[field] {
            Value::Null if field == "generateName" => {}
            Value::Null => {
                metadata.remove(field);
            }
            value => {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
    }
}

/// Stores the new version, unless it is equal; returns `None` after a conflict with another writer. An object that
/// waited for its last finalizer is removed.
fn commit(
    call: &Call<'_>,
    stored: &Arc<Stored>,
    old: &Value,
    mut new: Value,
) -> Result<Option<Arc<Stored>>, ApiError> {
    let resource = call.resource();
    let dry_run = call.request.options.dry_run();
    call.inner
        .allocators
        .allocate(resource, Some(old), &mut new, dry_run)?;
    let object = if resource.group == "events.k8s.io" {
        events::to_core(&new)
    } else {
        new
    };
    if object == stored.value() {
        return Ok(Some(stored.clone()));
    }
    if dry_run {
        let body = crate::negotiate::to_bytes(&object);
        return Ok(Some(Arc::new(Stored {
            key: stored.key.clone(),
            revision: stored.revision,
            body,
        })));
    }
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    let finished = resource.plural == "namespaces"
        && object["spec"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty);
    if !metadata["deletionTimestamp"].is_null()
        && !finalizers
        && (resource.plural != "namespaces" || finished)
    {
        let Ok(_) = call
            .inner
            .store
            .remove(call.storage(), &stored.key, stored.revision, None)
        else {
            return Ok(None);
        };
        call.inner.allocators.release(resource, &object);
        if let Some(namespace) = &call.target.namespace {
            super::delete::finish_namespace(call.inner, namespace);
        }
        // The response is the requested object at the version that was read.
        let body = crate::negotiate::to_bytes(&object);
        return Ok(Some(Arc::new(Stored {
            key: stored.key.clone(),
            revision: stored.revision,
            body,
        })));
    }
    Ok(call
        .inner
        .store
        .put(
            call.storage(),
            &stored.key,
            Expect::Revision(stored.revision),
            object,
        )
        .ok())
}
