//! Label selectors (equality and set-based) and field selectors.

use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

use crate::resources::Resource;
use crate::status::ApiError;
use crate::store::Stored;

/// Selection of a list or watch: namespace, labels and fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    namespace: Option<String>,
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug, Clone, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone, PartialEq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
struct HeadMeta {
    #[serde(default)]
    labels: HashMap<String, String>,
}

impl Selector {
    /// Reads both selectors.
    ///
    /// # Errors
    ///
    /// 400 with the real server's wording if one does not parse or names a field that cannot be selected by.
    pub(crate) fn new(
        resource: &Resource,
        namespace: Option<&str>,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, ApiError> {
        let labels = labels.map(parse_labels).transpose()?.unwrap_or_default();
        let fields = fields
            .map(|text| parse_fields(resource, text))
            .transpose()?
            .unwrap_or_default();
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels,
            fields,
        })
    }

    /// Returns `true` if the selector restricts labels or fields.
    pub(crate) fn is_selective(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Returns `true` if the object is selected.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        if let Some(namespace) = &self.namespace {
            let Some((of, _)) = stored.key.split_once('/') else {
                return false;
            };
            if of != namespace {
                return false;
            }
        }
        self.labels_match(stored) && self.fields_match(stored)
    }

    fn labels_match(&self, stored: &Stored) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let Ok(head) = serde_json::from_slice::<Head>(&stored.body) else {
            return false;
        };
        self.labels
            .iter()
            .all(|requirement| requirement.matches(head.metadata.labels.get(&requirement.key)))
    }

    fn fields_match(&self, stored: &Stored) -> bool {
        let (namespace, name) = stored.key.split_once('/').unwrap_or(("", &stored.key));
        let mut parsed: Option<Value> = None;
        self.fields.iter().all(|requirement| {
            let equal = match requirement.path.as_str() {
                "metadata.name" => requirement.value == name,
                "metadata.namespace" => requirement.value == namespace,
                path => {
                    field_text(parsed.get_or_insert_with(|| stored.value()), path)
                        == requirement.value
                }
            };
            equal == requirement.equal
        })
    }
}

impl Requirement {
    fn matches(&self, value: Option<&String>) -> bool {
        let number = |value: &String| value.parse::<i64>().ok();
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater(bound) => value.and_then(number).is_some_and(|value| value > *bound),
            Operator::Less(bound) => value.and_then(number).is_some_and(|value| value < *bound),
        }
    }
}

/// Returns the field at a dotted path, as text; what is not set is empty.
fn field_text(value: &Value, path: &str) -> String {
    let path = match path {
        // Selectors of both event APIs use the core names.
        "source" => "source.component",
        other => other,
    };
    let mut at = value;
    for part in path.split('.') {
        at = &at[part];
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Null if path == "spec.unschedulable" => "false".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn supported(resource: &Resource, path: &str) -> bool {
    let supported_fields: &[&str] = match resource.plural {
        "nodes" => &["spec.unschedulable"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "services" => &["spec.clusterIP", "spec.type"],
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        _ => &[],
    };
    let namespaced = path == "metadata.namespace" && resource.namespaced;
    // The core kinds accept metadata.namespace only where it exists; Nodes, Namespaces and volumes refuse it.
    path == "metadata.name" || namespaced || supported_fields.contains(&path)
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldRequirement>, ApiError> {
    let mut out = Vec::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = term.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = term.split_once('=') {
            (path, value, true)
        } else {
            return Err(ApiError::bad_request(format!(
                "invalid selector: '{term}'; can't understand '{term}'"
            )));
        };
        if !supported(resource, path) {
            let known = resource.group.is_empty()
                && resource.plural != "configmaps"
                && resource.plural != "serviceaccounts";
            let message = match resource.plural {
                "nodes" | "pods" | "secrets" | "namespaces" | "events" | "services" if known => {
                    format!("field label not supported: {path}")
                }
                _ => format!(
                    "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ),
            };
            return Err(ApiError::bad_request(message));
        }
        out.push(FieldRequirement {
            path: path.to_owned(),
            value: value.to_owned(),
            equal,
        });
    }
    Ok(out)
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, ApiError> {
    LabelParser {
        tokens: tokens(text),
        at: 0,
    }
    .selector()
    .map_err(ApiError::bad_request)
}

struct LabelParser {
    tokens: Vec<String>,
    at: usize,
}

const OPERATORS: [&str; 8] = ["=", "==", "!=", "in", "notin", "gt", "lt", ">"];

impl LabelParser {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        let token = self.peek().to_owned();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        if self.tokens.is_empty() {
            return Ok(out);
        }
        loop {
            out.push(
                self.requirement()
                    .map_err(|e| format!("unable to parse requirement: {e}"))?,
            );
            match self.take().as_str() {
                "" => return Ok(out),
                "," if self.peek() != "" => {}
                "," => return Err("found ',', expected: identifier after ','".to_owned()),
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.at += 1;
        }
        let key = self.take();
        if matches!(key.as_str(), "" | "," | "(" | ")" | "=" | "==" | "!=" | "!") {
            return Err(format!(
                "found '{key}', expected: !, identifier, or 'end of string'"
            ));
        }
        if let Some(problem) = crate::validation::names::qualified_name(&key).first() {
            return Err(format!("<nil>: Invalid value: {key:?}: {problem}"));
        }
        if absent {
            return Ok(Requirement {
                key,
                operator: Operator::Absent,
            });
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement {
                key,
                operator: Operator::Exists,
            });
        }
        let operator = self.operator(&key)?;
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, String> {
        let token = self.take();
        match token.as_str() {
            "=" | "==" => Ok(Operator::In(vec![self.exact(key)?])),
            "!=" => Ok(Operator::NotIn(vec![self.exact(key)?])),
            "in" => Ok(Operator::In(self.values(key)?)),
            "notin" => Ok(Operator::NotIn(self.values(key)?)),
            "gt" | ">" => Ok(Operator::Greater(self.bound()?)),
            "lt" | "<" => Ok(Operator::Less(self.bound()?)),
            other => Err(format!(
                "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let text = self.take();
        text.parse().map_err(|_| {
            format!("values[0]: Invalid value: {text:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn exact(&mut self, key: &str) -> Result<String, String> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.take();
        if OPERATORS.contains(&value.as_str())
            && !matches!(value.as_str(), "in" | "notin" | "gt" | "lt")
        {
            return Err(format!("found '{value}', expected: identifier"));
        }
        check_value(key, 0, &value)?;
        Ok(value)
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        let open = self.take();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut out = Vec::new();
        loop {
            let token = self.take();
            match token.as_str() {
                ")" => {
                    if out.is_empty() {
                        out.push(String::new());
                    }
                    return Ok(out);
                }
                "," => {}
                "" => return Err("found '', expected: ',', or identifier".to_owned()),
                value => {
                    check_value(key, out.len(), value)?;
                    out.push(value.to_owned());
                }
            }
        }
    }
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), String> {
    match crate::validation::names::label_value(value).first() {
        Some(problem) => Err(format!(
            "values[{index}][{key}]: Invalid value: {value:?}: {problem}"
        )),
        None => Ok(()),
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        match c {
            c if c.is_whitespace() => {
                chars.next();
            }
            '(' | ')' | ',' | '>' | '<' => {
                out.push(c.to_string());
                chars.next();
            }
            '=' | '!' => {
                chars.next();
                let mut token = c.to_string();
                if chars.peek() == Some(&'=') {
                    token.push('=');
                    chars.next();
                }
                out.push(token);
            }
            _ => {
                let mut word = String::new();
                while let Some(&c) = chars.peek() {
                    if c.is_whitespace() || "(),=!<>".contains(c) {
                        break;
                    }
                    word.push(c);
                    chars.next();
                }
                out.push(word);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: &Value) -> bool {
        let body = json!({"metadata": {"name": "a", "labels": labels}}).to_string();
        let stored = Stored {
            key: "a".into(),
            revision: 1,
            body: body.into(),
        };
        let nodes = crate::resources::by_plural("nodes").unwrap();
        Selector::new(nodes, None, Some(selector), None)
            .unwrap()
            .matches(&stored)
    }

    #[test]
    fn label_selectors_select() {
        for (selector, wanted) in [
            ("a=1", true),
            ("a==1,b!=2", true),
            ("a!=1", false),
            ("a in (1, 3)", true),
            ("a notin (1)", false),
            ("c notin (1)", true),
            ("a", true),
            ("!a", false),
            ("!c", true),
            ("a>0", true),
            ("a<1", false),
            ("c=", false),
            ("a,!c", true),
        ] {
            assert_eq!(
                selects(selector, &json!({"a": "1", "b": "3"})),
                wanted,
                "{selector}"
            );
        }
    }

    #[test]
    fn a_selector_that_does_not_parse_is_refused_in_the_real_wording() {
        assert_eq!(
            parse_labels("a b").unwrap_err().message,
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
    }
}
