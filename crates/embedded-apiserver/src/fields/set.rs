//! A set of field paths, and its wire form `FieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::schema::{ListKind, Schema, Type};

/// A step of a field path. Steps are ordered as their wire form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathElement {
    /// Name of a field: `f:NAME`
    Field(String),
    /// `k:{…}`: the item of a list with these key fields.
    Key(String),
    /// `v:…`: the item of a set.
    Item(String),
}

impl PathElement {
    fn wire(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Item(value) => format!("v:{value}"),
        }
    }

    fn from_wire(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => Some(Self::Key(rest.to_owned())),
            "v" => Some(Self::Item(rest.to_owned())),
            _ => None,
        }
    }

    /// Returns the step as an error message shows it: `.name`, `[type="Ready"]`, `["x"]`.
    fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Key(keys) => {
                let parsed: BTreeMap<String, Value> =
                    serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = parsed.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("[{}]", pairs.join(","))
            }
            Self::Item(value) => format!("[={value}]"),
        }
    }
}

/// A set of paths: whether this node is in it, and what is below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(crate) member: bool,
    pub(crate) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(Self::is_empty)
    }

    pub(crate) fn child(&mut self, step: PathElement) -> &mut Self {
        self.children.entry(step).or_default()
    }

    /// Returns every path of both sets.
    pub(crate) fn union(mut self, other: &Self) -> Self {
        self.member |= other.member;
        for (step, theirs) in &other.children {
            let mine = self.children.remove(step).unwrap_or_default();
            self.children.insert(step.clone(), mine.union(theirs));
        }
        self
    }

    /// Returns the paths that are not in `other`.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut out = Self {
            member: self.member && !other.member,
            children: BTreeMap::new(),
        };
        for (step, mine) in &self.children {
            let rest = other
                .children
                .get(step)
                .map_or_else(|| mine.clone(), |theirs| mine.difference(theirs));
            if !rest.is_empty() {
                out.children.insert(step.clone(), rest);
            }
        }
        out
    }

    /// Returns the paths that are in both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut out = Self {
            member: self.member && other.member,
            children: BTreeMap::new(),
        };
        for (step, mine) in &self.children {
            if let Some(theirs) = other.children.get(step) {
                let both = mine.intersection(theirs);
                if !both.is_empty() {
                    out.children.insert(step.clone(), both);
                }
            }
        }
        out
    }

    /// Removes this path and everything below it.
    pub(crate) fn remove(&mut self, path: &[&str]) {
        let [first, rest @ ..] = path else { return };
        let step = PathElement::Field((*first).to_owned());
        if rest.is_empty() {
            self.children.remove(&step);
        } else if let Some(child) = self.children.get_mut(&step) {
            child.remove(rest);
            if child.is_empty() {
                self.children.remove(&step);
            }
        }
    }

    /// Encodes the set as `FieldsV1`.
    pub(crate) fn to_wire(&self) -> Value {
        let mut out = Map::new();
        if self.member && !self.children.is_empty() {
            out.insert(".".to_owned(), json!({}));
        }
        for (step, child) in &self.children {
            out.insert(step.wire(), child.to_wire());
        }
        Value::Object(out)
    }

    /// Decodes a set from `FieldsV1`.
    pub(crate) fn from_wire(value: &Value) -> Self {
        fn read(value: &Value, root: bool) -> FieldSet {
            let mut out = FieldSet::default();
            let empty = Map::new();
            let map = value.as_object().unwrap_or(&empty);
            out.member = !root && (map.is_empty() || map.contains_key("."));
            for (key, below) in map {
                if let Some(step) = PathElement::from_wire(key) {
                    out.children.insert(step, read(below, false));
                }
            }
            out
        }
        read(value, true)
    }

    /// Returns the paths as an error message shows them, in order.
    pub(crate) fn shown(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.show("", &mut out);
        out
    }

    fn show(&self, prefix: &str, out: &mut Vec<String>) {
        if self.member {
            out.push(prefix.to_owned());
        }
        for (step, child) in &self.children {
            child.show(&format!("{prefix}{}", step.shown()), out);
        }
    }

    /// Returns the fields that an applied object sets.
    pub(crate) fn of(value: &Value, ty: &Type) -> Self {
        let mut out = Self::default();
        collect(value, ty, false, &mut out);
        out
    }
}

fn collect(value: &Value, ty: &Type, atomic: bool, out: &mut FieldSet) {
    let schema = Schema::get();
    match (ty, value) {
        (Type::Object(index), Value::Object(map)) if !atomic && !schema.object(*index).atomic => {
            for (name, below) in map {
                let Some(field) = schema.object(*index).fields.get(name) else {
                    continue;
                };
                let child = out.child(PathElement::Field(name.clone()));
                collect(below, &field.ty, field.atomic, child);
                child.member |= is_empty(below);
            }
        }
        (
            Type::Map {
                value: item,
                atomic: false,
            },
            Value::Object(map),
        ) => {
            for (name, below) in map {
                let child = out.child(PathElement::Field(name.clone()));
                collect(below, item, false, child);
                child.member = true;
            }
        }
        (Type::List { item, kind, .. }, Value::Array(items)) if *kind != ListKind::Atomic => {
            for below in items {
                let child = out.child(step_of(below, kind));
                collect(below, item, false, child);
                child.member = true;
            }
        }
        _ => out.member = true,
    }
}

/// Returns `true` for null and for an object without fields, which is owned itself, as it has no fields to own.
pub(crate) fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// Returns the step that leads to an item of a list.
pub(crate) fn step_of(item: &Value, kind: &ListKind) -> PathElement {
    match kind {
        ListKind::Map(keys) => {
            let key: BTreeMap<&str, Value> = keys
                .iter()
                .map(|key| {
                    (
                        key.as_str(),
                        item.get(key).cloned().unwrap_or_else(|| default_key(key)),
                    )
                })
                .collect();
            PathElement::Key(serde_json::to_string(&key).unwrap_or_default())
        }
        _ => PathElement::Item(item.to_string()),
    }
}

/// Keys that have a default may be left out of an item.
fn default_key(key: &str) -> Value {
    if key == "protocol" {
        json!("TCP")
    } else {
        Value::Null
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(value: &Value) -> FieldSet {
        FieldSet::of(value, &Schema::get().type_of("core.v1.Node"))
    }

    #[test]
    fn an_applied_object_owns_what_it_says() {
        let set = set(&json!({
            "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        assert_eq!(
            set.to_wire(),
            json!({
                "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
                "f:spec": {"f:taints": {}},
                "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}}},
            })
        );
        assert_eq!(FieldSet::from_wire(&set.to_wire()), set);
    }

    #[test]
    fn sets_subtract_and_meet() {
        let one = set(&json!({"metadata": {"labels": {"a": "1", "b": "2"}}}));
        let two = set(&json!({"metadata": {"labels": {"b": "2", "c": "3"}}}));
        assert_eq!(one.intersection(&two).shown(), [".metadata.labels.b"]);
        assert_eq!(one.difference(&two).shown(), [".metadata.labels.a"]);
        assert_eq!(
            one.union(&two).shown(),
            [
                ".metadata.labels.a",
                ".metadata.labels.b",
                ".metadata.labels.c"
            ]
        );
    }
}
