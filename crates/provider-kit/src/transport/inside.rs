//! Deserialization of one field of an answer: clouds wrap the requested object, as in `{"server": {…}}`.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// A deserializer of the object's field of this name, which skips all other fields.
pub(super) struct Inside<T>(&'static str, PhantomData<T>);

impl<T> Inside<T> {
    pub(super) fn of(field: &'static str) -> Self {
        Self(field, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Inside<T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Inside<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {:?}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<T, A::Error> {
        let mut found = None;
        while let Some(name) = fields.next_key::<String>()? {
            if name == self.0 {
                found = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        found.ok_or_else(|| A::Error::missing_field(self.0))
    }
}
