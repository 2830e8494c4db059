//! PersistentVolumes: one source that never changes, and a node affinity that is set once.

use serde_json::{Value, json};

use super::lists::{items, text};
use super::names;
use crate::status::StatusCause;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Kinds of source, in the order of the real server's checks.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Deprecated keys of node labels, those that took their place, and since when.
const STABLE_KEYS: [(&str, &str, &str); 5] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
        "v1.17",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
        "v1.17",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os", "v1.14"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch", "v1.14"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "v1.17",
    ),
];

/// Checks a volume; `old` is the version before.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = spec(&new["spec"]);
    if let Some(old) = old {
        causes.extend(changes(&new["spec"], &old["spec"]));
    }
    causes
}

/// Returns warnings about deprecated fields of a volume.
pub(super) fn warnings(volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
        let advice = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
                      provisioning.";
        warnings.push(format!("spec.persistentVolumeReclaimPolicy: {advice}"));
    }
    let required = &volume["spec"]["nodeAffinity"]["required"];
    for (at, term) in items(required, "nodeSelectorTerms") {
        for (index, requirement) in items(term, "matchExpressions") {
            let old = STABLE_KEYS
                .iter()
                .find(|(beta, ..)| requirement["key"] == *beta);
            warnings.extend(old.map(|(beta, stable, since)| {
                let field = format!("spec.nodeAffinity.required.nodeSelectorTerms[{at}].matchExpressions[{index}].key");
                format!("{field}: {beta} is deprecated since {since}; use \"{stable}\" instead")
            }));
        }
    }
    warnings
}

fn spec(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if items(spec, "accessModes").next().is_none() {
        causes.push(StatusCause::required("spec.accessModes", ""));
    }
    for (_, mode) in items(spec, "accessModes") {
        if !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()) {
            causes.push(StatusCause::unsupported(
                "spec.accessModes",
                mode,
                &ACCESS_MODES,
            ));
        }
    }
    if spec["capacity"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty)
    {
        causes.push(StatusCause::required("spec.capacity", ""));
        causes.push(StatusCause::unsupported(
            "spec.capacity",
            &spec["capacity"],
            &["storage"],
        ));
    }
    let one_of = |field: &str, values: &[&str]| {
        let is_wrong = spec[field]
            .as_str()
            .is_some_and(|value| !value.is_empty() && !values.contains(&value));
        is_wrong.then(|| StatusCause::unsupported(format!("spec.{field}"), &spec[field], values))
    };
    causes.extend(one_of("persistentVolumeReclaimPolicy", &RECLAIM_POLICIES));
    causes.extend(affinity(&spec["nodeAffinity"]));
    causes.extend(source(spec));
    causes.extend(one_of("volumeMode", &VOLUME_MODES));
    causes
}

fn source(spec: &Value) -> Vec<StatusCause> {
    let mut present = SOURCES.into_iter().filter(|name| spec[*name].is_object());
    let Some(first) = present.next() else {
        return vec![StatusCause::required("spec", "must specify a volume type")];
    };
    let mut causes: Vec<_> = present
        .map(|name| {
            StatusCause::forbidden(
                format!("spec.{name}"),
                "may not specify more than 1 volume type",
            )
        })
        .collect();
    if first == "csi" {
        let missing = ["driver", "volumeHandle"]
            .into_iter()
            .filter(|field| text(&spec["csi"], field).is_empty());
        causes.extend(missing.map(|field| StatusCause::required(format!("spec.csi.{field}"), "")));
    }
    causes
}

fn affinity(affinity: &Value) -> Vec<StatusCause> {
    if !affinity.is_object() {
        return Vec::new();
    }
    let field = "spec.nodeAffinity.required";
    if !affinity["required"].is_object() {
        return vec![StatusCause::required(
            field,
            "must specify required node constraints",
        )];
    }
    let terms = format!("{field}.nodeSelectorTerms");
    if items(&affinity["required"], "nodeSelectorTerms")
        .next()
        .is_none()
    {
        return vec![StatusCause::required(
            terms,
            "must have at least one node selector term",
        )];
    }
    let mut causes = Vec::new();
    for (at, term) in items(&affinity["required"], "nodeSelectorTerms") {
        for (index, requirement) in items(term, "matchExpressions") {
            causes.extend(expression(
                requirement,
                &format!("{terms}[{at}].matchExpressions[{index}]"),
            ));
        }
        for (index, requirement) in items(term, "matchFields") {
            causes.extend(field_requirement(
                requirement,
                &format!("{terms}[{at}].matchFields[{index}]"),
            ));
        }
    }
    causes
}

fn expression(requirement: &Value, field: &str) -> Vec<StatusCause> {
    let values = format!("{field}.values");
    let count = items(requirement, "values").count();
    let mut causes = Vec::new();
    match text(requirement, "operator") {
        "In" | "NotIn" if count == 0 => {
            causes.push(StatusCause::required(
                &values,
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            causes.push(StatusCause::forbidden(
                &values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ));
        }
        "Gt" | "Lt" if count != 1 => {
            causes.push(StatusCause::required(
                &values,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => causes.push(unknown_operator(requirement, field)),
    }
    let key = &requirement["key"];
    let problems = names::qualified_name(text(requirement, "key"));
    causes.extend(
        problems
            .iter()
            .map(|problem| StatusCause::invalid(format!("{field}.key"), key, problem)),
    );
    for (index, value) in items(requirement, "values") {
        let problems = names::label_value(value.as_str().unwrap_or_default());
        causes.extend(
            problems
                .iter()
                .map(|problem| StatusCause::invalid(format!("{values}[{index}]"), value, problem)),
        );
    }
    causes
}

fn field_requirement(requirement: &Value, field: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match text(requirement, "operator") {
        "In" | "NotIn" if items(requirement, "values").count() == 1 => {}
        "In" | "NotIn" => causes.push(StatusCause::required(
            format!("{field}.values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        _ => causes.push(unknown_operator(requirement, field)),
    }
    if text(requirement, "key") != "metadata.name" {
        causes.push(StatusCause::invalid(
            format!("{field}.key"),
            &requirement["key"],
            "not a valid field selector key",
        ));
        return causes;
    }
    for (index, value) in items(requirement, "values") {
        let problems = names::subdomain_1123(value.as_str().unwrap_or_default());
        causes.extend(problems.iter().map(|problem| {
            StatusCause::invalid(format!("{field}.values[{index}]"), value, problem)
        }));
    }
    causes
}

fn unknown_operator(requirement: &Value, field: &str) -> StatusCause {
    StatusCause::invalid(
        format!("{field}.operator"),
        &requirement["operator"],
        "not a valid selector operator",
    )
}

fn changes(new: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if SOURCES.into_iter().any(|name| new[name] != old[name]) {
        causes.push(StatusCause::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    if new["volumeMode"] != old["volumeMode"] {
        causes.push(StatusCause::invalid(
            "volumeMode",
            &new["volumeMode"],
            "field is immutable",
        ));
    }
    let after = &new["nodeAffinity"];
    let before = &old["nodeAffinity"];
    if before.is_object() && after != before && with_old_keys(after, before) != *before {
        let detail = "field is immutable, except for updating from beta label to GA";
        causes.push(StatusCause::invalid("nodeAffinity", &in_go(after), detail));
    }
    causes
}

/// Returns the affinity with each stable key taken back to the deprecated one that stood in its place.
fn with_old_keys(after: &Value, before: &Value) -> Value {
    let mut after = after.clone();
    let Some(terms) = after
        .pointer_mut("/required/nodeSelectorTerms")
        .and_then(Value::as_array_mut)
    else {
        return after;
    };
    for (at, term) in terms.iter_mut().enumerate() {
        for (index, requirement) in crate::defaults::items_mut(term, "matchExpressions").enumerate()
        {
            let was =
                &before["required"]["nodeSelectorTerms"][at]["matchExpressions"][index]["key"];
            let stable = STABLE_KEYS
                .iter()
                .find(|(beta, ..)| *was == *beta)
                .map(|(_, stable, _)| *stable);
            if stable.is_some_and(|stable| requirement["key"] == stable) {
                requirement["key"] = was.clone();
            }
        }
    }
    after
}

/// Returns the affinity as the real server prints it: with the names of its own fields.
fn in_go(affinity: &Value) -> Value {
    let requirements = |term: &Value, field: &str| match &term[field] {
        Value::Array(list) => list
            .iter()
            .map(|r| json!({"Key": r["key"], "Operator": r["operator"], "Values": r["values"]}))
            .collect(),
        _ => Value::Null,
    };
    if affinity.is_null() {
        return Value::Null;
    }
    let terms: Value = items(&affinity["required"], "nodeSelectorTerms")
        .map(|(_, term)| {
            json!({
                "MatchExpressions": requirements(term, "matchExpressions"),
                "MatchFields": requirements(term, "matchFields"),
            })
        })
        .collect();
    json!({"Required": {"NodeSelectorTerms": terms}})
}
