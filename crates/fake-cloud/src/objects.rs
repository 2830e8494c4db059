//! Objects of a cloud as its APIs show them, by kind, each of an account.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fault::Refused;

/// Objects by kind. The field `_account` is the account of an object; fields that begin with an underscore are those of
/// the fake alone.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Account whose objects the APIs show now.
    pub account: &'static str,
    kinds: BTreeMap<&'static str, Vec<Value>>,
    created: u32,
}

impl Objects {
    /// Returns no objects, for this account.
    #[must_use]
    pub fn of(account: &'static str) -> Self {
        Self {
            account,
            kinds: BTreeMap::new(),
            created: 0,
        }
    }

    /// Returns all objects of a kind, of any account.
    #[must_use]
    pub fn all(&self, kind: &str) -> &[Value] {
        self.kinds.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Returns the objects of a kind, of any account, to be changed.
    pub fn each(&mut self, kind: &'static str) -> &mut Vec<Value> {
        self.kinds.entry(kind).or_default()
    }

    /// Adds an object, of the current account unless it says otherwise.
    pub fn add(&mut self, kind: &'static str, mut object: Value) {
        if object["_account"].is_null() {
            object["_account"] = self.account.into();
        }
        self.each(kind).push(object);
    }

    /// Returns a number that was not returned before, from 1.
    pub fn number(&mut self) -> u32 {
        self.created += 1;
        self.created
    }

    /// Returns the account's objects of a kind for which `matches` holds.
    pub fn matching(&self, kind: &str, matches: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.all(kind)
            .iter()
            .filter(|object| object["_account"] == self.account && matches(object))
            .cloned()
            .collect()
    }

    /// Returns the account's object whose field `key` is `id`.
    ///
    /// # Errors
    /// A refusal with `code` if there is none.
    pub fn find(
        &mut self,
        kind: &'static str,
        key: &str,
        id: &Value,
        code: &str,
    ) -> Result<&mut Value, Refused> {
        let account = self.account;
        let found = self
            .each(kind)
            .iter_mut()
            .find(|object| object["_account"] == account && object[key] == *id);
        found
            .ok_or_else(|| Refused::code(code, format!("The specified {key} {id} does not exist.")))
    }

    /// Removes the account's objects of a kind for which `is_gone` holds, and returns how many there were.
    pub fn remove(&mut self, kind: &'static str, is_gone: impl Fn(&Value) -> bool) -> usize {
        let account = self.account;
        let all = self.each(kind);
        let before = all.len();
        all.retain(|object| object["_account"] != account || !is_gone(object));
        before - all.len()
    }
}

/// Returns the items of a list, or none.
pub fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a text, or an empty one.
#[must_use]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Sets the fields of an object; objects among them are merged.
pub fn merge(into: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) if into[key].is_object() => merge(&mut into[key], value),
            _ => into[key] = value.clone(),
        }
    }
}
