//! Redaction of requests and answers for logs (INV-5).

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const HIDDEN: &str = "[redacted]";
/// Words in the name of a header or field that holds a secret.
const SECRET_WORDS: [&str; 7] = ["authorization", "cookie", "token", "password", "secret", "private_key", "api-key"];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns a header's value, unless it is secret.
pub(super) fn header<'a>(name: &HeaderName, value: &'a HeaderValue) -> &'a str {
    if value.is_sensitive() || is_secret(name.as_str()) { HIDDEN } else { value.to_str().unwrap_or("[not text]") }
}

/// Returns all headers, with secret values hidden.
pub(super) fn headers(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), header(name, value)))
}

/// Returns a body, with the values of secret fields hidden.
pub(super) fn body(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            hide(&mut value);
            value.to_string()
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if is_secret(name) => HIDDEN.clone_into(text),
                    // `{"token": {"id": …}}`: the token itself.
                    Value::Object(inner) if is_secret(name) => {
                        inner.entry("id").and_modify(|id| *id = HIDDEN.into());
                        hide(value);
                    }
                    value => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_fields_are_hidden_wherever_they_are() {
        let sent =
            br#"{"certificates":[{"private_key":"k","name":"n"}],"root_password":"p","token":{"id":"t","end":7}}"#;
        assert_eq!(
            body(sent),
            r#"{"certificates":[{"name":"n","private_key":"[redacted]"}],"root_password":"[redacted]","token":{"end":7,"id":"[redacted]"}}"#
        );
        assert_eq!(body(b"plain"), "plain");
    }
}
