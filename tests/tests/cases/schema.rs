//! Fields that several suites share. A field that is not known is an error, wherever it is.

use std::fmt;

use anyhow::{Result, anyhow, ensure};
use cloud_provider::{AddressType, Node, NodeAddress, Service, Taint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reads a part of a case; errors name the field by its path from `part`.
///
/// # Errors
/// An unknown field, a missing one, or a value of another type.
pub(crate) fn read<T: DeserializeOwned>(part: &str, value: &Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let place = match (part, path.as_str()) {
            ("", ".") => String::new(),
            (part, ".") => format!("{part}: "),
            ("", path) => format!("{path}: "),
            (part, path) => format!("{part}.{path}: "),
        };
        anyhow!("{place}{}", error.into_inner())
    })
}

/// Takes the function's name out of `given` of a suite that tests several.
///
/// # Errors
/// If it is missing or no text.
pub(crate) fn take_function(given: &mut Value) -> Result<String> {
    match given.as_object_mut().and_then(|given| given.remove("fn")) {
        Some(Value::String(function)) => Ok(function),
        Some(other) => Err(anyhow!("given.fn: {other} is no text")),
        None => Err(anyhow!("given.fn: is missing")),
    }
}

/// Returns the error for a function that a suite does not have.
pub(crate) fn unknown_function(function: &str, known: &str) -> anyhow::Error {
    anyhow!("given.fn: unknown function {function:?}; known are {known}")
}

/// An object of the API before and after a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) old: Value,
    pub(crate) new: Value,
}

/// The text of an expected error, whole or in part.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawErrorText")]
pub(crate) struct ErrorText {
    text: Option<String>,
    contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawErrorText {
    text: Option<String>,
    contains: Option<String>,
}

impl TryFrom<RawErrorText> for ErrorText {
    type Error = &'static str;

    fn try_from(RawErrorText { text, contains }: RawErrorText) -> Result<Self, Self::Error> {
        if text.is_none() && contains.is_none() {
            return Err("an expected error has `text` or `contains`");
        }
        Ok(Self { text, contains })
    }
}

impl ErrorText {
    pub(crate) fn matches(&self, actual: &str) -> bool {
        self.text.as_ref().is_none_or(|text| text == actual)
            && self
                .contains
                .as_ref()
                .is_none_or(|part| actual.contains(part.as_str()))
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.text, &self.contains) {
            (Some(text), _) => write!(f, "{text:?}"),
            (None, part) => write!(f, "a text with {:?}", part.as_deref().unwrap_or_default()),
        }
    }
}

/// An event, expected or recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub(crate) type_: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

impl Event {
    pub(crate) fn matches(&self, actual: &Self) -> bool {
        let agree = |expected: &Option<String>, actual: &Option<String>| {
            expected.is_none() || expected == actual
        };
        agree(&self.type_, &actual.type_)
            && agree(&self.reason, &actual.reason)
            && agree(&self.message, &actual.message)
    }
}

/// An address of a Node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

impl From<Address> for NodeAddress {
    fn from(Address { kind, address }: Address) -> Self {
        Self::new(AddressType::from(&*kind), &address)
    }
}

impl From<&NodeAddress> for Address {
    fn from(address: &NodeAddress) -> Self {
        Self {
            kind: address.kind.as_str().to_owned(),
            address: address.address.to_string(),
        }
    }
}

/// Addresses as the contract has them.
pub(crate) fn node_addresses(list: Option<Vec<Address>>) -> Vec<NodeAddress> {
    list.unwrap_or_default()
        .into_iter()
        .map(NodeAddress::from)
        .collect()
}

/// Addresses as case files have them.
pub(crate) fn addresses(list: &[NodeAddress]) -> Vec<Address> {
    list.iter().map(Address::from).collect()
}

/// A taint, in API form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TaintForm {
    key: String,
    #[serde(default)]
    value: Option<String>,
    effect: String,
    #[serde(default)]
    time_added: Option<String>,
}

impl From<&TaintForm> for Taint {
    fn from(form: &TaintForm) -> Self {
        Self {
            key: form.key.as_str().into(),
            value: form.value.as_deref().unwrap_or_default().into(),
            effect: form.effect.as_str().into(),
            time_added: form.time_added.as_deref().map(Into::into),
        }
    }
}

/// Taints as the contract has them.
pub(crate) fn taints(list: &[TaintForm]) -> Vec<Taint> {
    list.iter().map(Taint::from).collect()
}

/// Refusal of a request by the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiError {
    pub(crate) kind: ApiErrorKind,
}

/// Kind of an [`ApiError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum ApiErrorKind {
    Conflict,
    NotFound,
    Forbidden,
}

/// Checks that an object of the API has no field that the API's type lacks.
///
/// # Errors
/// The first unsupported field, or a value of another type.
pub(crate) fn check_node(part: &str, node: &Value) -> Result<()> {
    check::<k8s_openapi::api::core::v1::Node>(part, node, "Node").map(drop)
}

/// Reads a Service.
///
/// # Errors
/// The first field that the API's type lacks, or a value of another type.
pub(crate) fn service(part: &str, service: &Value) -> Result<Service> {
    check(part, service, "Service")
}

/// Reads a Node.
///
/// # Errors
/// Errors of [`check_node`]; or a missing name.
pub(crate) fn node(part: &str, form: &Value) -> Result<Node> {
    check_node(part, form)?;
    let node: Node = serde_json::from_value(form.clone())?;
    ensure!(!node.name.is_empty(), "{part}.metadata.name: is missing");
    Ok(node)
}

/// Reads a list of Nodes.
///
/// # Errors
/// Errors of [`node`].
pub(crate) fn nodes(part: &str, forms: &[Value]) -> Result<Vec<Node>> {
    forms
        .iter()
        .enumerate()
        .map(|(i, form)| node(&format!("{part}[{i}]"), form))
        .collect()
}

fn check<T: DeserializeOwned + Serialize>(part: &str, object: &Value, kind: &str) -> Result<T> {
    let typed: T = read(part, object)?;
    match lost(object, &serde_json::to_value(&typed)?) {
        Some(path) => Err(anyhow!("{part}{path}: unknown field of a {kind}")),
        None => Ok(typed),
    }
}

/// Returns the path of something in `original` that `kept` does not have.
fn lost(original: &Value, kept: &Value) -> Option<String> {
    match (original, kept) {
        (Value::Object(original), Value::Object(kept)) => {
            original.iter().find_map(|(key, value)| {
                let path = match kept.get(key) {
                    Some(kept) => lost(value, kept),
                    None if value.is_null() => None,
                    None => Some(String::new()),
                };
                path.map(|path| format!(".{key}{path}"))
            })
        }
        (Value::Array(original), Value::Array(kept)) => original
            .iter()
            .zip(kept)
            .enumerate()
            .find_map(|(i, (value, kept))| lost(value, kept).map(|path| format!("[{i}]{path}"))),
        _ => None,
    }
}
