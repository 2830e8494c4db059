//! Server-side apply: merges what a manager wants into the live object, gives up what it no longer wants, and refuses
//! to overwrite what others own.

use serde_json::{Map, Value, json};

use super::compare::Comparison;
use super::managers::{Entry, Manager, Managers, strip};
use super::set::{FieldSet, PathElement, step_of};
use crate::schema::{ListKind, Schema, Type};
use crate::status::ApiError;

/// Applies `config` to `live` as `manager`; answers the object with its `managedFields`.
///
/// # Errors
///
/// 409 with one cause per field that another manager owns and that would change, unless `force`.
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    ty: &Type,
    manager: Manager,
    has_status: bool,
    force: bool,
    now: &str,
) -> Result<Value, ApiError> {
    let mut managers = Managers::read(live);
    let mut live = live.clone();
    if let Some(metadata) = live["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let merged = merge(&live, config, ty, false);
    let wanted = strip(FieldSet::of(config, ty), has_status, &manager.subresource);
    let position = managers.position(&manager);
    let before = position
        .map(|index| managers.0[index].fields.clone())
        .unwrap_or_default();
    let merged = prune(merged, &before, &wanted, &managers, &manager, ty);

    let comparison = Comparison::of(&live, &merged, ty);
    let conflicts = conflicts(&managers, &manager, &comparison);
    if !force && !conflicts.is_empty() {
        return Err(conflict_error(&conflicts));
    }
    managers.take_over(Some(&manager), &comparison);
    // An apply without a change does not update the time of its manager's entry.
    let time = match position {
        Some(index) if comparison.is_same() => managers.0[index].time.clone(),
        None if comparison.is_same() => Value::Null,
        _ => json!(now),
    };
    let entry = Entry {
        manager,
        time,
        fields: wanted,
    };
    match position {
        Some(index) => managers.0[index] = entry,
        None => managers.0.push(entry),
    }
    let mut merged = merged;
    managers.write(&mut merged);
    Ok(merged)
}

/// Returns the fields that other managers own and that the change would modify, by manager.
fn conflicts(
    managers: &Managers,
    manager: &Manager,
    comparison: &Comparison,
) -> Vec<(String, Vec<String>)> {
    let set = comparison.set_fields();
    let position = managers.position(manager);
    let others = managers
        .0
        .iter()
        .enumerate()
        .filter(|(index, _)| Some(*index) != position);
    others
        .map(|(_, entry)| {
            (
                entry.manager.shown(),
                entry.fields.intersection(&set).shown(),
            )
        })
        .filter(|(_, fields)| !fields.is_empty())
        .collect()
}

fn conflict_error(conflicts: &[(String, Vec<String>)]) -> ApiError {
    let count: usize = conflicts.iter().map(|(_, fields)| fields.len()).sum();
    let message = if let [(manager, fields)] = conflicts
        && let [field] = &fields[..]
    {
        format!("Apply failed with 1 conflict: conflict with {manager}: {field}")
    } else {
        let parts: Vec<String> = conflicts
            .iter()
            .map(|(manager, fields)| {
                format!("conflicts with {manager}:\n- {}", fields.join("\n- "))
            })
            .collect();
        format!(
            "Apply failed with {count} conflict{}: {}",
            if count == 1 { "" } else { "s" },
            parts.join("\n")
        )
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .flat_map(|(manager, fields)| {
            fields.iter().map(move |field| {
                json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": field})
            })
        })
        .collect();
    let mut error = ApiError::new(409, "Conflict", message);
    error.details = Some(json!({"causes": causes}));
    error
}

/// Returns the live object with the fields of `config` applied.
fn merge(live: &Value, config: &Value, ty: &Type, atomic: bool) -> Value {
    let schema = Schema::get();
    match (ty, live, config) {
        (Type::Object(index), Value::Object(old), Value::Object(new))
            if !atomic && !schema.object(*index).atomic =>
        {
            let fields = &schema.object(*index).fields;
            merge_maps(old, new, |name, old, new| match fields.get(name) {
                Some(field) => merge(old, new, &field.ty, field.atomic),
                None => new.clone(),
            })
        }
        (
            Type::Map {
                value,
                atomic: false,
            },
            Value::Object(old),
            Value::Object(new),
        ) => merge_maps(old, new, |_, old, new| merge(old, new, value, false)),
        (Type::List { item, kind, .. }, Value::Array(old), Value::Array(new))
            if *kind != ListKind::Atomic =>
        {
            merge_lists(old, new, item, kind)
        }
        _ => config.clone(),
    }
}

fn merge_maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    below: impl Fn(&str, &Value, &Value) -> Value,
) -> Value {
    let mut out = old.clone();
    for (name, value) in new {
        let merged = old
            .get(name)
            .map_or_else(|| value.clone(), |old| below(name, old, value));
        out.insert(name.clone(), merged);
    }
    Value::Object(out)
}

/// Merges two lists: items of the live list alone keep their position, shared items follow the applied order.
fn merge_lists(old: &[Value], new: &[Value], item: &Type, kind: &ListKind) -> Value {
    let live: Vec<PathElement> = old.iter().map(|value| step_of(value, kind)).collect();
    let applied: Vec<PathElement> = new.iter().map(|value| step_of(value, kind)).collect();
    let mut out: Vec<Value> = Vec::new();
    let mut at = 0;
    let mut next = 0;
    while at < live.len() || next < applied.len() {
        if at < live.len() {
            let position = applied.iter().position(|step| *step == live[at]);
            // Shared items are taken when the applied list comes to them.
            let later = applied[next.min(applied.len())..]
                .iter()
                .find(|step| live.contains(step));
            match position {
                None => {
                    out.push(old[at].clone());
                    at += 1;
                    continue;
                }
                Some(position) if position < next || later != Some(&live[at]) => {
                    at += 1;
                    continue;
                }
                Some(_) => {}
            }
        }
        let Some(step) = applied.get(next) else { break };
        let merged = match live.iter().position(|other| other == step) {
            Some(index) => merge(&old[index], &new[next], item, false),
            None => new[next].clone(),
        };
        out.push(merged);
        next += 1;
    }
    Value::Array(out)
}

/// Removes fields that the manager owned before, no longer applies, and that no other manager owns.
fn prune(
    mut object: Value,
    before: &FieldSet,
    wanted: &FieldSet,
    managers: &Managers,
    manager: &Manager,
    ty: &Type,
) -> Value {
    let position = managers.position(manager);
    let mut given_up = before.difference(wanted);
    for (index, entry) in managers.0.iter().enumerate() {
        if Some(index) != position {
            given_up = given_up.difference(&entry.fields);
        }
    }
    let mut kept = wanted.clone();
    for (index, entry) in managers.0.iter().enumerate() {
        if Some(index) != position {
            kept = kept.union(&entry.fields);
        }
    }
    remove(&mut object, &given_up, Some(&kept), ty);
    object
}

/// Removes the members of `fields` from `value`; what has owners below stays.
fn remove(value: &mut Value, fields: &FieldSet, kept: Option<&FieldSet>, ty: &Type) {
    let schema = Schema::get();
    let is_kept = |step: &PathElement| kept.and_then(|kept| kept.children.get(step));
    for (step, below) in &fields.children {
        match (step, &mut *value) {
            (PathElement::Field(name), Value::Object(map)) => {
                let child_type = match ty {
                    Type::Object(index) => schema
                        .object(*index)
                        .fields
                        .get(name)
                        .map_or(Type::Any, |f| f.ty.clone()),
                    Type::Map { value, .. } => (**value).clone(),
                    _ => Type::Any,
                };
                if let Some(child) = map.get_mut(name) {
                    remove(child, below, is_kept(step), &child_type);
                    let emptied = !below.children.is_empty()
                        && (child.as_object().is_some_and(Map::is_empty)
                            || child.as_array().is_some_and(Vec::is_empty));
                    if (below.member || emptied) && is_kept(step).is_none_or(FieldSet::is_empty) {
                        map.remove(name);
                    }
                }
            }
            (step, Value::Array(items)) => {
                let Type::List { item, kind, .. } = ty else {
                    continue;
                };
                if let Some(index) = items.iter().position(|value| step_of(value, kind) == *step) {
                    remove(&mut items[index], below, is_kept(step), item);
                    if below.member && is_kept(step).is_none_or(FieldSet::is_empty) {
                        items.remove(index);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::managers::Operation;
    use super::*;

    fn manager(name: &str) -> Manager {
        Manager {
            name: name.to_owned(),
            operation: Operation::Apply,
            api_version: "v1".to_owned(),
            subresource: String::new(),
        }
    }

    fn node() -> Type {
        Schema::get().type_of("core.v1.Node")
    }

    fn apply_as(live: &Value, name: &str, config: &Value, force: bool) -> Result<Value, ApiError> {
        apply(
            live,
            config,
            &node(),
            manager(name),
            true,
            force,
            "2026-01-01T00:00:00Z",
        )
    }

    #[test]
    fn field_that_a_manager_no_longer_applies_is_removed() {
        let live = json!({"metadata": {"name": "n"}, "spec": {}});
        let first = apply_as(
            &live,
            "a",
            &json!({"metadata": {"name": "n", "labels": {"x": "1", "y": "2"}}}),
            false,
        )
        .unwrap();
        let second = apply_as(
            &first,
            "a",
            &json!({"metadata": {"name": "n", "labels": {"x": "1"}}}),
            false,
        )
        .unwrap();
        assert_eq!(second["metadata"]["labels"], json!({"x": "1"}));
    }

    #[test]
    fn field_of_another_manager_conflicts_unless_forced() {
        let live = json!({"metadata": {"name": "n"}, "spec": {}});
        let first = apply_as(
            &live,
            "a",
            &json!({"metadata": {"labels": {"x": "1"}}}),
            false,
        )
        .unwrap();
        let requested = json!({"metadata": {"labels": {"x": "2"}}});
        let error = apply_as(&first, "b", &requested, false).unwrap_err();
        assert_eq!(
            error.message,
            "Apply failed with 1 conflict: conflict with \"a\": .metadata.labels.x"
        );
        let forced = apply_as(&first, "b", &requested, true).unwrap();
        assert_eq!(
            forced["metadata"]["managedFields"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn two_managers_that_agree_share_a_field() {
        let live = json!({"metadata": {"name": "n"}, "spec": {}});
        let requested = json!({"metadata": {"labels": {"x": "1"}}});
        let first = apply_as(&live, "a", &requested, false).unwrap();
        let both = apply_as(&first, "b", &requested, false).unwrap();
        let gone = apply_as(&both, "a", &json!({"metadata": {"name": "n"}}), false).unwrap();
        assert_eq!(gone["metadata"]["labels"], json!({"x": "1"}));
    }
}
