//! Metadata: names, labels, annotations, finalizers, owners.

use serde_json::{Value, json};

use super::lists::{items, text};
use super::names;
use crate::resources::Resource;
use crate::status::StatusCause;

/// Bytes that all annotations together may take.
const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn create(resource: &Resource, object: &Value) -> Vec<StatusCause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        // A trailing dash of the prefix is legal, because more characters follow it.
        let trimmed = prefix
            .strip_suffix('-')
            .map_or(prefix.to_owned(), |rest| format!("{rest}a"));
        for problem in name_problems(resource, &trimmed) {
            causes.push(StatusCause::invalid(
                "metadata.generateName",
                &json!(prefix),
                &problem,
            ));
        }
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        causes.push(StatusCause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for problem in path_segment(name)
            .into_iter()
            .chain(name_problems(resource, name))
        {
            causes.push(StatusCause::invalid(
                "metadata.name",
                &json!(name),
                &problem,
            ));
        }
    }
    causes.extend(self::object(resource, object));
    causes
}

/// Validates the metadata of any object.
pub(super) fn accessor(object: &Value) -> Vec<StatusCause> {
    let metadata = &object["metadata"];
    let mut causes = labels(metadata);
    causes.extend(annotations(metadata));
    causes.extend(owners(metadata));
    for (_, finalizer) in items(metadata, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        causes.extend(
            names::qualified_name(name)
                .iter()
                .map(|p| StatusCause::invalid("metadata.finalizers", finalizer, p)),
        );
    }
    causes
}

/// Validates the metadata of a core object.
pub(super) fn object(resource: &Resource, object: &Value) -> Vec<StatusCause> {
    let mut causes = accessor(object);
    causes.extend(finalizers(resource, &object["metadata"]));
    causes
}

/// Validates a change of any object's metadata.
pub(super) fn changes(new: &Value, old: &Value, fixed: &[StatusCause]) -> Vec<StatusCause> {
    let metadata = &new["metadata"];
    let before = &old["metadata"];
    let mut causes = Vec::new();
    if !before["deletionTimestamp"].is_null() {
        let had: Vec<&Value> = items(before, "finalizers")
            .map(|(_, value)| value)
            .collect();
        let added = items(metadata, "finalizers")
            .map(|(_, value)| value)
            .filter(|value| !had.contains(value));
        let listed: Vec<String> = added.map(Value::to_string).collect();
        if !listed.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            causes.push(StatusCause::forbidden("metadata.finalizers", &detail));
        }
    }
    causes.extend_from_slice(fixed);
    causes.extend(labels(metadata));
    causes.extend(annotations(metadata));
    causes.extend(owners(metadata));
    causes
}

/// Validates a change of a core object's metadata.
pub(super) fn update(
    resource: &Resource,
    new: &Value,
    old: &Value,
    fixed: &[StatusCause],
) -> Vec<StatusCause> {
    let mut causes = changes(new, old, fixed);
    causes.extend(finalizers(resource, &new["metadata"]));
    causes
}

/// Validates a name by the rule of its kind.
fn name_problems(resource: &Resource, name: &str) -> Vec<String> {
    match resource.plural {
        "services" | "namespaces" => names::label_1123(name),
        _ => names::subdomain_1123(name),
    }
}

fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%']
        .iter()
        .filter(|c| name.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn annotations(metadata: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut total = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        total += key.len() + value.as_str().map_or(0, str::len);
        for problem in names::qualified_name(&key.to_lowercase()) {
            causes.push(StatusCause::invalid(
                "metadata.annotations",
                &json!(key),
                &problem,
            ));
        }
    }
    if total > MAX_ANNOTATIONS {
        causes.push(StatusCause::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS,
        ));
    }
    causes
}

fn owners(metadata: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, owner) in items(metadata, "ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                let detail = if field == "apiVersion" {
                    "version must not be empty"
                } else {
                    "must not be empty"
                };
                causes.push(StatusCause::invalid(
                    format!("metadata.ownerReferences[{index}].{field}"),
                    &json!(""),
                    detail,
                ));
            }
        }
    }
    causes
}

/// Finalizers of core objects have a domain, but for three.
fn finalizers(resource: &Resource, metadata: &Value) -> Vec<StatusCause> {
    if !resource.group.is_empty() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    for (index, finalizer) in items(metadata, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(StatusCause::invalid(
                format!("metadata.finalizers[{index}]"),
                finalizer,
                detail,
            ));
        }
    }
    causes
}

fn labels(metadata: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        for problem in names::qualified_name(key) {
            causes.push(StatusCause::invalid(
                "metadata.labels",
                &json!(key),
                &problem,
            ));
        }
        for problem in names::label_value(value) {
            causes.push(StatusCause::invalid(
                "metadata.labels",
                &json!(value),
                &problem,
            ));
        }
    }
    causes
}
