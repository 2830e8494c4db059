//! Configuration files in JSON or YAML, read as the Go programs of the vendors read theirs.
//!
//! * A key that no setting has in this spelling is compared without regard to case; the exact spelling takes precedence.
//! * A number or a truth value is accepted where a text is expected.
//! * A value of another type is refused with file, line, column and key, and with what is accepted.
//! * A key that nothing reads causes a warning.
//!
//! ```
//! use cloud_provider::ConfigFile;
//! use provider_kit::document::Document;
//!
//! #[derive(Debug, Default, serde::Deserialize)]
//! #[serde(default, rename_all = "camelCase")]
//! struct File { subscription_id: String, port: u16 }
//!
//! let file = |text: &str| Document::of(&ConfigFile { path: "cloud.json".into(), text: text.into() });
//! let read = file("{\"subscriptionID\": 17}")?.read::<File>()?;
//! assert_eq!(read.subscription_id, "17");
//! let error = file("subscriptionId: a\nport: many\n")?.read::<File>().unwrap_err();
//! assert_eq!(error.to_string(), "cloud.json:2:7: port must be a whole number from 0 to 65535, not a text");
//! # Ok::<(), cloud_provider::Error>(())
//! ```

mod places;
mod reader;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;

use cloud_provider::{ConfigFile, Environment, Error, Result, closest};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::places::Places;
pub use self::reader::fields;
use self::reader::{Reader, Unknown};
use crate::declared::Declared;

/// A file that is parsed, but whose keys are not read yet. Its messages quote no values, which may be secrets (INV-5).
#[derive(Clone)]
pub struct Document {
    path: String,
    values: Map<String, Value>,
    places: Places,
}

impl Document {
    /// Parses a file in JSON or YAML. An empty file has no keys.
    ///
    /// # Errors
    /// *Invalid* if the text is neither JSON nor YAML, or if it has no keys at its top.
    pub fn of(file: &ConfigFile) -> Result<Self> {
        let ConfigFile { path, text } = file;
        let (value, places) = places::parse(text).map_err(|place| {
            Error::invalid(format!(
                "{path}{place}: the text is neither valid JSON nor valid YAML"
            ))
        })?;
        match value {
            Value::Object(values) => Ok(Self {
                path: path.clone(),
                values,
                places,
            }),
            Value::Null => Ok(Self {
                path: path.clone(),
                values: Map::new(),
                places,
            }),
            _ => Err(Error::invalid(format!(
                "{path}: expected keys with values, such as `key: value`"
            ))),
        }
    }

    /// Returns the document of the file, or an empty one if there is no file.
    ///
    /// # Errors
    /// Those of [`of`](Self::of).
    pub fn of_option(file: Option<&ConfigFile>) -> Result<Self> {
        let none = || Self::from_values("no configuration file", Map::new());
        file.map_or_else(|| Ok(none()), Self::of)
    }

    /// Returns a document of these values, whose places are not known.
    #[must_use]
    pub fn from_values(path: &str, values: Map<String, Value>) -> Self {
        Self {
            path: path.to_owned(),
            values,
            places: Places::default(),
        }
    }

    /// Returns the values at the top.
    #[must_use]
    pub fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Removes the values at the top that `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.values.retain(|key, value| keep(key, value));
    }

    /// Gives the keys at the top the spelling in `known`, and returns those that are not known with a warning for each.
    pub fn spell(&mut self, known: &[&str]) -> Vec<Unspelt> {
        let mut unknown = Vec::new();
        let spelt = reader::spelt(&self.values, known, |key| unknown.push(key.to_owned()));
        let mut values: Map<String, Value> = spelt
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        let warned: Vec<_> = unknown
            .into_iter()
            .map(|key| Unspelt {
                warning: self.warning(&key, known),
                key,
            })
            .collect();
        for Unspelt { key, .. } in &warned {
            values.extend(
                self.values
                    .get(key)
                    .map(|value| (key.clone(), value.clone())),
            );
        }
        self.values = values;
        warned
    }

    /// Reads the values into `T`, and logs the keys that `T` does not have.
    ///
    /// # Errors
    /// *Invalid*, with file, line, column, key and what is accepted.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let (value, warnings) = self.read_with_warnings()?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        Ok(value)
    }

    /// Reads the values into `T`, and returns a warning for each key that `T` does not have.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_with_warnings<T: DeserializeOwned>(&self) -> Result<(T, Vec<String>)> {
        let unknown = RefCell::new(Vec::new());
        let root = Value::Object(self.values.clone());
        let read = T::deserialize(Reader::new(&root, &unknown));
        let value = read.map_err(|wrong| {
            let key = if wrong.path.is_empty() {
                "the file"
            } else {
                &wrong.path
            };
            Error::invalid(format!(
                "{}{}: {key} {}",
                self.path,
                self.places.of(&wrong.path),
                wrong.text
            ))
        })?;
        let warning = |Unknown { path, known }: Unknown| self.warning(&path, known);
        Ok((
            value,
            unknown.into_inner().into_iter().map(warning).collect(),
        ))
    }

    /// Returns the `declared` keys below `section`, or at the top if it is empty, as texts with their declared names.
    /// Logs the keys that are neither declared nor `inert`.
    ///
    /// # Errors
    /// *Invalid* if the section has no keys, or if a key has a list or keys of its own.
    pub fn texts(
        &self,
        section: &str,
        declared: &[&[&dyn Declared]],
        inert: &[&str],
    ) -> Result<Environment> {
        let prefix = if section.is_empty() {
            String::new()
        } else {
            format!("{section}.")
        };
        let names: Vec<&str> = declared
            .iter()
            .flat_map(|list| list.iter())
            .map(|key| key.row().key)
            .collect();
        let known: Vec<&str> = names
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix))
            .chain(inert.iter().copied())
            .collect();
        let Some(values) = self.section(section)? else {
            return Ok(Environment::default());
        };
        let warn =
            |key: &str| tracing::warn!("{}", self.warning(&format!("{prefix}{key}"), &known));
        let mut texts = BTreeMap::new();
        for (key, value) in reader::spelt(values, &known, warn) {
            let name = format!("{prefix}{key}");
            match value {
                Value::Null => {}
                _ if inert.contains(&key) => {}
                Value::String(text) => _ = texts.insert(name, text.clone()),
                Value::Array(_) | Value::Object(_) => {
                    let kind = reader::kind(value);
                    let place = self.places.of(&name);
                    return Err(Error::invalid(format!(
                        "{}{place}: {name} must be a text, not {kind}",
                        self.path
                    )));
                }
                scalar => _ = texts.insert(name, scalar.to_string()),
            }
        }
        Ok(Environment::of(texts))
    }

    fn section(&self, section: &str) -> Result<Option<&Map<String, Value>>> {
        if section.is_empty() {
            return Ok(Some(&self.values));
        }
        let warn = |key: &str| tracing::warn!("{}", self.warning(key, &[section]));
        match reader::spelt(&self.values, &[section], warn)
            .into_iter()
            .next()
        {
            None | Some((_, Value::Null)) => Ok(None),
            Some((_, Value::Object(values))) => Ok(Some(values)),
            Some(_) => {
                let place = self.places.of(section);
                Err(Error::invalid(format!(
                    "{}{place}: {section} must be keys with values",
                    self.path
                )))
            }
        }
    }

    fn warning(&self, path: &str, known: &[&str]) -> String {
        let key = path.rsplit('.').next().unwrap_or(path);
        let hint = closest(key, known).map_or_else(
            || ": nothing reads it".to_owned(),
            |meant| format!(": did you mean {meant}?"),
        );
        format!(
            "{}{}: unknown key {path}{hint}",
            self.path,
            self.places.of(path)
        )
    }
}

/// A key that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unspelt {
    /// The key as it is written.
    pub key: String,
    /// The warning, with file, line and column.
    pub warning: String,
}
