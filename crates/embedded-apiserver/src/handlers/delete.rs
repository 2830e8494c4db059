//! Deleting: preconditions, finalizers, collections, namespaces.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::Call;
use super::list::{check_options, selector};
use super::write::check_dry_run;
use crate::negotiate::{Form, respond, to_bytes};
use crate::resources::RESOURCES;
use crate::status::{self, ApiError, Cause};
use crate::store::{Expect, Stored};

/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What the client said about the deletion.
#[derive(Default)]
struct DeleteOptions {
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
}

/// What became of an object.
enum Outcome {
    /// It is gone; its last state.
    Gone(Arc<Stored>),
    /// It waits for its finalizers.
    Waiting(Arc<Stored>),
}

pub(super) fn delete(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let options = delete_options(call)?;
    let resource = call.resource();
    let name = call.target.name();
    if resource.plural == "namespaces" && PROTECTED.contains(&name) {
        return Err(ApiError::forbidden(resource, name, "this namespace may not be deleted"));
    }
    match delete_one(call, &call.target.key(), &options)? {
        Outcome::Gone(stored) if resource.delete_returns_object() => Ok(call.answer(200, &stored, &[])),
        Outcome::Gone(stored) => {
            let uid = stored.value()["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let form = if call.form == Form::Yaml { Form::Yaml } else { Form::Json };
            Ok(respond(form, 200, to_bytes(&status::deleted(resource, name, &uid))))
        }
        Outcome::Waiting(stored) => Ok(call.answer(200, &stored, &[])),
    }
}

pub(super) fn collection(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let options = delete_options(call)?;
    let selector = selector(call)?;
    check_options(call, false)?;
    let snapshot = call.inner.store.snapshot(call.storage());
    let mut deleted = Vec::new();
    for stored in snapshot.objects.iter().filter(|stored| selector.matches(stored)) {
        match delete_one(call, &stored.key, &options) {
            // A collection lists its objects as they were.
            Ok(Outcome::Gone(_)) => deleted.push(stored.clone()),
            Ok(Outcome::Waiting(stored)) => deleted.push(stored),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = json!({"resourceVersion": snapshot.revision.to_string()});
    Ok(respond(call.form, 200, call.view().list(&metadata, &deleted)))
}

fn delete_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    check_dry_run(call, "DeleteOptions")?;
    let body: Value = if call.body.is_empty() {
        json!({})
    } else {
        let decoded: Result<Value, _> = super::decoding::from_yaml(call.body);
        decoded.map_err(|_| ApiError::bad_request("the body of the request is no DeleteOptions"))?
    };
    let invalid = |cause: Cause| ApiError::invalid_kind("meta.k8s.io", "DeleteOptions", "", &[cause]);
    let policy = body["propagationPolicy"].as_str().or(call.request.options.get("propagationPolicy"));
    if let Some(policy) = policy.filter(|policy| !["Foreground", "Background", "Orphan"].contains(policy)) {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        return Err(invalid(Cause::unsupported("propagationPolicy", &json!(policy), &supported)));
    }
    let listed: Vec<&str> = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if listed.iter().any(|value| *value != "All") {
        return Err(invalid(Cause::unsupported("dryRun", &json!(listed), &["All"])));
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(DeleteOptions {
        uid: text(&body["preconditions"]["uid"]),
        version: text(&body["preconditions"]["resourceVersion"]),
        dry_run: call.request.options.dry_run() || !listed.is_empty(),
    })
}

fn delete_one(call: &Call<'_>, key: &str, options: &DeleteOptions) -> Result<Outcome, ApiError> {
    let resource = call.resource();
    let name = key.rsplit('/').next().unwrap_or(key);
    loop {
        let stored = call.inner.store.get(call.storage(), key).ok_or_else(|| ApiError::not_found(resource, name))?;
        let mut object = stored.value();
        check_preconditions(call, &stored, &object, name, options)?;
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if finalizers {
            if !object["metadata"]["deletionTimestamp"].is_null() || options.dry_run {
                return Ok(Outcome::Waiting(stored));
            }
            mark(call, &mut object);
            match call.inner.store.put(call.storage(), key, Expect::Revision(stored.revision), object) {
                Ok(written) => {
                    let value = written.value();
                    if resource.plural == "persistentvolumes" && is_unused_volume(&value) {
                        // The controller that lifts the protection of unused volumes is played here.
                        let _removed = call.inner.store.remove(call.storage(), key, written.revision, None);
                    }
                    return Ok(Outcome::Waiting(written));
                }
                Err(_) => continue,
            }
        }
        if options.dry_run {
            return Ok(Outcome::Gone(stored));
        }
        if resource.plural == "namespaces" {
            return Ok(remove_namespace(call, &stored, object));
        }
        if let Ok(gone) = call.inner.store.remove(call.storage(), key, stored.revision, None) {
            call.inner.allocators.release(resource, &object);
            return Ok(Outcome::Gone(gone));
        }
    }
}

/// Whether nothing but the protection against deletion while in use keeps a volume.
fn is_unused_volume(volume: &Value) -> bool {
    volume["metadata"]["finalizers"] == json!(["kubernetes.io/pv-protection"]) && volume["status"]["phase"] != "Bound"
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
    if let Some(wanted) = options.version.as_deref().filter(|wanted| *wanted != revision) {
        let detail = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        );
        return Err(ApiError::precondition(resource, name, &detail));
    }
    Ok(())
}

/// Removes a Namespace with all that is in it, at once: there is no controller that would do it bit by bit.
fn remove_namespace(call: &Call<'_>, stored: &Arc<Stored>, mut object: Value) -> Outcome {
    let store = &call.inner.store;
    mark(call, &mut object);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("deletionGracePeriodSeconds");
    }
    object["status"]["phase"] = json!("Terminating");
    let marked = store.put("namespaces", &stored.key, Expect::Revision(stored.revision), object);
    let prefix = format!("{}/", stored.key);
    for resource in RESOURCES.iter().filter(|resource| resource.namespaced) {
        for object in store.snapshot(resource.storage().plural).objects {
            if object.key.starts_with(&prefix)
                && store.remove(resource.storage().plural, &object.key, object.revision, None).is_ok()
            {
                call.inner.allocators.release(resource, &object.value());
            }
        }
    }
    let marked = marked.unwrap_or_else(|_| stored.clone());
    // Another writer came between: the Namespace stays marked, and the next delete finishes it.
    let _removed = store.remove("namespaces", &stored.key, marked.revision, None);
    Outcome::Waiting(marked)
}
