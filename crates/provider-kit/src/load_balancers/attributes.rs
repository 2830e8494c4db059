//! Settings of one resource of a load balancer.

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

/// Settings of a resource, by name. The provider gives them a meaning; the engine only compares them.
///
/// In a *desired* state, a name without an entry makes no statement: the cloud's value stays. `null` wants the setting
/// absent. A [`fixed`](Self::fixed) setting counts only when the resource is created.
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

/// Two sets of settings are equal if their values are, whatever type they come from.
impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values && self.fixed == other.fixed
    }
}

impl Eq for Attributes {}

/// A setting whose observed value differs from the desired value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the setting.
    pub key: String,
    /// Observed value; `null` if the setting is absent.
    pub from: Value,
    /// Desired value of the setting.
    pub to: Value,
    /// Key of the annotation or option that chose the value, if there is one.
    pub setting: Option<&'static str>,
}

impl Attributes {
    /// Reads the fields of a structure. A field that is not serialized makes no statement.
    ///
    /// # Errors
    /// Returns an error if `fields` does not serialize to a JSON object.
    pub fn of(fields: &impl Serialize) -> Result<Self> {
        match serde_json::to_value(fields) {
            Ok(Value::Object(fields)) => Ok(Self {
                values: fields.into_iter().map(|(k, v)| (k.into(), v)).collect(),
                ..Self::default()
            }),
            Ok(other) => Err(Error::other(format!(
                "settings must be an object, not {other}"
            ))),
            Err(err) => Err(Error::other(format!(
                "settings that cannot be written as JSON: {err}"
            ))),
        }
    }

    pub(super) fn of_fields(
        values: impl Iterator<Item = (&'static str, Value)>,
        fields: &'static [Field],
    ) -> Self {
        Self {
            values: values.map(|(place, value)| (place.into(), value)).collect(),
            fixed: BTreeSet::new(),
            fields,
        }
    }

    fn field(&self, place: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.place == place)
    }

    fn is_fixed(&self, place: &str) -> bool {
        self.fixed.contains(place)
            || self
                .field(place)
                .is_some_and(|field| field.rule == Rule::CreateOnly)
    }

    /// Reads the values at the given places of a JSON object and names each after its place; `null` counts as absent.
    /// Lists are taken as sets: sorted, without duplicates.
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
            match place
                .split('.')
                .try_fold(object, |value, name| value.get(name))
            {
                None | Some(Value::Null) => settings,
                Some(value) => settings.set(*place, sorted_set(value.clone())),
            }
        })
    }

    /// Returns a JSON object with each value at its [place](Self::at).
    #[must_use]
    pub fn nested(&self) -> Value {
        let mut object = Map::new();
        for (place, value) in self.values.iter() {
            put(&mut object, place, value.clone());
        }
        object.into()
    }

    /// Deserializes the settings into a structure.
    ///
    /// # Errors
    /// Returns an error if the values do not fit the structure.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let fields = self
            .values
            .iter()
            .map(|(key, value)| (key.to_string(), value.clone()))
            .collect();
        serde_json::from_value(Value::Object(fields)).map_err(|err| {
            Error::other(format!("settings of a load balancer cannot be read: {err}"))
        })
    }

    /// Adds or replaces a setting. `()` stands for `null`.
    #[must_use]
    pub fn set(mut self, key: impl Into<Key>, value: impl Serialize) -> Self {
        self.values.insert(
            key.into(),
            serde_json::to_value(value).unwrap_or(Value::Null),
        );
        self
    }

    /// Names the settings that cannot be changed after the resource is created. On the load balancer and on pools, a
    /// difference in them is ignored; any other resource is deleted and created again.
    #[must_use]
    pub fn fixed(mut self, keys: &[&'static str]) -> Self {
        self.fixed.extend(keys);
        self
    }

    /// Keeps the settings of these names and drops all others, which the cloud manages itself.
    #[must_use]
    pub fn only(self, keys: &[&str]) -> Self {
        self.matching(|key| keys.contains(&key))
    }

    /// Keeps the settings whose names match, for clouds that change different settings with different requests.
    ///
    /// ```
    /// use provider_kit::load_balancers::Attributes;
    ///
    /// let settings = Attributes::default().set("Protocol", "TCP").set("tag team", "web");
    /// assert_eq!(settings.clone().matching(|name| name.starts_with("tag ")).iter().count(), 1);
    /// assert_eq!(settings.matching(|name| name == "Protocol").text("Protocol"), Some("TCP"));
    /// ```
    #[must_use]
    pub fn matching(mut self, matches: impl Fn(&str) -> bool) -> Self {
        self.values.retain(|key, _| matches(key));
        self
    }

    /// Returns the settings in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (&**key, value))
    }

    pub(super) fn without(mut self, key: &str) -> Self {
        self.values.remove(key);
        self
    }

    /// Returns the value of a setting.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Returns the value of a setting that is a string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Returns the value of a setting that is a number, such as a port.
    #[must_use]
    pub fn number<T: TryFrom<u64>>(&self, key: &str) -> Option<T> {
        T::try_from(self.get(key)?.as_u64()?).ok()
    }

    /// Returns the changes that `actual` needs, except for fixed settings.
    #[must_use]
    pub fn differences(&self, actual: &Self) -> Vec<Difference> {
        self.all_differences(actual)
            .filter(|difference| !self.is_fixed(&difference.key))
            .collect()
    }

    /// Returns `true` if a fixed setting differs from the desired value.
    #[must_use]
    pub fn differs_in_fixed(&self, actual: &Self) -> bool {
        self.all_differences(actual)
            .any(|difference| self.is_fixed(&difference.key))
    }

    /// Returns `true` if `wanted` has a fixed setting of which these settings say nothing.
    pub(super) fn lacks_fixed_of(&self, wanted: &Self) -> bool {
        let mut fixed = wanted
            .values
            .iter()
            .filter(|(key, value)| wanted.is_fixed(key) && !value.is_null());
        fixed.any(|(key, _)| self.get(key).is_none())
    }

    fn all_differences(&self, actual: &Self) -> impl Iterator<Item = Difference> {
        self.values.iter().filter_map(|(key, to)| {
            let from = actual.values.get(key).cloned().unwrap_or(Value::Null);
            let setting = || self.field(key).and_then(Field::setting_key);
            (from != *to).then(|| Difference {
                key: key.to_string(),
                from,
                to: to.clone(),
                setting: setting(),
            })
        })
    }

    /// Returns these settings with the `wanted` values applied; fixed settings stay as they are.
    #[must_use]
    pub fn overlaid_with(&self, wanted: &Self) -> Self {
        let mut values = self.values.clone();
        for (key, value) in wanted
            .values
            .iter()
            .filter(|(key, _)| !wanted.is_fixed(key))
        {
            match value {
                Value::Null => values.remove(key),
                value => values.insert(key.clone(), value.clone()),
            };
        }
        let fields = if wanted.fields.is_empty() {
            self.fields
        } else {
            wanted.fields
        };
        Self {
            values,
            fixed: BTreeSet::new(),
            fields,
        }
    }

    /// Returns the settings that are not `null`: the ones that a new resource is created with.
    #[must_use]
    pub fn for_creation(&self) -> Self {
        let values = self.values.iter().filter(|(_, value)| !value.is_null());
        let values = values
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Self {
            values,
            fixed: BTreeSet::new(),
            fields: self.fields,
        }
    }
}

/// Sorts a list that stands for a set and removes duplicates, so that two lists can be compared.
#[must_use]
pub fn sorted_set(mut value: Value) -> Value {
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

/// Serializes the settings as a JSON object.
impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::deserialize(deserializer)?.into_iter().collect();
        Ok(Self {
            values,
            ..Self::default()
        })
    }
}

/// A value displayed without the quotes of JSON.
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
        write!(
            f,
            "{}: {} → {}",
            self.setting.unwrap_or(&self.key),
            Plain(&self.from),
            Plain(&self.to)
        )
    }
}

/// Displays the settings as `tier premium, zone a`.
impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (key, value)) in self.values.iter().enumerate() {
            let name = self.field(key).and_then(Field::setting_key).unwrap_or(key);
            write!(
                f,
                "{}{name} {}",
                if n == 0 { "" } else { ", " },
                Plain(value)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_round_trips_through_settings() {
        #[derive(Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Monitor {
            port: u16,
            #[serde(skip_serializing_if = "Option::is_none")]
            path: Option<String>,
        }
        let monitor = Monitor {
            port: 30_000,
            path: None,
        };
        let settings = Attributes::of(&monitor).unwrap();
        assert_eq!(
            (settings.number::<u16>("port"), settings.get("path")),
            (Some(30_000), None)
        );
        assert_eq!(settings.read::<Monitor>().unwrap(), monitor);
        assert!(Attributes::of(&7).is_err());
    }

    #[test]
    fn settings_wanted_absent_are_removed_and_others_stay() {
        let actual = Attributes::default().set("a", 1).set("b", 2);
        let wanted = Attributes::default().set("a", ()).set("c", ());
        let differences: Vec<_> = wanted
            .differences(&actual)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(differences, ["a: 1 → none"]);
        let changed = actual.overlaid_with(&wanted);
        assert_eq!(changed.to_string(), "b 2");
        assert!(wanted.differences(&changed).is_empty());
        assert_eq!(wanted.for_creation(), Attributes::default());
    }
}
