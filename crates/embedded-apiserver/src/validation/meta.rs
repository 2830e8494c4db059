//! Metadata: names, labels, annotations, finalizers, owners.

use serde_json::{Value, json};

use super::lists::{items, text};
use super::names;
use crate::resources::Resource;
use crate::status::Cause;

/// Bytes that all annotations together may take.
const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        // What follows the prefix makes a trailing dash legal.
        let trimmed = prefix.strip_suffix('-').map_or(prefix.to_owned(), |rest| format!("{rest}a"));
        for problem in name_problems(resource, &trimmed) {
            causes.push(Cause::invalid("metadata.generateName", &json!(prefix), &problem));
        }
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        for problem in path_segment(name).into_iter().chain(name_problems(resource, name)) {
            causes.push(Cause::invalid("metadata.name", &json!(name), &problem));
        }
    }
    causes.extend(accessors(resource, metadata));
    causes
}

pub(super) fn update(resource: &Resource, new: &Value, old: &Value) -> Vec<Cause> {
    let (metadata, before) = (&new["metadata"], &old["metadata"]);
    let mut causes = accessors(resource, metadata);
    if !before["deletionTimestamp"].is_null() {
        let had: Vec<&Value> = items(before, "finalizers").map(|(_, value)| value).collect();
        let added: Vec<&str> = items(metadata, "finalizers")
            .filter(|(_, value)| !had.contains(value))
            .filter_map(|(_, v)| v.as_str())
            .collect();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let shown = format!("[]string{{{}}}", listed.join(", "));
            let detail =
                format!("no new finalizers can be added if the object is being deleted, found new finalizers {shown}");
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
    }
    causes
}

/// The rule for names of this kind.
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
    ['/', '%'].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn accessors(resource: &Resource, metadata: &Value) -> Vec<Cause> {
    let mut causes = labels(metadata);
    let mut total = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        total += key.len() + value.as_str().map_or(0, str::len);
        for problem in names::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), &problem));
        }
    }
    if total > MAX_ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
    for (index, owner) in items(metadata, "ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                let detail = if field == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(format!("metadata.ownerReferences[{index}].{field}"), &json!(""), detail));
            }
        }
    }
    for (index, finalizer) in items(metadata, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        let problems = names::qualified_name(name);
        let field = if problems.is_empty() {
            "metadata.finalizers".to_owned()
        } else {
            format!("metadata.finalizers[{index}]")
        };
        for problem in &problems {
            causes.push(Cause::invalid("metadata.finalizers", &json!(name), problem));
        }
        let standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        if problems.is_empty() && !name.contains('/') && !standard && resource.group.is_empty() {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(field, &json!(name), detail));
        }
    }
    causes
}

fn labels(metadata: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        for problem in names::qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), &problem));
        }
        for problem in names::label_value(value) {
            causes.push(Cause::invalid("metadata.labels", &json!(value), &problem));
        }
    }
    causes
}
