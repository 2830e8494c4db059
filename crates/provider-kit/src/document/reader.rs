//! Reading of values into types, with the rules of Go for keys and scalars.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::{Map, Value};

use super::places::below;

/// A value that cannot be read: the path of its key, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    pub(super) path: String,
    pub(super) text: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.text)
    }
}

impl std::error::Error for Wrong {}

/// Messages of visitors quote values, which may be secrets; only what is expected is kept.
impl de::Error for Wrong {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self {
            path: String::new(),
            text: "has a value that is not accepted".to_owned(),
        }
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self {
            path: String::new(),
            text: format!("must be {expected}"),
        }
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self {
            path: String::new(),
            text: format!("must be {expected}"),
        }
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self {
            path: String::new(),
            text: format!("must be one of {}", expected.join(", ")),
        }
    }
}

/// A key that the type does not have, with the keys that it has.
pub(super) struct Unknown {
    pub(super) path: String,
    pub(super) known: &'static [&'static str],
}

/// Returns the type of a value for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "keys with values",
    }
}

/// Returns the values with the spelling of their keys in `known`: of several spellings of a key, the exact one counts,
/// or else the last one. A `null` under the exact spelling changes nothing, as in the Go programs. Calls `unknown` with each key that is not known in any spelling.
pub(super) fn spelt<'v, 'k>(
    values: &'v Map<String, Value>,
    known: &[&'k str],
    mut unknown: impl FnMut(&str),
) -> Vec<(&'k str, &'v Value)> {
    let mut spelt: Vec<(&'k str, &'v Value)> = Vec::new();
    for (key, value) in values {
        let exact = known.iter().find(|name| **name == key);
        let Some(name) = exact.or_else(|| known.iter().find(|name| name.eq_ignore_ascii_case(key)))
        else {
            unknown(key);
            continue;
        };
        if exact.is_none() && values.get(*name).is_some_and(|value| !value.is_null()) {
            continue;
        }
        let is_known = spelt.iter().any(|(earlier, _)| earlier == name);
        if is_known && value.is_null() {
            continue;
        }
        spelt.retain(|(earlier, _)| earlier != name);
        spelt.push((*name, value));
    }
    spelt
}

/// A value that is being read.
pub(super) struct Reader<'a> {
    value: &'a Value,
    path: String,
    unknown: &'a RefCell<Vec<Unknown>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(value: &'a Value, unknown: &'a RefCell<Vec<Unknown>>) -> Self {
        Self {
            value,
            path: String::new(),
            unknown,
        }
    }

    fn at(&self, value: &'a Value, path: String) -> Self {
        Self {
            value,
            path,
            unknown: self.unknown,
        }
    }

    fn refused(&self, accepted: &str) -> Wrong {
        Wrong {
            path: self.path.clone(),
            text: format!("must be {accepted}, not {}", kind(self.value)),
        }
    }

    fn integer<N: TryFrom<i128>, T>(
        &self,
        range: (i128, i128),
        visit: impl FnOnce(N) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        let accepted = format!("a whole number from {} to {}", range.0, range.1);
        let Value::Number(number) = self.value else {
            return Err(self.refused(&accepted));
        };
        let whole = number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from));
        match whole.and_then(|whole| N::try_from(whole).ok()) {
            Some(whole) => visit(whole).map_err(|wrong| placed(wrong, &self.path)),
            None => Err(Wrong {
                path: self.path.clone(),
                text: format!("must be {accepted}"),
            }),
        }
    }

    fn keys<'de, V: Visitor<'de>>(
        self,
        entries: Vec<(&'a str, &'a Value)>,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let path = self.path.clone();
        visitor
            .visit_map(Entries {
                entries: entries.into_iter(),
                value: None,
                reader: self,
            })
            .map_err(|wrong| placed(wrong, &path))
    }
}

/// Adds the path to an error that has none.
fn placed(wrong: Wrong, path: &str) -> Wrong {
    if wrong.path.is_empty() {
        Wrong {
            path: path.to_owned(),
            ..wrong
        }
    } else {
        wrong
    }
}

/// Returns the truth value of a word of YAML 1.1, which the Go programs read.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $type:ty),*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            self.integer((<$type>::MIN.into(), <$type>::MAX.into()), |number: $type| visitor.$visit(number))
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Wrong;

    integers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
            scalar => scalar
                .clone()
                .deserialize_any(visitor)
                .map_err(|_| self.refused("another value")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let value = self.value.as_bool().or_else(|| truth(self.value.as_str()?));
        value.map_or_else(
            || Err(self.refused("true or false")),
            |value| visitor.visit_bool(value),
        )
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.value.as_f64().map_or_else(
            || Err(self.refused("a number")),
            |number| visitor.visit_f64(number),
        )
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let text = match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            // Go leaves the text empty.
            Value::Null => String::new(),
            Value::Array(_) | Value::Object(_) => return Err(self.refused("a text")),
        };
        visitor
            .visit_string(text)
            .map_err(|wrong| placed(wrong, &self.path))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let items: &[Value] = match self.value {
            Value::Array(items) => items,
            Value::Null => &[],
            _ => return Err(self.refused("a list")),
        };
        visitor
            .visit_seq(Items {
                items: items.iter().enumerate(),
                reader: &self,
            })
            .map_err(|wrong| placed(wrong, &self.path))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::Object(values) => {
                let entries = values.iter().map(|(key, value)| (&**key, value)).collect();
                self.keys(entries, visitor)
            }
            Value::Null => self.keys(Vec::new(), visitor),
            _ => Err(self.refused("keys with values")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let values = match self.value {
            Value::Object(values) => values,
            Value::Null => return self.keys(Vec::new(), visitor),
            _ => return Err(self.refused("keys with values")),
        };
        let path = self.path.clone();
        let unknown = self.unknown;
        let entries = spelt(values, known, |key| {
            unknown.borrow_mut().push(Unknown {
                path: below(&path, key),
                known,
            });
        });
        // A key without a value is not set.
        let entries = entries
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect();
        self.keys(entries, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let Value::String(text) = self.value else {
            return Err(self.refused(&format!("one of {}", variants.join(", "))));
        };
        let word: StrDeserializer<'_, Wrong> = text.as_str().into_deserializer();
        visitor
            .visit_enum(word)
            .map_err(|wrong| placed(wrong, &self.path))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier }
}

/// The entries of an object.
struct Entries<'a> {
    entries: std::vec::IntoIter<(&'a str, &'a Value)>,
    value: Option<(&'a str, &'a Value)>,
    reader: Reader<'a>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        self.value = self.entries.next();
        let Some((key, _)) = self.value else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Wrong> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Wrong> {
        let (key, value) = self.value.take().unwrap_or(("", &Value::Null));
        let path = below(&self.reader.path, key);
        seed.deserialize(self.reader.at(value, path.clone()))
            .map_err(|wrong| placed(wrong, &path))
    }
}

/// The items of a list.
struct Items<'a, 'r> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    reader: &'r Reader<'a>,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Wrong;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Wrong> {
        let Some((index, value)) = self.items.next() else {
            return Ok(None);
        };
        let path = format!("{}[{index}]", self.reader.path);
        seed.deserialize(self.reader.at(value, path)).map(Some)
    }
}

/// Returns the keys of a type.
#[must_use]
pub fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut found: &'static [&'static str] = &[];
    _ = T::deserialize(Fields(&mut found));
    found
}

/// Notes the keys of the type that is deserialized, and refuses it.
struct Fields<'f>(&'f mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong::default())
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Wrong> {
        *self.0 = known;
        Err(Wrong::default())
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
