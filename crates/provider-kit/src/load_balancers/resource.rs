//! Typed resources: one serde struct is the wire form, the desired state and the observed state of a cloud object.
//!
//! A table of [`Field`]s beside the struct tells how each field changes. The engine compares the serialized values, so
//! it is compiled once for all resource types, and providers never repeat a field's name as text.
//!
//! ```
//! use provider_kit::annotations::Annotation;
//! use provider_kit::declared::Value;
//! use provider_kit::load_balancers::{Attributes, Field, Resource};
//! use serde::{Deserialize, Serialize};
//!
//! const LIMIT: Annotation<u32> = Annotation::new("acme.example/connection-limit", u32::KIND, "Connections at once.");
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Listener {
//!     port: u16,
//!     connection_limit: Option<u32>,
//!     status: Option<String>,
//! }
//!
//! impl Resource for Listener {
//!     const FIELDS: &'static [Field] =
//!         &[Field::create_only("port"), Field::update("connection_limit").setting(&LIMIT), Field::observed("status")];
//! }
//!
//! let observed = Listener { port: 443, connection_limit: Some(10), status: Some("ONLINE".into()) };
//! let desired = Listener { port: 443, connection_limit: Some(20), status: None };
//! let differences = Attributes::desired(&desired)?.differences(&Attributes::observed(&observed)?);
//! assert_eq!(differences.len(), 1);
//! assert_eq!(differences[0].to_string(), "acme.example/connection-limit: 10 → 20");
//! assert_eq!(Listener::undeclared_fields(&observed)?, Vec::<String>::new());
//! # Ok::<(), cloud_provider::Error>(())
//! ```

use std::fmt::Debug;

use cloud_provider::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Attributes;
use super::attributes::{put, sorted_set};
use crate::annotations::Annotations;
use crate::declared::Declaration;

/// A cloud object that the engine compares: a serde struct and the table of its fields.
pub trait Resource: Serialize {
    /// Every field of the serialized struct, by its place in it: `health_check.http.path` for a nested one.
    const FIELDS: &'static [Field];

    /// Returns the places in the serialized form of `sample` that [`FIELDS`](Self::FIELDS) does not name, and the fields that
    /// `sample` does not have. A provider's test calls it with a fully populated value and expects an empty list.
    ///
    /// # Errors
    /// *Other*, if `sample` does not serialize to a JSON object.
    fn undeclared_fields(sample: &Self) -> Result<Vec<String>>
    where
        Self: Sized,
    {
        let mut places = Vec::new();
        collect_places(&object(sample)?, "", Self::FIELDS, &mut places);
        let has = |field: &&Field| !places.iter().any(|place| place == field.place);
        let missing = Self::FIELDS
            .iter()
            .filter(has)
            .map(|field| format!("{} (not in the sample)", field.place));
        let unnamed = places
            .iter()
            .filter(|place| !Self::FIELDS.iter().any(|field| field.place == **place))
            .cloned();
        Ok(unnamed.chain(missing).collect())
    }
}

/// A field of a resource, and the meaning of a difference in it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub(super) place: &'static str,
    pub(super) rule: Rule,
    pub(super) setting: Option<&'static str>,
    filled_by: Option<&'static dyn FieldSetting>,
    is_unordered: bool,
    null_removes: bool,
}

/// The meaning of a difference in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The field is changed in place.
    Update,
    /// The field counts only when the resource is created. An auxiliary resource is replaced when it differs.
    CreateOnly,
    /// The field is read only, and never compared.
    Observed,
    /// The field is a list of listeners, each a part of its own; with the places of port and protocol in an element.
    Listeners {
        port: &'static str,
        protocol: &'static str,
    },
}

impl Field {
    const fn new(place: &'static str, rule: Rule) -> Self {
        Self {
            place,
            rule,
            setting: None,
            filled_by: None,
            is_unordered: false,
            null_removes: false,
        }
    }

    /// Declares a field that is changed in place.
    #[must_use]
    pub const fn update(place: &'static str) -> Self {
        Self::new(place, Rule::Update)
    }

    /// Declares a field that counts only when the resource is created. On the load balancer and on pools, a difference
    /// is ignored; any other resource is deleted and created again.
    #[must_use]
    pub const fn create_only(place: &'static str) -> Self {
        Self::new(place, Rule::CreateOnly)
    }

    /// Declares a field that the cloud sets: it is read and kept, and never part of a difference.
    #[must_use]
    pub const fn observed(place: &'static str) -> Self {
        Self::new(place, Rule::Observed)
    }

    /// Declares a list of listeners in an object that is written as a whole. Each element becomes a part of its own,
    /// known by its port and transport protocol. `port` and `protocol` are fields of an element.
    #[must_use]
    pub const fn listeners(
        place: &'static str,
        port: &'static str,
        protocol: &'static str,
    ) -> Self {
        Self::new(place, Rule::Listeners { port, protocol })
    }

    /// Names the setting that sets the field: `plan`, drift and events call the field by the setting's key.
    #[must_use]
    pub const fn setting<T>(self, setting: &Declaration<T>) -> Self {
        Self {
            setting: Some(setting.key()),
            ..self
        }
    }

    /// Like [`setting`](Self::setting), and [`filled`] takes the field's value from the annotation, unchanged.
    #[must_use]
    pub const fn filled_by<T: Serialize + Sync + Debug>(
        self,
        setting: &'static Declaration<T>,
    ) -> Self {
        Self {
            filled_by: Some(setting),
            ..self.setting(setting)
        }
    }

    /// Marks the field as a list whose order does not matter.
    #[must_use]
    pub const fn unordered_list(self) -> Self {
        Self {
            is_unordered: true,
            ..self
        }
    }

    /// Gives `null` in the desired state the meaning "remove the value". Without this, `null` makes no statement, and
    /// the field stays as it is.
    #[must_use]
    pub const fn null_removes(self) -> Self {
        Self {
            null_removes: true,
            ..self
        }
    }

    /// Returns the key of the setting that sets the field.
    #[must_use]
    pub const fn setting_key(&self) -> Option<&'static str> {
        self.setting
    }

    pub(super) fn value_in(&self, object: &Value) -> Option<Value> {
        let value = self
            .place
            .split('.')
            .try_fold(object, |value, name| value.get(name))?;
        Some(if self.is_unordered {
            sorted_set(value.clone())
        } else {
            value.clone()
        })
    }
}

/// A setting whose value a field can take.
trait FieldSetting: Sync + Debug {
    fn value(&self, annotations: &mut Annotations<'_>) -> Option<Value>;
}

impl<T: Serialize + Sync + Debug> FieldSetting for Declaration<T> {
    fn value(&self, annotations: &mut Annotations<'_>) -> Option<Value> {
        serde_json::to_value(annotations.get(self)?).ok()
    }
}

/// Reads the annotations that [fill](Field::filled_by) fields. All other fields have their defaults, for which the resource
/// needs `#[serde(default)]`.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::annotations::{Annotation, Annotations};
/// use provider_kit::declared::Value;
/// use provider_kit::load_balancers::{Field, Resource, filled};
/// use serde::{Deserialize, Serialize};
///
/// const LIMIT: Annotation<u32> = Annotation::new("acme.example/limit", u32::KIND, "Connections at once.").default("100");
///
/// #[derive(Default, Serialize, Deserialize)]
/// #[serde(default)]
/// struct Balancer { name: String, limit: Option<u32> }
///
/// impl Resource for Balancer {
///     const FIELDS: &'static [Field] = &[Field::update("name"), Field::update("limit").filled_by(&LIMIT)];
/// }
///
/// let service = Service::default();
/// let mut annotations = Annotations::of(&service);
/// let balancer = Balancer { name: "web".to_owned(), ..filled(&mut annotations) };
/// assert_eq!(balancer.limit, Some(100));
/// ```
pub fn filled<R: Resource + DeserializeOwned + Default>(annotations: &mut Annotations<'_>) -> R {
    let mut object = Map::new();
    for field in R::FIELDS {
        let value = field
            .filled_by
            .and_then(|setting| setting.value(annotations));
        value
            .into_iter()
            .for_each(|value| put(&mut object, field.place, value));
    }
    serde_json::from_value(object.into()).unwrap_or_else(|err| {
        annotations.mistake(format!("the annotations do not make a resource: {err}"));
        R::default()
    })
}

impl Attributes {
    /// Returns the desired state of one resource. A field that is `null` or not serialized makes no statement, unless
    /// it [clears](Field::null_removes); observed fields are left out.
    ///
    /// # Errors
    /// *Other*, if the resource does not serialize to a JSON object.
    pub fn desired<R: Resource>(resource: &R) -> Result<Self> {
        Ok(desired_of(&object(resource)?, R::FIELDS))
    }

    /// Returns the observed state of one resource: every field that is not `null`.
    ///
    /// # Errors
    /// *Other*, if the resource does not serialize to a JSON object.
    pub fn observed<R: Resource>(resource: &R) -> Result<Self> {
        Ok(observed_of(&object(resource)?, R::FIELDS))
    }
}

pub(super) fn desired_of(object: &Value, fields: &'static [Field]) -> Attributes {
    let stated = fields
        .iter()
        .filter(|field| matches!(field.rule, Rule::Update | Rule::CreateOnly));
    let values = stated.filter_map(|field| {
        let value = field.value_in(object)?;
        (!value.is_null() || field.null_removes).then_some((field.place, value))
    });
    Attributes::of_fields(values, fields)
}

pub(super) fn observed_of(object: &Value, fields: &'static [Field]) -> Attributes {
    let plain = fields
        .iter()
        .filter(|field| !matches!(field.rule, Rule::Listeners { .. }));
    let values = plain.filter_map(|field| Some((field.place, field.value_in(object)?)));
    Attributes::of_fields(values.filter(|(_, value)| !value.is_null()), fields)
}

pub(super) fn object(resource: &impl Serialize) -> Result<Value> {
    match serde_json::to_value(resource) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(other) => Err(Error::other(format!(
            "a resource must be a JSON object, not {other}"
        ))),
        Err(err) => Err(Error::other(format!(
            "a resource cannot be written as JSON: {err}"
        ))),
    }
}

fn collect_places(value: &Value, prefix: &str, fields: &[Field], places: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let place = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match value {
            Value::Object(_) if !fields.iter().any(|field| field.place == place) => {
                collect_places(value, &place, fields, places);
            }
            _ => places.push(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Monitor {
        kind: &'static str,
        path: Option<&'static str>,
        codes: Vec<u16>,
        timing: Timing,
        id: Option<&'static str>,
    }

    #[derive(Serialize)]
    struct Timing {
        delay: Option<u16>,
    }

    impl Resource for Monitor {
        const FIELDS: &'static [Field] = &[
            Field::create_only("kind"),
            Field::update("path").null_removes(),
            Field::update("codes").unordered_list(),
            Field::update("timing.delay"),
            Field::observed("id"),
        ];
    }

    const WANTED: Monitor = Monitor {
        kind: "HTTP",
        path: None,
        codes: Vec::new(),
        timing: Timing { delay: None },
        id: None,
    };

    fn differences(wanted: &Monitor, seen: &Monitor) -> Vec<String> {
        let wanted = Attributes::desired(wanted).unwrap();
        let seen = Attributes::observed(seen).unwrap();
        wanted
            .differences(&seen)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_field_without_a_statement_stays_as_it_is() {
        let seen = Monitor {
            path: Some("/up"),
            timing: Timing { delay: Some(5) },
            id: Some("m-1"),
            ..WANTED
        };
        assert_eq!(
            differences(&WANTED, &seen),
            ["path: /up → none"],
            "delay is not stated, path is cleared"
        );
        let slower = Monitor {
            path: Some("/up"),
            timing: Timing { delay: Some(9) },
            ..WANTED
        };
        assert_eq!(differences(&slower, &seen), ["timing.delay: 5 → 9"]);
    }

    #[test]
    fn a_list_that_is_a_set_is_compared_without_its_order() {
        let wanted = Monitor {
            codes: vec![301, 200],
            ..WANTED
        };
        let seen = Monitor {
            codes: vec![200, 301],
            ..WANTED
        };
        assert!(differences(&wanted, &seen).is_empty());
    }

    #[test]
    fn a_field_of_the_creation_makes_no_difference_in_place() {
        let wanted = WANTED;
        let seen = Monitor {
            kind: "TCP",
            ..WANTED
        };
        assert!(differences(&wanted, &seen).is_empty());
        let wanted = Attributes::desired(&wanted).unwrap();
        let seen = Attributes::observed(&seen).unwrap();
        assert!(wanted.differs_in_fixed(&seen));
    }

    #[test]
    fn a_field_without_a_rule_and_a_rule_without_a_field_are_found() {
        #[derive(Serialize)]
        struct Odd {
            colour: u8,
        }
        impl Resource for Odd {
            const FIELDS: &'static [Field] = &[Field::update("color")];
        }
        assert_eq!(
            Odd::undeclared_fields(&Odd { colour: 1 }).unwrap(),
            ["colour", "color (not in the sample)"]
        );
        assert_eq!(
            Monitor::undeclared_fields(&WANTED).unwrap(),
            Vec::<String>::new()
        );
    }
}
