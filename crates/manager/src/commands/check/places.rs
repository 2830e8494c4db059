//! Line numbers of findings. Parsed objects have no line numbers, so the lines are searched for the names in a finding.

use std::collections::BTreeMap;

use serde_json::Value;

/// The lines of a document. Line numbers of its objects are looked up in their order.
pub(super) struct Places<'a> {
    lines: Vec<&'a str>,
    /// Number of the first line, starting at 1.
    first: usize,
    /// Number of occurrences of each field in the objects so far.
    seen: BTreeMap<String, usize>,
}

/// The lines of one object's annotations, ports and source ranges.
pub(super) struct Place {
    /// Names that a finding may contain, with their lines.
    named: Vec<(Named, usize)>,
    /// Line where the document begins.
    start: usize,
}

enum Named {
    /// The finding's text contains this key.
    Key(String),
    /// The finding's text begins with this port.
    Port(u64),
}

impl<'a> Places<'a> {
    pub(super) fn new(lines: Vec<&'a str>, first: usize) -> Self {
        Self {
            lines,
            first,
            seen: BTreeMap::new(),
        }
    }

    /// Finds the lines of the next object.
    pub(super) fn of(&mut self, object: &Value) -> Place {
        let mut named = Vec::new();
        let annotations = object
            .pointer("/metadata/annotations")
            .and_then(Value::as_object);
        for key in annotations.into_iter().flat_map(serde_json::Map::keys) {
            let line = self.next(key, |line| is_field(line, key) || is_inner_field(line, key));
            named.push((Named::Key(key.clone()), line));
        }
        if object.pointer("/spec/loadBalancerSourceRanges").is_some() {
            let key = "loadBalancerSourceRanges";
            let line = self.next(key, |line| line.contains(key));
            named.push((Named::Key(key.to_owned()), line));
        }
        let ports = object.pointer("/spec/ports").and_then(Value::as_array);
        for port in ports
            .into_iter()
            .flatten()
            .filter_map(|port| port["port"].as_u64())
        {
            let field = format!("port {port}");
            let line = self.next(&field, |line| {
                is_field_with(line, "port", &port.to_string())
            });
            named.push((Named::Port(port), line));
        }
        let is_content = |line: &&str| !line.trim().is_empty() && !is_comment(line);
        let start = self.lines.iter().position(is_content).unwrap_or_default();
        Place {
            named,
            start: self.first + start,
        }
    }

    /// Finds the line of a field, skipping the occurrences in earlier objects. Returns the first line of the document
    /// if there is none.
    fn next(&mut self, field: &str, is_field: impl Fn(&str) -> bool) -> usize {
        let seen = self.seen.entry(field.to_owned()).or_default();
        let mut lines = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !is_comment(line) && is_field(line))
            .map(|(index, _)| index);
        let line = lines.nth(*seen).unwrap_or_default();
        *seen += 1;
        self.first + line
    }
}

impl Place {
    /// Returns the line of a finding.
    pub(super) fn line(&self, text: &str) -> usize {
        let port = text.strip_prefix("port ").map(|rest| {
            rest.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
        });
        let lower = text.to_ascii_lowercase();
        // Of the keys named first, the longest: a key may be the beginning of another.
        let position = |named: &Named| match named {
            Named::Key(key) => lower
                .find(&key.to_ascii_lowercase())
                .map(|at| (at, usize::MAX - key.len())),
            Named::Port(number) => {
                (port.as_deref() == Some(&*number.to_string())).then_some((0, 0))
            }
        };
        let best = self
            .named
            .iter()
            .filter_map(|(named, line)| Some((position(named)?, *line)))
            .min();
        best.map_or(self.start, |(_, line)| line)
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns `true` for a field within braces.
fn is_inner_field(line: &str, key: &str) -> bool {
    ["", "\"", "'"]
        .iter()
        .any(|quote| line.contains(&format!("{key}{quote}:")))
}

/// Returns `true` for `key: …`, with or without quotes, and as the first field of an item.
fn is_field(line: &str, key: &str) -> bool {
    value_of(line, key).is_some()
}

fn is_field_with(line: &str, key: &str, value: &str) -> bool {
    value_of(line, key).is_some_and(|found| found.split([' ', ',', '}', '#']).next() == Some(value))
        || line.contains(&format!("{{{key}: {value},"))
        || line.contains(&format!("{{{key}: {value}}}"))
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let line = line.trim_start().trim_start_matches("- ").trim_start();
    let quote = line
        .chars()
        .next()
        .filter(|character| ['"', '\''].contains(character));
    let rest = match quote {
        Some(quote) => line
            .strip_prefix(quote)?
            .strip_prefix(key)?
            .strip_prefix(quote)?,
        None => line.strip_prefix(key)?,
    };
    rest.trim_start().strip_prefix(':').map(str::trim)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: &str = "\
kind: List
items:
- metadata:
    annotations:
      acme/type: a
      \"acme/type-of-port\": b
  spec:
    ports:
    - port: 80
    - name: dns
      port: 53
- metadata:
    annotations: {acme/type: c}
  spec:
    loadBalancerSourceRanges: [x]
    ports:
    - {port: 80}
";

    #[test]
    fn findings_stand_at_the_line_of_what_they_name() {
        let mut places = Places::new(LIST.lines().collect(), 11);
        let spec = |ports: &[u16]| json!({"ports": ports.iter().map(|port| json!({"port": port})).collect::<Vec<_>>()});
        let keys = json!({"annotations": {"acme/type": "a", "acme/type-of-port": "b"}});
        let first = places.of(&json!({"metadata": keys, "spec": spec(&[80, 53])}));
        let mut second =
            json!({"metadata": {"annotations": {"acme/type": "c"}}, "spec": spec(&[80])});
        second["spec"]["loadBalancerSourceRanges"] = json!(["x"]);
        let second = places.of(&second);
        for (text, line) in [
            ("annotation acme/type: \"a\" is not", 15),
            (
                "annotation acme/type-of-port: \"b\" is not, beside acme/type",
                16,
            ),
            ("port 53: protocol \"SCTP\" is not", 21),
            ("port 80/UDP is not served", 19),
            ("the Service has no ports", 11),
        ] {
            assert_eq!(first.line(text), line, "{text}");
        }
        for (text, line) in [
            ("annotation acme/type: \"c\" is not", 23),
            (
                "service.Spec.LoadBalancerSourceRanges: [x] is not valid",
                25,
            ),
            ("port 80/UDP is not served", 27),
        ] {
            assert_eq!(second.line(text), line, "{text}");
        }
    }
}
