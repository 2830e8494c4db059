//! What is set on one part of a load balancer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cloud_provider::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::SortedMap;
use super::resource::{Field, Rule};

type Key = Cow<'static, str>;

/// Settings of a part, by name. What they mean is the provider's business; here they are only compared.
///
/// In what is *wanted*, a name that is not there makes no statement: whatever the cloud has stays. `null` wants it absent.
/// A [`fixed`](Self::fixed) setting counts only when the part is made.
///
/// ```
/// use provider_kit::load_balancers::Attributes;
///
/// let wanted = Attributes::default().set("tier", "premium").set("affinity", ()).set("zone", "a").fixed(&["zone"]);
/// let actual = Attributes::default().set("tier", "basic").set("zone", "b").set("colour", "red");
/// let differences = wanted.differences(&actual);
/// assert_eq!(differences.len(), 1);
/// assert_eq!(differences[0].to_string(), "tier: basic → premium");
/// assert_eq!(actual.overlaid_with(&wanted).text("colour"), Some("red"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    values: SortedMap<Key, Value>,
    fixed: BTreeSet<&'static str>,
    /// The rules of a typed resource's fields.
    fields: &'static [Field],
}

/// Two are equal if they say the same, whatever type it comes from.
impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values && self.fixed == other.fixed
    }
}

impl Eq for Attributes {}

/// One setting that is not as wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub key: String,
    /// What it is; `null` if it is not set.
    pub from: Value,
    /// What it shall be.
    pub to: Value,
    /// The key of the setting by which the user chose it, if there is one.
    pub setting: Option<&'static str>,
}

impl Attributes {
    /// The fields of a structure; one that is left out when it is written makes no statement.
    ///
    /// # Errors
    /// If `fields` does not become a JSON object.
    pub fn of(fields: &impl Serialize) -> Result<Self> {
        match serde_json::to_value(fields) {
            Ok(Value::Object(fields)) => {
                Ok(Self { values: fields.into_iter().map(|(k, v)| (k.into(), v)).collect(), ..Self::default() })
            }
            Ok(other) => Err(Error::other(format!("settings must be an object, not {other}"))),
            Err(err) => Err(Error::other(format!("settings that cannot be written as JSON: {err}"))),
        }
    }

    pub(super) fn of_fields(values: impl Iterator<Item = (&'static str, Value)>, fields: &'static [Field]) -> Self {
        Self { values: values.map(|(place, value)| (place.into(), value)).collect(), fixed: BTreeSet::new(), fields }
    }

    fn field(&self, place: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.place == place)
    }

    fn is_fixed(&self, place: &str) -> bool {
        self.fixed.contains(place) || self.field(place).is_some_and(|field| field.rule == Rule::CreateOnly)
    }

    /// What stands at these places of a JSON object, named by them; `null` is not set. Lists are taken for sets: sorted, and
    /// nothing in them twice.
    ///
    /// ```
    /// use provider_kit::load_balancers::Attributes;
    /// use serde_json::json;
    ///
    /// let shown = json!({"port": 80, "check": {"http": {"path": "/up"}, "retries": null}});
    /// let settings = Attributes::at(&["port", "check.retries", "check.http.path"], &shown);
    /// assert_eq!(settings.text("check.http.path"), Some("/up"));
    /// assert_eq!(settings.nested(), json!({"port": 80, "check": {"http": {"path": "/up"}}}));
    /// ```
    #[must_use]
    pub fn at(places: &[&'static str], object: &Value) -> Self {
        places.iter().fold(Self::default(), |settings, place| {
            match place.split('.').try_fold(object, |value, name| value.get(name)) {
                None | Some(Value::Null) => settings,
                Some(value) => settings.set(*place, in_order(value.clone())),
            }
        })
    }

    /// A JSON object with each of them at its [place](Self::at).
    #[must_use]
    pub fn nested(&self) -> Value {
        let mut object = Map::new();
        for (place, value) in self.values.iter() {
            put(&mut object, place, value.clone());
        }
        object.into()
    }

    /// Reads them back into a structure.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let fields = self.values.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        serde_json::from_value(Value::Object(fields))
            .map_err(|err| Error::other(format!("settings of a load balancer cannot be read: {err}")))
    }

    /// Adds or replaces one. `()` is `null`.
    #[must_use]
    pub fn set(mut self, key: impl Into<Key>, value: impl Serialize) -> Self {
        self.values.insert(key.into(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    /// Says which of them cannot be changed once the part is made. On the load balancer and on pools a difference in them
    /// is left alone; any other part is removed and made anew.
    #[must_use]
    pub fn fixed(mut self, keys: &[&'static str]) -> Self {
        self.fixed.extend(keys);
        self
    }

    /// Those of these names; the others are the cloud's own business.
    #[must_use]
    pub fn only(mut self, keys: &[&str]) -> Self {
        self.values.retain(|key, _| keys.contains(&&**key));
        self
    }

    pub(super) fn without(mut self, key: &str) -> Self {
        self.values.remove(key);
        self
    }

    /// A setting.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A setting that is a text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// A setting that is a number, such as a port.
    #[must_use]
    pub fn number<T: TryFrom<u64>>(&self, key: &str) -> Option<T> {
        T::try_from(self.get(key)?.as_u64()?).ok()
    }

    /// What would have to change on `actual`; fixed settings aside.
    #[must_use]
    pub fn differences(&self, actual: &Self) -> Vec<Difference> {
        self.all_differences(actual).filter(|it| !self.is_fixed(&it.key)).collect()
    }

    /// Whether a fixed setting is not as wanted.
    #[must_use]
    pub fn differs_in_fixed(&self, actual: &Self) -> bool {
        self.all_differences(actual).any(|it| self.is_fixed(&it.key))
    }

    fn all_differences(&self, actual: &Self) -> impl Iterator<Item = Difference> {
        self.values.iter().filter_map(|(key, to)| {
            let from = actual.values.get(key).cloned().unwrap_or(Value::Null);
            let setting = || self.field(key).and_then(Field::setting_key);
            (from != *to).then(|| Difference { key: key.to_string(), from, to: to.clone(), setting: setting() })
        })
    }

    /// These, changed to what is wanted; fixed settings stay as they are.
    #[must_use]
    pub fn overlaid_with(&self, wanted: &Self) -> Self {
        let mut values = self.values.clone();
        for (key, value) in wanted.values.iter().filter(|(key, _)| !wanted.is_fixed(key)) {
            match value {
                Value::Null => values.remove(key),
                value => values.insert(key.clone(), value.clone()),
            };
        }
        let fields = if wanted.fields.is_empty() { self.fields } else { wanted.fields };
        Self { values, fixed: BTreeSet::new(), fields }
    }

    /// Everything that is wanted to be there: what a new part is made with. Of what is still to be wanted: what makes a statement.
    #[must_use]
    pub fn to_make(&self) -> Self {
        let values = self.values.iter().filter(|(_, value)| !value.is_null());
        let values = values.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { values, fixed: BTreeSet::new(), fields: self.fields }
    }
}

/// A list that means a set, in an order that can be compared.
#[must_use]
pub fn in_order(mut value: Value) -> Value {
    if let Value::Array(items) = &mut value {
        items.sort_by_cached_key(ToString::to_string);
        items.dedup();
    }
    value
}

pub(super) fn put(object: &mut Map<String, Value>, place: &str, value: Value) {
    match place.split_once('.') {
        None => drop(object.insert(place.to_owned(), value)),
        Some((first, rest)) => {
            if let Value::Object(inner) = object.entry(first).or_insert_with(|| Map::new().into()) {
                put(inner, rest, value);
            }
        }
    }
}

/// A JSON object.
impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::deserialize(deserializer)?.into_iter().collect();
        Ok(Self { values, ..Self::default() })
    }
}

/// A value without the quotes of JSON.
struct Plain<'a>(&'a Value);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("none"),
            Value::String(text) if text.is_empty() => f.write_str("none"),
            Value::Array(items) if items.is_empty() => f.write_str("none"),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| Plain(item).to_string()).collect();
                write!(f, "[{}]", items.join(", "))
            }
            other => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}", self.setting.unwrap_or(&self.key), Plain(&self.from), Plain(&self.to))
    }
}

/// `tier premium, zone a`.
impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (key, value)) in self.values.iter().enumerate() {
            let name = self.field(key).and_then(Field::setting_key).unwrap_or(key);
            write!(f, "{}{name} {}", if n == 0 { "" } else { ", " }, Plain(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_becomes_settings_and_comes_back() {
        #[derive(Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Monitor {
            port: u16,
            #[serde(skip_serializing_if = "Option::is_none")]
            path: Option<String>,
        }
        let monitor = Monitor { port: 30_000, path: None };
        let settings = Attributes::of(&monitor).unwrap();
        assert_eq!((settings.number::<u16>("port"), settings.get("path")), (Some(30_000), None));
        assert_eq!(settings.read::<Monitor>().unwrap(), monitor);
        assert!(Attributes::of(&7).is_err());
    }

    #[test]
    fn what_is_wanted_absent_is_taken_away_and_what_is_not_named_stays() {
        let actual = Attributes::default().set("a", 1).set("b", 2);
        let wanted = Attributes::default().set("a", ()).set("c", ());
        let differences: Vec<_> = wanted.differences(&actual).iter().map(ToString::to_string).collect();
        assert_eq!(differences, ["a: 1 → none"]);
        let changed = actual.overlaid_with(&wanted);
        assert_eq!(changed.to_string(), "b 2");
        assert!(wanted.differences(&changed).is_empty());
        assert_eq!(wanted.to_make(), Attributes::default());
    }
}
