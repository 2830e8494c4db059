//! The places of values in a file.

use std::collections::HashMap;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Span, Spanned};

/// Lines and columns of values, by the path of their keys in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(HashMap<String, (u64, u64)>);

impl Places {
    /// Returns the place of a value as `:line:column`; an empty text if it is not known.
    pub(super) fn of(&self, path: &str) -> String {
        let place = self.0.get(&path.to_ascii_lowercase());
        place.map_or_else(String::new, |(line, column)| format!(":{line}:{column}"))
    }
}

/// Returns the path of a key below another one.
pub(super) fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Parses a text in JSON or YAML; an empty one is null.
///
/// # Errors
/// The place of the mistake, as [`Places::of`] writes it: the parser's message may quote a secret.
pub(super) fn parse(text: &str) -> Result<(Value, Places), String> {
    if text.trim().is_empty() {
        return Ok((Value::Null, Places::default()));
    }
    let parsed: Spanned<Node> = serde_saphyr::from_str(text).map_err(|error| {
        error.location().map_or_else(String::new, |place| {
            format!(":{}:{}", place.line(), place.column())
        })
    })?;
    let mut places = Places::default();
    let value = value(parsed, "", text, &mut places);
    Ok((value, places))
}

/// A value whose parts have places.
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Keys(Vec<(String, Spanned<Node>)>),
}

/// Returns a truth value, or the text of a word such as `n` or `on`, which a Go program takes as a text where it expects
/// one.
fn truth(truth: bool, text: &str, span: Span) -> Value {
    let [start, length] =
        [span.offset(), span.len()].map(|count| usize::try_from(count).unwrap_or_default());
    let word: String = text.chars().skip(start).take(length).collect();
    match word.trim() {
        "" | "true" | "false" => truth.into(),
        word => word.into(),
    }
}

fn value(node: Spanned<Node>, path: &str, text: &str, places: &mut Places) -> Value {
    let Spanned {
        value: parsed,
        referenced,
        ..
    } = node;
    places.0.insert(
        path.to_ascii_lowercase(),
        (referenced.line(), referenced.column()),
    );
    match parsed {
        Node::Scalar(Value::Bool(is_true)) => truth(is_true, text, referenced.span()),
        Node::Scalar(scalar) => scalar,
        Node::List(items) => {
            let items = items.into_iter().enumerate();
            Value::Array(
                items
                    .map(|(index, item)| value(item, &format!("{path}[{index}]"), text, places))
                    .collect(),
            )
        }
        Node::Keys(keys) => {
            let keys = keys.into_iter().map(|(key, item)| {
                let item = value(item, &below(path, &key), text, places);
                (key, item)
            });
            Value::Object(keys.collect::<Map<_, _>>())
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Scalar(truth.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Scalar(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Scalar(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Scalar(
            Number::from_f64(number).map_or(Value::Null, Value::Number),
        ))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Scalar(text.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut keys = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            keys.push(entry);
        }
        Ok(Node::Keys(keys))
    }
}
