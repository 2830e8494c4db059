//! Strategic merge patch: lists of named things merge by their key, and directives delete, replace and order.

use serde_json::{Map, Value};

use crate::schema::{Schema, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Merges `patch` into `object`, which is of type `ty`.
///
/// # Errors
///
/// The real server's message for a directive or list item that makes no sense.
pub(crate) fn apply(object: &mut Value, patch: Value, ty: &Type) -> Result<(), String> {
    let Value::Object(patch) = patch else {
        return Err("cannot apply a patch that is not an object".to_owned());
    };
    let before = std::mem::take(object);
    let map = match before {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    *object = Value::Object(merge_map(map, patch, ty)?);
    Ok(())
}

/// Merge rule of a list field.
struct ListRule {
    merge: bool,
    key: Option<String>,
    item: Type,
}

fn list_rule(ty: &Type) -> ListRule {
    match ty {
        Type::List {
            item,
            merge_key,
            merge,
            ..
        } => ListRule {
            merge: *merge,
            key: merge_key.clone(),
            item: (**item).clone(),
        },
        _ => ListRule {
            merge: false,
            key: None,
            item: Type::Any,
        },
    }
}

fn field_type(ty: &Type, name: &str) -> Type {
    match ty {
        Type::Object(_) => Schema::get()
            .field(ty, name)
            .map_or(Type::Any, |field| field.ty.clone()),
        Type::Map { value, .. } => (**value).clone(),
        _ => Type::Any,
    }
}

fn merge_map(
    mut object: Map<String, Value>,
    mut patch: Map<String, Value>,
    ty: &Type,
) -> Result<Map<String, Value>, String> {
    match patch.remove(PATCH) {
        None => {}
        Some(Value::String(directive)) => match directive.as_str() {
            "replace" => return Ok(patch),
            "delete" => return Ok(Map::new()),
            "merge" => {}
            other => return Err(format!("unknown patch type found: {other}")),
        },
        Some(other) => return Err(format!("unknown patch type found: {other}")),
    }
    retain_keys(&mut object, &mut patch)?;
    set_orders(&mut object, &mut patch, ty)?;
    for (key, change) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            delete_from(&mut object, list, &change)?;
            continue;
        }
        if change.is_null() {
            object.remove(&key);
            continue;
        }
        let below = field_type(ty, &key);
        let merged = match (object.remove(&key), change) {
            // There is nothing to replace or delete, and so nothing comes of it.
            (None, new) if is_directive(&new) => continue,
            (Some(Value::Object(old)), Value::Object(new)) => {
                Value::Object(merge_map(old, new, &below)?)
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Value::Array(merge_list(&old, new, &below, &key)?)
            }
            (_, new) => without_directives(new),
        };
        object.insert(key, merged);
    }
    Ok(object)
}

/// Keeps only the listed keys of the object.
fn retain_keys(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), String> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(format!(
            "invalid patch format: {RETAIN_KEYS} must be a list"
        ));
    };
    let listed = |key: &str| keys.iter().any(|k| k.as_str() == Some(key));
    if let Some(stranger) = patch
        .keys()
        .find(|key| !key.starts_with('$') && !listed(key))
    {
        return Err(format!(
            "{RETAIN_KEYS} directive must contain all fields in the patch; {stranger:?} is missing"
        ));
    }
    object.retain(|key, _| listed(key));
    Ok(())
}

fn delete_from(object: &mut Map<String, Value>, list: &str, gone: &Value) -> Result<(), String> {
    let Value::Array(gone) = gone else {
        return Err(format!(
            "invalid patch format: {DELETE_FROM}{list} must be a list"
        ));
    };
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

/// Merges the lists that come with an order, and puts them in it.
fn set_orders(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    ty: &Type,
) -> Result<(), String> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(format!("invalid patch format: {directive} must be a list"));
        };
        let name = &directive[SET_ORDER.len()..];
        let below = field_type(ty, name);
        let rule = list_rule(&below);
        let changes = match patch.remove(name) {
            Some(Value::Array(changes)) => Some(changes),
            Some(other) => {
                // A list that is removed or replaced by something else has no order.
                patch.insert(name.to_owned(), other);
                continue;
            }
            None => None,
        };
        check_order(
            changes.as_deref().unwrap_or_default(),
            &order,
            rule.key.as_deref(),
        )?;
        let before = match object.remove(name) {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        };
        let deleted = format!("{DELETE_FROM}{name}");
        let mut live = before.clone().unwrap_or_default();
        if let Some(gone) = patch.remove(&deleted) {
            let mut holder = Map::from_iter([(name.to_owned(), Value::Array(live))]);
            delete_from(&mut holder, name, &gone)?;
            live = holder
                .remove(name)
                .and_then(|v| v.as_array().cloned())
                .unwrap_or_default();
        }
        let merged = match (&before, changes) {
            (None, None) => continue,
            (Some(_), None) => live,
            (None, Some(changes)) => changes
                .into_iter()
                .filter(|item| !is_directive(item))
                .map(without_directives)
                .collect(),
            (Some(_), Some(changes)) => merge_list(&live, changes, &below, name)?,
        };
        let ordered = in_order(
            merged,
            &order,
            before.as_deref().unwrap_or_default(),
            rule.key.as_deref(),
        );
        object.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

/// Checks that the items which a patch adds or changes are in the order that the patch requests.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<(), String> {
    let mut wanted = order.iter();
    let in_turn = |item: &Value| wanted.any(|other| same(other, item, key));
    if changes
        .iter()
        .filter(|item| !is_directive(item))
        .all(in_turn)
    {
        return Ok(());
    }
    let changes = go_list(changes);
    let order = go_list(order);
    Err(format!(
        "The order in patch list:\n{changes}\n doesn't match $setElementOrder list:\n{order}\n"
    ))
}

/// Returns `true` for two elements that are equal to a merge by `key`.
fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

fn is_directive(item: &Value) -> bool {
    item.get(PATCH).is_some()
}

fn merge_list(
    old: &[Value],
    new: Vec<Value>,
    ty: &Type,
    field: &str,
) -> Result<Vec<Value>, String> {
    let rule = list_rule(ty);
    if !rule.merge {
        return Ok(match without_directives(Value::Array(new)) {
            Value::Array(items) => items,
            _ => Vec::new(),
        });
    }
    let scalars = old.iter().chain(&new).all(|item| !item.is_object());
    if scalars {
        let mut out: Vec<Value> = Vec::new();
        for item in old.iter().chain(&new) {
            if !out.contains(item) {
                out.push(item.clone());
            }
        }
        return Ok(in_order(out, &new, old, None));
    }
    let key = rule
        .key
        .ok_or_else(|| format!("cannot merge lists without merge key for {field}"))?;
    if new
        .iter()
        .any(|item| item.get(PATCH).and_then(Value::as_str) == Some("replace"))
    {
        return Ok(new
            .into_iter()
            .filter(|item| item.get(PATCH).is_none())
            .map(without_directives)
            .collect());
    }
    let (live, changes) = special_elements(old.to_vec(), new, &key)?;
    let order = changes.clone();
    let mut out = live;
    for change in changes {
        let Some(wanted) = change.get(&key).cloned() else {
            return Err(format!(
                "map: {} does not contain declared merge key: {key}",
                go_map(&change)
            ));
        };
        match out.iter().position(|item| item.get(&key) == Some(&wanted)) {
            Some(index) => {
                let (Value::Object(was), Value::Object(now)) = (out[index].take(), change) else {
                    continue;
                };
                out[index] = Value::Object(merge_map(was, now, &rule.item)?);
            }
            None => out.push(without_directives(change)),
        }
    }
    Ok(in_order(out, &order, old, Some(&key)))
}

/// Applies the items with a `$patch` directive.
fn special_elements(
    old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), String> {
    let mut live = old;
    let mut changes = Vec::new();
    for item in new {
        let Some(directive) = item.get(PATCH) else {
            if !item.is_object() {
                return Err("all values in a list must have the same type".to_owned());
            }
            changes.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let Some(wanted) = item.get(key) else {
                    return Err(format!("delete patch type with no merge key {key} defined"));
                };
                live.retain(|other| other.get(key) != Some(wanted));
            }
            Some("merge") => {
                return Err("merging lists cannot yet be specified in the patch".to_owned());
            }
            _ => return Err(format!("unknown patch type found: {directive}")),
        }
    }
    Ok((live, changes))
}

/// Orders `merged`: items in `order` follow it; the others keep the live order and go before the first ordered item
/// that comes after them in the live list.
fn in_order(merged: Vec<Value>, order: &[Value], live: &[Value], key: Option<&str>) -> Vec<Value> {
    let rank = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item, key));
    let (mut ordered, mut rest): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| rank(order, item).is_some());
    ordered.sort_by_key(|item| rank(order, item));
    rest.sort_by_key(|item| rank(live, item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(ordered.len() + rest.len());
    let mut left = rest.into_iter().peekable();
    let mut right = ordered.into_iter().peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(l), Some(r)) => {
                matches!((rank(live, l), rank(live, r)), (Some(l), Some(r)) if l < r)
            }
        };
        out.extend(if take_left { left.next() } else { right.next() });
    }
}

/// Returns the value that a patch sets where the object has none: without directives and nulls.
fn without_directives(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(key, value)| {
                    !key.starts_with('$') && !value.is_null() && !is_directive(value)
                })
                .map(|(key, value)| (key, without_directives(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .filter(|item| !is_directive(item))
                .map(without_directives)
                .collect(),
        ),
        other => other,
    }
}

/// Returns a map as Go prints it.
fn go_map(value: &Value) -> String {
    let members = value.as_object().into_iter().flatten();
    let pairs: Vec<String> = members
        .map(|(key, value)| format!("{key}:{}", go_scalar(value)))
        .collect();
    format!("map[{}]", pairs.join(" "))
}

/// Returns a list of maps or scalars as Go prints it.
fn go_list(items: &[Value]) -> String {
    let items = items.iter().map(|item| {
        if item.is_object() {
            go_map(item)
        } else {
            go_scalar(item)
        }
    });
    format!("[{}]", items.collect::<Vec<_>>().join(" "))
}

fn go_scalar(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
