//! Patches and deletes with preconditions (D-8).

use std::fmt::Debug;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// `Accept` of an answer without spec and status.
const ONLY_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// Sends a strategic-merge patch to an object, or to a subresource (`status`) of it, and returns the server's object.
///
/// A patch that changes nothing is not sent; the result is `None` (see [`is_empty_patch`]). The patch names no field
/// manager, like the Go cloud-controller-manager's.
///
/// # Errors
/// The API server's error, or that of the connection.
pub async fn strategic_patch<K>(
    api: &Api<K>,
    name: &str,
    subresource: Option<&str>,
    patch: &Value,
) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    if is_empty_patch(patch) {
        return Ok(None);
    }
    let params = PatchParams::default();
    let patch = Patch::Strategic(patch);
    match subresource {
        Some(subresource) => {
            api.patch_subresource(subresource, name, &params, &patch)
                .await
        }
        None => api.patch(name, &params, &patch).await,
    }
    .map(Some)
}

/// Sends a [`strategic_patch`], and returns no more than the metadata of the server's object: for a large object (a
/// Node with its images), which neither the server encodes nor this process decodes. The other fields have their
/// defaults, unless the server answers with the whole object all the same.
///
/// # Errors
/// The API server's error, or that of the connection.
pub async fn strategic_patch_metadata<K>(
    api: &Api<K>,
    name: &str,
    subresource: Option<&str>,
    patch: &Value,
) -> Result<Option<K>, kube::Error>
where
    K: kube::Resource + Clone + DeserializeOwned,
{
    if is_empty_patch(patch) {
        return Ok(None);
    }
    let request = kube::core::Request::new(api.resource_url());
    let params = PatchParams::default();
    let patch = Patch::Strategic(patch);
    let request = match subresource {
        Some(subresource) => request.patch_subresource(subresource, name, &params, &patch),
        None => request.patch(name, &params, &patch),
    };
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(
        http::header::ACCEPT,
        http::HeaderValue::from_static(ONLY_METADATA),
    );
    api.clone().into_client().request(request).await.map(Some)
}

/// Returns `true` if a patch changes nothing: no fields, objects without fields, or nothing but preconditions
/// (`metadata.resourceVersion`, `metadata.uid`).
///
/// ```
/// use runtime::writes::is_empty_patch;
/// use serde_json::json;
///
/// assert!(is_empty_patch(&json!({"metadata": {"resourceVersion": "7"}, "spec": {}})));
/// assert!(!is_empty_patch(&json!({"spec": {"taints": null}})), "null removes");
/// ```
#[must_use]
pub fn is_empty_patch(patch: &Value) -> bool {
    fn empty(value: &Value) -> bool {
        value
            .as_object()
            .is_some_and(|fields| fields.values().all(empty))
    }
    patch.as_object().is_some_and(|fields| {
        fields
            .iter()
            .all(|(name, value)| match (name.as_str(), value) {
                ("metadata", Value::Object(metadata)) => metadata.iter().all(|(name, value)| {
                    matches!(name.as_str(), "resourceVersion" | "uid") || empty(value)
                }),
                _ => empty(value),
            })
    })
}

/// Deletes an object only if it is still the one with that UID; another object of the same name is left alone and the
/// error is a conflict (LIFE-32).
///
/// # Errors
/// The API server's error, or that of the connection.
pub async fn delete_with_uid<K>(api: &Api<K>, name: &str, uid: &str) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let only_this = Preconditions {
        uid: (!uid.is_empty()).then(|| uid.to_owned()),
        resource_version: None,
    };
    api.delete(name, &DeleteParams::default().preconditions(only_this))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn empty_patches_are_recognised() {
        let empty = [
            json!({}),
            json!({"metadata": {}}),
            json!({"metadata": {"labels": {}, "uid": "u"}, "status": {}}),
        ];
        let full = [
            json!({"metadata": {"finalizers": null}}),
            json!({"metadata": {"labels": {"a": ""}}}),
            json!({"spec": {"taints": []}}),
            json!({"spec": {"uid": "u"}}),
            json!([]),
        ];
        assert!(empty.iter().all(is_empty_patch));
        assert!(!full.iter().any(is_empty_patch));
    }
}
