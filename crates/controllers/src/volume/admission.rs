//! The changes of a PersistentVolume at its creation, as a mutating admission webhook, so that labels and affinity
//! exist before anybody reads the volume.
//!
//! A volume is never refused. If the cloud does not answer, or a user set something else, the user gets a warning, and
//! the controller tries again later.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use cloud_provider::{CloudProvider, Error, PersistentVolume, Result};
use serde_json::{Value, json};

use super::affinity;
use super::lookup::look_up;
use super::plan::{Conflict, Plan, is_open};
use super::topology::Topology;

/// Deadline of the answer. A webhook's usual timeout is 10 s, and a later answer is lost.
const DEADLINE: Duration = Duration::from_secs(8);

/// Answers an AdmissionReview, and looks up the volume if necessary.
///
/// # Errors
/// *Invalid*, if the value is not an AdmissionReview with a request.
pub async fn handle(provider: &dyn CloudProvider, review: &Value) -> Result<Value> {
    let answer = match subject(review) {
        Some(volume) => look_up(provider, &volume, DEADLINE).await,
        None => Ok(None),
    };
    self::review(review, &answer)
}

/// Returns the volume to look up in the cloud; `None` if the answer is "allowed" in any case.
#[must_use]
pub fn subject(review: &Value) -> Option<PersistentVolume> {
    let request = &review["request"];
    // From text, like every volume: code that reads this large type from a `Value` would exist beside it.
    let volume = is_creation(request)
        .then(|| serde_json::from_str(&request["object"].to_string()).ok())??;
    is_open(&volume).then_some(volume)
}

/// Returns `true` if an AdmissionRequest creates a volume. Its object is not examined.
#[must_use]
pub fn is_creation(request: &Value) -> bool {
    request["kind"]["group"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
        && request["kind"]["kind"] == "PersistentVolume"
        && request["operation"] == "CREATE"
        && request["subResource"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
}

/// Answers an AdmissionReview (`admission.k8s.io/v1`), given the provider's answer about its [`subject`].
///
/// ```
/// use controllers::volume::admission::review;
/// use serde_json::json;
///
/// let request = json!({
///     "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
///     "request": {
///         "uid": "17", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "PersistentVolume"},
///         "object": {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "acme", "volumeHandle": "v-1"}}},
///     },
/// });
/// let labels = [("topology.kubernetes.io/zone".to_owned(), "eu-1a".to_owned())].into();
/// let answer = review(&request, &Ok(Some(labels)))?;
/// assert_eq!(answer["response"]["patchType"], "JSONPatch");
/// let answer = review(&request, &Ok(None))?;
/// assert_eq!(answer["response"], json!({"uid": "17", "allowed": true}), "a volume of somebody else");
/// # Ok::<(), cloud_provider::Error>(())
/// ```
///
/// # Errors
/// *Invalid*, if the value is not an AdmissionReview with a request.
pub fn review(review: &Value, answer: &Result<Option<BTreeMap<String, String>>>) -> Result<Value> {
    let is_review =
        review["apiVersion"] == "admission.k8s.io/v1" && review["kind"] == "AdmissionReview";
    let Some(uid) = review["request"]["uid"].as_str().filter(|_| is_review) else {
        return Err(Error::invalid(
            "expected an AdmissionReview of admission.k8s.io/v1 with request.uid",
        ));
    };
    let mut response = json!({"uid": uid, "allowed": true});
    let (patch, warnings) = match (subject(review), answer) {
        (None, _) | (_, Ok(None)) => Default::default(),
        (Some(_), Err(error)) => (Vec::new(), vec![not_set(error)]),
        (Some(volume), Ok(Some(labels))) => decide(&review["request"]["object"], &volume, labels),
    };
    if !patch.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(
            base64::engine::general_purpose::STANDARD.encode(Value::Array(patch).to_string())
        );
    }
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    Ok(
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
    )
}

fn not_set(error: &Error) -> String {
    format!("zone and region were not set: {error}")
}

/// Returns the JSON patch, and the warnings for the user.
fn decide(
    object: &Value,
    volume: &PersistentVolume,
    labels: &BTreeMap<String, String>,
) -> (Vec<Value>, Vec<String>) {
    let topology = match Topology::from_labels(labels) {
        Ok(topology) => topology,
        Err(error) => return (Vec::new(), vec![not_set(&error)]),
    };
    match Plan::make(volume, &topology) {
        Ok(plan) => {
            let mut patch = label_operations(object, &plan);
            patch.extend(affinity_operations(object, volume, &topology, &plan));
            (patch, plan.note().into_iter().collect())
        }
        Err(conflicts) => (
            Vec::new(),
            conflicts.iter().map(Conflict::to_string).collect(),
        ),
    }
}

fn add(path: &str, value: Value) -> Value {
    let mut operation = json!({"op": "add", "path": path});
    operation["value"] = value;
    operation
}

fn label_operations(object: &Value, plan: &Plan) -> Vec<Value> {
    if plan.labels.is_empty() {
        return Vec::new();
    }
    if !object["metadata"]["labels"].is_object() {
        return vec![add("/metadata/labels", json!(plan.labels))];
    }
    // Escapes of JSON Pointer (RFC 6901).
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    plan.labels
        .iter()
        .map(|(key, value)| add(&format!("/metadata/labels/{}", escaped(key)), json!(value)))
        .collect()
}

/// Returns the operations on the affinity. Before a volume is stored, its affinity may be narrowed: each term is,
/// because a Node needs to match only one.
fn affinity_operations(
    object: &Value,
    volume: &PersistentVolume,
    topology: &Topology,
    plan: &Plan,
) -> Vec<Value> {
    if let Some(affinity) = &plan.affinity {
        return vec![add("/spec/nodeAffinity", json!(affinity))];
    }
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms";
    let mut operations = Vec::new();
    for (at, missing) in affinity::missing(volume, topology) {
        let expressions = format!("{terms}/{at}/matchExpressions");
        if object.pointer(&expressions).is_some_and(Value::is_array) {
            operations.extend(
                missing
                    .iter()
                    .map(|requirement| add(&format!("{expressions}/-"), json!(requirement))),
            );
        } else {
            operations.push(add(&expressions, json!(missing)));
        }
    }
    operations
}

#[cfg(test)]
mod tests;
