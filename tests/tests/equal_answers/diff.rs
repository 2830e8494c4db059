//! Differences between two answers, for a person to read.

use serde_json::Value;

/// Returns a line for each path at which the values differ: `path: expected …, got …`.
pub(crate) fn differences(expected: &Value, got: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", expected, got, &mut lines);
    lines
}

fn compare(path: &str, expected: &Value, got: &Value, lines: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match right.get(key) {
                    Some(other) => compare(&path, value, other, lines),
                    None => lines.push(format!("{path}: expected {}, got nothing", short(value))),
                }
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                lines.push(format!("{path}: expected nothing, got {}", short(value)));
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for (index, (value, other)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}/{index}"), value, other, lines);
            }
            for (index, value) in left.iter().enumerate().skip(right.len()) {
                lines.push(format!(
                    "{path}/{index}: expected {}, got nothing",
                    short(value)
                ));
            }
            for (index, value) in right.iter().enumerate().skip(left.len()) {
                lines.push(format!(
                    "{path}/{index}: expected nothing, got {}",
                    short(value)
                ));
            }
        }
        _ if expected == got => {}
        _ => lines.push(format!(
            "{}: expected {}, got {}",
            if path.is_empty() { "/" } else { path },
            short(expected),
            short(got)
        )),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
