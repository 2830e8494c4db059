//! Comparison of two objects: the fields that a change added, modified or removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, PathElement, is_empty, step_of};
use crate::schema::{ListKind, Schema, Type};

/// The fields in which two versions of an object differ.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Compares `old` with `new`.
    pub(crate) fn of(old: &Value, new: &Value, ty: &Type) -> Self {
        let mut out = Self::default();
        walk(
            Some(old),
            Some(new),
            ty,
            false,
            &mut Cursor {
                path: Vec::new(),
                out: &mut out,
            },
        );
        out
    }

    /// Returns the added and modified fields.
    pub(crate) fn set_fields(&self) -> FieldSet {
        self.added.clone().union(&self.modified)
    }

    pub(crate) fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

struct Cursor<'a> {
    path: Vec<PathElement>,
    out: &'a mut Comparison,
}

impl Cursor<'_> {
    fn mark(&mut self, old: Option<&Value>, new: Option<&Value>) {
        let set = match (old, new) {
            (None, Some(_)) => &mut self.out.added,
            (Some(_), None) => &mut self.out.removed,
            (Some(old), Some(new)) if old != new => &mut self.out.modified,
            _ => return,
        };
        let mut at = set;
        for step in &self.path {
            at = at.child(step.clone());
        }
        at.member = true;
    }
}

fn walk(
    old: Option<&Value>,
    new: Option<&Value>,
    ty: &Type,
    atomic: bool,
    cursor: &mut Cursor<'_>,
) {
    let nothing_below = old.is_none_or(is_blank) && new.is_none_or(is_blank);
    if nothing_below || !descend(old, new, ty, atomic, cursor) {
        return cursor.mark(old, new);
    }
    if old.is_none() || new.is_none() {
        cursor.mark(old, new);
    }
}

fn is_blank(value: &Value) -> bool {
    is_empty(value) || value.as_array().is_some_and(Vec::is_empty)
}

/// Compares the children of two values. Returns `false` if the value is a leaf.
fn descend(
    old: Option<&Value>,
    new: Option<&Value>,
    ty: &Type,
    atomic: bool,
    cursor: &mut Cursor<'_>,
) -> bool {
    let schema = Schema::get();
    match ty {
        Type::Object(index) if !atomic && !schema.object(*index).atomic => {
            let fields = &schema.object(*index).fields;
            for name in names(old, new) {
                let Some(field) = fields.get(name) else {
                    continue;
                };
                cursor.path.push(PathElement::Field(name.to_owned()));
                walk(
                    field_of(old, name),
                    field_of(new, name),
                    &field.ty,
                    field.atomic,
                    cursor,
                );
                cursor.path.pop();
            }
            true
        }
        Type::Map {
            value: item,
            atomic: false,
        } => {
            for name in names(old, new) {
                cursor.path.push(PathElement::Field(name.to_owned()));
                walk(
                    field_of(old, name),
                    field_of(new, name),
                    item,
                    false,
                    cursor,
                );
                cursor.path.pop();
            }
            true
        }
        Type::List { item, kind, .. } if *kind != ListKind::Atomic => {
            let old_items = items(old, kind);
            let new_items = items(new, kind);
            let mut steps: Vec<&PathElement> = old_items.keys().chain(new_items.keys()).collect();
            steps.sort();
            steps.dedup();
            for step in steps {
                cursor.path.push(step.clone());
                walk(
                    old_items.get(step).copied(),
                    new_items.get(step).copied(),
                    item,
                    false,
                    cursor,
                );
                cursor.path.pop();
            }
            true
        }
        _ => false,
    }
}

fn field_of<'a>(value: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    value?.as_object()?.get(name)
}

fn names<'a>(old: Option<&'a Value>, new: Option<&'a Value>) -> Vec<&'a str> {
    let keys = |value: Option<&'a Value>| {
        value
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
    };
    let mut out: Vec<&str> = keys(old).chain(keys(new)).map(String::as_str).collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn items<'a>(value: Option<&'a Value>, kind: &ListKind) -> BTreeMap<PathElement, &'a Value> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|item| (step_of(item, kind), item))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_label_map_is_added_with_its_labels_and_a_new_taint_modifies_the_whole_list() {
        let node = Schema::get().type_of("core.v1.Node");
        let old = json!({"metadata": {"name": "a"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let new = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"taints": [{"key": "l", "effect": "NoSchedule"}]}});
        let comparison = Comparison::of(&old, &new, &node);
        assert_eq!(
            comparison.added.to_wire(),
            json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}})
        );
        assert_eq!(
            comparison.modified.to_wire(),
            json!({"f:spec": {"f:taints": {}}})
        );
        assert!(comparison.removed.is_empty());
    }
}
