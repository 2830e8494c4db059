//! Label selectors for the Nodes that are targets, in the syntax of `kubectl --selector`.
//!
//! The embedded API server parses selectors too, with the error messages of kube-apiserver. It must not depend on this
//! project, so that it stays an independent check; hence there are two parsers.

use std::sync::Arc;

use cloud_provider::{Node, StringMap};

use crate::declared::{Kind, Value};
use crate::labels::{is_value, is_word};

/// Operators of a requirement, longest first, so that `==` is not parsed as `=`.
const OPERATORS: [&str; 5] = ["==", "!=", "=", ">", "<"];

/// A Kubernetes label selector, equality-based and set-based. The empty selector selects every Node.
///
/// ```
/// use cloud_provider::Node;
/// use provider_kit::node_selector::NodeSelector;
///
/// let node: Node = serde_json::from_str(r#"{"metadata": {"name": "a", "labels": {"env": "prod", "tier": "web"}}}"#)?;
/// let selects = |text| NodeSelector::parse(text).is_ok_and(|selector| selector.matches(&node.labels));
/// assert!(selects("env=prod,tier in (web, api),!spot"));
/// assert!(!selects("env!=prod"));
/// assert_eq!(NodeSelector::parse("env prod").unwrap_err(),
///     "\"env prod\" is not of the form key, !key, key=value, key!=value, key in (a, b) or key notin (a, b)");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl NodeSelector {
    /// Parses a label selector.
    ///
    /// # Errors
    /// A message that names the part that cannot be parsed, and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        requirements(text)?
            .into_iter()
            .map(|part| Requirement::parse(part.trim()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns `true` if a Node with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.test.matches(labels.get(&requirement.key)))
    }

    /// Returns the Nodes that are selected.
    #[must_use]
    pub fn select(&self, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
        nodes
            .iter()
            .filter(|node| self.matches(&node.labels))
            .cloned()
            .collect()
    }

    /// Returns `true` if every Node is selected.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl Value for NodeSelector {
    const KIND: Kind<Self> = Kind::explained(
        "a label selector such as `env=prod,tier in (web, api)`",
        Self::parse,
    );
}

/// Splits a selector at the commas that are not in parentheses.
fn requirements(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '(' if !is_inside => is_inside = true,
            ')' if is_inside => is_inside = false,
            '(' | ')' => return Err(format!("{text:?} has one parenthesis too many")),
            ',' if !is_inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    if is_inside {
        Err(format!("{text:?} lacks a closing parenthesis"))
    } else {
        Ok(parts)
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(key) = text.strip_prefix('!') {
            return Ok(Self {
                key: label_key(key.trim())?,
                test: Test::Absent,
            });
        }
        let end = text
            .find(|c: char| c.is_whitespace() || "=!<>(".contains(c))
            .unwrap_or(text.len());
        let key = label_key(&text[..end])?;
        let rest = text[end..].trim();
        let test = if rest.is_empty() {
            Test::Exists
        } else {
            Test::parse(rest).ok_or_else(|| no_form(text))??
        };
        Ok(Self { key, test })
    }
}

fn no_form(text: &str) -> String {
    format!(
        "{text:?} is not of the form key, !key, key=value, key!=value, key in (a, b) or key notin (a, b)"
    )
}

impl Test {
    /// Parses the text after the key; `None` if it is not an operator with its value.
    fn parse(text: &str) -> Option<Result<Self, String>> {
        if let Some(values) = text.strip_prefix("notin") {
            return list(values).map(|values| values.map(Self::NotIn));
        }
        if let Some(values) = text.strip_prefix("in") {
            return list(values).map(|values| values.map(Self::In));
        }
        let operator = OPERATORS
            .into_iter()
            .find(|operator| text.starts_with(operator))?;
        let value = text[operator.len()..].trim();
        Some(match operator {
            "!=" => label_value(value).map(|value| Self::NotIn(vec![value])),
            ">" => bound(value).map(Self::Above),
            "<" => bound(value).map(Self::Below),
            _ => label_value(value).map(|value| Self::In(vec![value])),
        })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let is_in =
            |values: &[String]| value.is_some_and(|value| values.iter().any(|text| text == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => is_in(values),
            Self::NotIn(values) => !is_in(values),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Parses `(a, b)`; `()` is the empty value, as for the API server.
fn list(text: &str) -> Option<Result<Vec<String>, String>> {
    let values = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some(
        values
            .split(',')
            .map(|value| label_value(value.trim()))
            .collect(),
    )
}

fn bound(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a whole number"))
}

/// Checks a label key of the form `[prefix/]name`.
fn label_key(text: &str) -> Result<String, String> {
    let (prefix, name) = text
        .split_once('/')
        .map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let is_domain =
        |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(|part| is_word(part, "-"));
    if !name.is_empty() && is_value(name) && prefix.is_none_or(is_domain) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a label key"))
}

fn label_value(text: &str) -> Result<String, String> {
    if is_value(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a label value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    #[test]
    fn selectors_select_like_kubectl() {
        let node = labels(&[("a", "1"), ("b", "3"), ("example.com/zone", "x-1")]);
        let table = [
            ("", true),
            (" ", true),
            ("a=1", true),
            ("a = 1", true),
            ("a==1,b!=2", true),
            ("a=1,b=2", false),
            ("a!=1", false),
            ("c!=1", true),
            ("a in (1, 3)", true),
            ("a in(2,3)", false),
            ("a notin (1)", false),
            ("c notin (1)", true),
            ("a", true),
            ("c", false),
            ("!a", false),
            ("! c", true),
            ("a>0", true),
            ("a<1", false),
            ("c>0", false),
            ("c=", false),
            ("c in ()", false),
            ("a,!c", true),
            ("example.com/zone in (x-1,x-2),a", true),
        ];
        for (text, expected) in table {
            assert_eq!(
                NodeSelector::parse(text).map(|selector| selector.matches(&node)),
                Ok(expected),
                "{text:?}"
            );
        }
    }

    #[test]
    fn invalid_part_of_a_selector_is_named() {
        let form = "is not of the form key, !key, key=value, key!=value, key in (a, b) or key notin (a, b)";
        let table = [
            ("a b", format!("\"a b\" {form}")),
            ("a in 1", format!("\"a in 1\" {form}")),
            (
                "a in (1",
                "\"a in (1\" lacks a closing parenthesis".to_owned(),
            ),
            (
                "a in (1))",
                "\"a in (1))\" has one parenthesis too many".to_owned(),
            ),
            ("a,", "\"\" is not a label key".to_owned()),
            ("=1", "\"\" is not a label key".to_owned()),
            ("-a", "\"-a\" is not a label key".to_owned()),
            ("x/y/z", "\"x/y/z\" is not a label key".to_owned()),
            ("a=b c", "\"b c\" is not a label value".to_owned()),
            ("a=b_", "\"b_\" is not a label value".to_owned()),
            ("a>x", "\"x\" is not a whole number".to_owned()),
        ];
        for (text, expected) in table {
            assert_eq!(NodeSelector::parse(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn empty_selector_selects_all_nodes() {
        assert!(NodeSelector::parse("").is_ok_and(|selector| selector.selects_all()));
        assert!(NodeSelector::parse("a").is_ok_and(|selector| !selector.selects_all()));
    }
}
