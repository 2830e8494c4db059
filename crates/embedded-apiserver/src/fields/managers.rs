//! `metadata.managedFields`: read, updated on every write, written back.

use serde_json::{Value, json};

use super::compare::Comparison;
use super::set::FieldSet;
use crate::schema::Type;

/// Operation of a manager's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// Identity of a field manager: entries with the same identity are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl Manager {
    fn is_same(&self, other: &Self) -> bool {
        // An applier is the same whatever version it applies in.
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns the manager as a conflict message shows it: `"kubectl" using v1`
    pub(crate) fn shown(&self) -> String {
        let mut out = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

/// Fields that one manager owns.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) manager: Manager,
    pub(crate) time: Value,
    pub(crate) fields: FieldSet,
}

/// Entries of all managers of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Managers(pub(crate) Vec<Entry>);

/// Fields without an owner.
const UNOWNED: [&[&str]; 10] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Takes out of `fields` what cannot be owned through this endpoint.
pub(crate) fn strip(mut fields: FieldSet, has_status: bool, subresource: &str) -> FieldSet {
    for path in UNOWNED {
        fields.remove(path);
    }
    if has_status {
        fields.remove(if subresource == "status" {
            &["spec"]
        } else {
            &["status"]
        });
    }
    if let Some(metadata) = fields
        .children
        .get_mut(&super::set::PathElement::Field("metadata".to_owned()))
    {
        metadata.member = false;
    }
    fields
}

impl Managers {
    pub(crate) fn read(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten();
        Self(entries.map(entry).collect())
    }

    /// Writes the entries to `metadata.managedFields`.
    pub(crate) fn write(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|a, b| {
            let key = |e: &Entry| {
                let m = &e.manager;
                (
                    m.operation,
                    e.time.as_str().unwrap_or_default().to_owned(),
                    m.name.clone(),
                    m.api_version.clone(),
                    m.subresource.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return;
        };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert(
                "managedFields".to_owned(),
                Value::Array(self.0.iter().map(wire).collect()),
            );
        }
    }

    pub(crate) fn position(&self, manager: &Manager) -> Option<usize> {
        self.0
            .iter()
            .position(|entry| entry.manager.is_same(manager))
    }

    /// Removes from all other managers the fields that `manager` set, and from all managers the removed fields.
    pub(crate) fn take_over(&mut self, manager: Option<&Manager>, comparison: &Comparison) {
        let set = comparison.set_fields();
        for entry in &mut self.0 {
            let is_own_manager = manager.is_some_and(|manager| entry.manager.is_same(manager));
            if !is_own_manager {
                entry.fields = entry.fields.difference(&set);
                entry.fields = entry.fields.difference(&comparison.removed);
            }
        }
    }

    /// Records an update (anything but an apply) of `old` to `new`.
    pub(crate) fn update(
        &mut self,
        manager: Manager,
        old: &Value,
        new: &Value,
        ty: &Type,
        has_status: bool,
        now: &str,
    ) {
        let comparison = Comparison::of(old, new, ty);
        if comparison.is_same() {
            return;
        }
        self.take_over(None, &comparison);
        let fields = strip(comparison.set_fields(), has_status, &manager.subresource);
        if fields.is_empty() {
            return;
        }
        let time = json!(now);
        match self.position(&manager) {
            Some(index) => {
                let before = std::mem::take(&mut self.0[index].fields);
                self.0[index] = Entry {
                    manager,
                    time,
                    fields: before.union(&fields),
                };
            }
            None => self.0.push(Entry {
                manager,
                time,
                fields,
            }),
        }
    }
}

fn entry(value: &Value) -> Entry {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let operation = if value["operation"] == "Apply" {
        Operation::Apply
    } else {
        Operation::Update
    };
    Entry {
        manager: Manager {
            name: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
        },
        time: value["time"].clone(),
        fields: FieldSet::from_wire(&value["fieldsV1"]),
    }
}

fn wire(entry: &Entry) -> Value {
    let manager = &entry.manager;
    let operation = if manager.operation == Operation::Apply {
        "Apply"
    } else {
        "Update"
    };
    let mut out = json!({
        "manager": manager.name, "operation": operation, "apiVersion": manager.api_version,
        "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_wire(),
    });
    if !entry.time.is_null() {
        out["time"] = entry.time.clone();
    }
    if !manager.subresource.is_empty() {
        out["subresource"] = json!(manager.subresource);
    }
    out
}
