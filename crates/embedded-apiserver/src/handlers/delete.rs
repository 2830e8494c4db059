//! Deleting: preconditions, finalizers, collections, namespaces.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::Call;
use super::list::{check_options, selector};
use super::write::check_dry_run;
use crate::negotiate::{Form, respond, to_bytes};
use crate::resources::{RESOURCES, Resource};
use crate::schema::{Schema, decode, protobuf};
use crate::server::Inner;
use crate::status::{self, ApiError, StatusCause};
use crate::store::{Expect, Stored};

/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Options of a delete request.
#[derive(Default)]
struct DeleteOptions {
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
    /// Finalizer that a garbage collector would have to remove.
    collector: Option<&'static str>,
}

/// Result of a deletion.
enum DeletionOutcome {
    /// The object was removed; holds its last state.
    Gone(Arc<Stored>),
    /// The object waits for its finalizers.
    Waiting(Arc<Stored>),
}

pub(super) fn delete(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let options = delete_options(call)?;
    let resource = call.resource();
    let name = call.target.name();
    if resource.plural == "namespaces" && PROTECTED.contains(&name) {
        return Err(ApiError::forbidden(
            resource,
            name,
            "this namespace may not be deleted",
        ));
    }
    match delete_one(call, &call.target.key(), &options)? {
        DeletionOutcome::Gone(stored) if resource.delete_returns_object() => {
            Ok(call.answer(200, &stored, &[]))
        }
        DeletionOutcome::Gone(stored) => {
            let uid = stored.value()["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let form = if call.form == Form::Yaml {
                Form::Yaml
            } else {
                Form::Json
            };
            Ok(respond(
                form,
                200,
                to_bytes(&status::deleted(resource, name, &uid)),
            ))
        }
        DeletionOutcome::Waiting(stored) => Ok(call.answer(200, &stored, &[])),
    }
}

pub(super) fn collection(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let options = delete_options(call)?;
    let selector = selector(call)?;
    check_options(call, false)?;
    let snapshot = call.inner.store.snapshot(call.storage());
    let mut deleted = Vec::new();
    for stored in snapshot
        .objects
        .iter()
        .filter(|stored| selector.matches(stored))
    {
        match delete_one(call, &stored.key, &options) {
            // A collection lists its objects as they were.
            Ok(_) => deleted.push(stored.clone()),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = json!({"resourceVersion": snapshot.revision.to_string()});
    Ok(respond(
        call.form,
        200,
        call.view().list(&metadata, &deleted),
    ))
}

fn delete_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    check_dry_run(call, "DeleteOptions")?;
    let body = options_body(call)?;
    let invalid =
        |cause: StatusCause| ApiError::invalid_kind("meta.k8s.io", "DeleteOptions", "", &[cause]);
    let policy = body["propagationPolicy"]
        .as_str()
        .or(call.request.options.get("propagationPolicy"));
    if let Some(policy) =
        policy.filter(|policy| !["Foreground", "Background", "Orphan"].contains(policy))
    {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        return Err(invalid(StatusCause::unsupported(
            "propagationPolicy",
            &json!(policy),
            &supported,
        )));
    }
    let listed: Vec<&str> = body["dryRun"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if listed.iter().any(|value| *value != "All") {
        return Err(invalid(StatusCause::unsupported(
            "dryRun",
            &json!(listed),
            &["All"],
        )));
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(DeleteOptions {
        uid: text(&body["preconditions"]["uid"]),
        version: text(&body["preconditions"]["resourceVersion"]),
        dry_run: call.request.options.dry_run() || !listed.is_empty(),
        collector: match policy {
            Some("Foreground") => Some("foregroundDeletion"),
            Some("Orphan") => Some("orphan"),
            _ => None,
        },
    })
}

fn options_body(call: &Call<'_>) -> Result<Value, ApiError> {
    if call.body.is_empty() {
        return Ok(json!({}));
    }
    let ty = Schema::get().type_of("meta.v1.DeleteOptions");
    let is_protobuf = call
        .request
        .header(http::header::CONTENT_TYPE)
        .starts_with("application/vnd.kubernetes.protobuf");
    if is_protobuf {
        return protobuf::decode(call.body, &ty)
            .ok_or_else(|| ApiError::bad_request("the body is no DeleteOptions in protobuf"));
    }
    let value = super::decoding::from_yaml(call.body).map_err(|_| {
        ApiError::bad_request(
            "couldn't get version/kind; json parse error: unexpected end of JSON input",
        )
    })?;
    let kind = value["kind"].as_str().unwrap_or_default();
    let version = value["apiVersion"].as_str().unwrap_or("v1");
    if !matches!(kind, "" | "DeleteOptions") {
        let message = format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        );
        return Err(ApiError::bad_request(message));
    }
    let named = |problem: String| match problem.strip_suffix("preconditions.uid of type string") {
        Some(start) => format!("{start}preconditions.uid of type types.UID"),
        None => problem,
    };
    decode::decode(value, &ty, &mut Vec::new())
        .map_err(|problem| ApiError::bad_request(named(problem)))
}

fn delete_one(
    call: &Call<'_>,
    key: &str,
    options: &DeleteOptions,
) -> Result<DeletionOutcome, ApiError> {
    let resource = call.resource();
    let name = key.rsplit('/').next().unwrap_or(key);
    loop {
        let stored = call
            .inner
            .store
            .get(call.storage(), key)
            .ok_or_else(|| ApiError::not_found(resource, name))?;
        let mut object = stored.value();
        check_preconditions(call, &stored, &object, name, options)?;
        let terminating = !object["metadata"]["deletionTimestamp"].is_null();
        if let Some(collector) = options.collector.filter(|_| !terminating) {
            let listed = object["metadata"]["finalizers"].take();
            let mut listed = listed.as_array().cloned().unwrap_or_default();
            listed.push(json!(collector));
            object["metadata"]["finalizers"] = Value::Array(listed);
        }
        let finalizers = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        if finalizers {
            if terminating || options.dry_run {
                return Ok(DeletionOutcome::Waiting(stored));
            }
            mark(call, &mut object);
            match call.inner.store.put(
                call.storage(),
                key,
                Expect::Revision(stored.revision),
                object,
            ) {
                Ok(written) => {
                    let value = written.value();
                    if nothing_else_keeps(resource, &value) {
                        // The server itself does the work of the garbage collector and of the protection of unused
                        // volumes: a concurrent writer finds the object marked for deletion, and its next delete
                        // completes it.
                        if call
                            .inner
                            .store
                            .remove(call.storage(), key, written.revision, None)
                            .is_ok()
                        {
                            call.inner.allocators.release(resource, &value);
                        }
                    }
                    return Ok(DeletionOutcome::Waiting(written));
                }
                Err(_) => continue,
            }
        }
        if options.dry_run {
            return Ok(DeletionOutcome::Gone(stored));
        }
        if resource.plural == "namespaces" {
            return Ok(remove_namespace(call, &stored, object));
        }
        if let Ok(gone) = call
            .inner
            .store
            .remove(call.storage(), key, stored.revision, None)
        {
            call.inner.allocators.release(resource, &object);
            return Ok(DeletionOutcome::Gone(gone));
        }
    }
}

/// Returns `true` if only finalizers keep the object that other controllers of a cluster would remove at once.
fn nothing_else_keeps(resource: &Resource, object: &Value) -> bool {
    let in_use = object["status"]["phase"] == "Bound";
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .all(|name| match name.as_str() {
            Some("foregroundDeletion" | "orphan") => true,
            Some("kubernetes.io/pv-protection") => {
                resource.plural == "persistentvolumes" && !in_use
            }
            _ => false,
        })
}

/// Marks the object as being deleted.
fn mark(call: &Call<'_>, object: &mut Value) {
    object["metadata"]["deletionTimestamp"] = json!(call.inner.now_text());
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
}

fn check_preconditions(
    call: &Call<'_>,
    stored: &Stored,
    object: &Value,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let resource = call.resource();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let detail = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(ApiError::precondition(resource, name, &detail));
    }
    let revision = stored.revision.to_string();
    if let Some(wanted) = options
        .version
        .as_deref()
        .filter(|wanted| *wanted != revision)
    {
        let detail = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        );
        return Err(ApiError::precondition(resource, name, &detail));
    }
    Ok(())
}

/// Removes a Namespace with its content at once, because there is no controller that would do it step by step. Objects
/// that wait for a finalizer keep the Namespace until they are deleted.
fn remove_namespace(call: &Call<'_>, stored: &Arc<Stored>, mut object: Value) -> DeletionOutcome {
    let store = &call.inner.store;
    mark(call, &mut object);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("deletionGracePeriodSeconds");
    }
    object["status"]["phase"] = json!("Terminating");
    let marked = store.put(
        "namespaces",
        &stored.key,
        Expect::Revision(stored.revision),
        object,
    );
    for (resource, content) in contents(call.inner, &stored.key) {
        let mut value = content.value();
        let storage = resource.storage().plural;
        if value["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
        {
            mark(call, &mut value);
            // A concurrent writer finds the Namespace marked for deletion.
            let _changed = store.put(
                storage,
                &content.key,
                Expect::Revision(content.revision),
                value,
            );
        } else if store
            .remove(storage, &content.key, content.revision, None)
            .is_ok()
        {
            call.inner.allocators.release(resource, &value);
        }
    }
    finish_namespace(call.inner, &stored.key);
    DeletionOutcome::Waiting(marked.unwrap_or_else(|_| stored.clone()))
}

/// Returns all objects in a namespace.
fn contents(inner: &Inner, namespace: &str) -> Vec<(&'static Resource, Arc<Stored>)> {
    let prefix = format!("{namespace}/");
    let mut out = Vec::new();
    for resource in RESOURCES
        .iter()
        .filter(|r| r.namespaced && r.group != "events.k8s.io")
    {
        let objects = inner.store.snapshot(resource.plural).objects;
        out.extend(
            objects
                .into_iter()
                .filter(|object| object.key.starts_with(&prefix))
                .map(|object| (resource, object)),
        );
    }
    out
}

/// Removes a Namespace that is being deleted once it is empty.
pub(super) fn finish_namespace(inner: &Inner, namespace: &str) {
    let Some(stored) = inner.store.get("namespaces", namespace) else {
        return;
    };
    let object = stored.value();
    let kept = object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if !object["metadata"]["deletionTimestamp"].is_null()
        && !kept
        && contents(inner, namespace).is_empty()
    {
        // If it changed meanwhile, the next object that goes tries again.
        let _removed = inner
            .store
            .remove("namespaces", namespace, stored.revision, None);
    }
}
