//! Comparison of expected and actual values.

use std::fmt::Debug;

use anyhow::{Result, bail};
use serde::{Deserialize, Deserializer};

use super::schema::{ErrorText, Event};

/// The value of a key under `expect`: a key that is not there is not compared, `null` is.
#[derive(Debug, Default, Clone)]
pub(crate) enum Expected<T> {
    /// The key is not there.
    #[default]
    Anything,
    /// The key has this value.
    Exactly(T),
}

impl<T> Expected<T> {
    /// Returns the value in another form.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Expected<U> {
        match self {
            Self::Anything => Expected::Anything,
            Self::Exactly(value) => Expected::Exactly(convert(value)),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Expected<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::Exactly)
    }
}

/// Collects differences, key by key.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    compared: usize,
    differences: Vec<String>,
}

impl Comparison {
    /// Compares the value of a key.
    pub(crate) fn key<T: PartialEq + Debug>(
        &mut self,
        key: &str,
        expected: &Expected<T>,
        actual: &T,
    ) {
        let Expected::Exactly(expected) = expected else {
            return;
        };
        self.compared += 1;
        if expected != actual {
            self.differences.push(format!(
                "{key}\n      expected {expected:?}\n      found    {actual:?}"
            ));
        }
    }

    /// Compares an error's text, `None` being success.
    pub(crate) fn error(&mut self, expected: &Expected<Option<ErrorText>>, actual: Option<&str>) {
        let Expected::Exactly(expected) = expected else {
            return;
        };
        self.compared += 1;
        let same = match (expected, actual) {
            (None, None) => true,
            (Some(expected), Some(actual)) => expected.matches(actual),
            _ => false,
        };
        if !same {
            let expected = expected
                .as_ref()
                .map_or_else(|| "success".to_owned(), ToString::to_string);
            self.differences.push(format!(
                "error\n      expected {expected}\n      found    {actual:?}"
            ));
        }
    }

    /// Compares events, in order; of each expected one only the keys that are there.
    pub(crate) fn events(&mut self, expected: &Expected<Vec<Event>>, actual: &[Event]) {
        let Expected::Exactly(expected) = expected else {
            return;
        };
        self.compared += 1;
        let same = expected.len() == actual.len()
            && expected.iter().zip(actual).all(|(e, a)| e.matches(a));
        if !same {
            self.differences.push(format!(
                "events\n      expected {expected:?}\n      found    {actual:?}"
            ));
        }
    }

    /// Adds differences that no case permits, whether or not it has a key for them.
    pub(crate) fn forbid(&mut self, what: impl IntoIterator<Item = String>) {
        self.differences.extend(what);
    }

    /// Returns `Ok` if the case passed.
    ///
    /// # Errors The differences; or that there was nothing to compare.
    pub(crate) fn conclude(self) -> Result<()> {
        if !self.differences.is_empty() {
            bail!("{}", self.differences.join("\n    "));
        }
        if self.compared == 0 {
            bail!("expect: nothing in it can be compared");
        }
        Ok(())
    }
}
