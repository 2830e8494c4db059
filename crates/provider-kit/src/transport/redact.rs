//! Redaction of requests and answers for logs (INV-5).

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const HIDDEN: &str = "[redacted]";
/// Words in the name of a header or field that holds a secret.
const SECRET_WORDS: [&str; 7] = [
    "authorization",
    "cookie",
    "token",
    "password",
    "secret",
    "private_key",
    "api-key",
];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns a header's value, unless it is secret.
pub(super) fn header<'a>(name: &HeaderName, value: &'a HeaderValue) -> &'a str {
    if value.is_sensitive() || is_secret(name.as_str()) {
        HIDDEN
    } else {
        value.to_str().unwrap_or("[not text]")
    }
}

/// Returns all headers, with secret values hidden.
pub(super) fn headers(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), header(name, value)))
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

/// Returns the text without the signatures of requests (`signature="…"`, `Signature=…`), which some clouds repeat when they
/// refuse them. A signature is valid for some minutes.
pub(super) fn signatures(text: &str) -> String {
    const NAME: &str = "signature=";
    // Only ASCII letters change, so that all positions stay the same.
    let lower = text.to_ascii_lowercase();
    let mut safe = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices(NAME) {
        let after = at + NAME.len();
        let value = text
            .get(after..)
            .unwrap_or_default()
            .trim_start_matches(['\\', '"', '\'']);
        let begin = text.len() - value.len();
        let ends =
            |c: char| c.is_whitespace() || ['"', '\\', '\'', '&', ',', ';', '<'].contains(&c);
        let end = begin + value.find(ends).unwrap_or(value.len());
        if at < done || end == begin {
            continue;
        }
        safe.push_str(text.get(done..begin).unwrap_or_default());
        safe.push_str(HIDDEN);
        done = end;
    }
    safe.push_str(text.get(done..).unwrap_or_default());
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_that_a_cloud_repeats_are_hidden() {
        for (text, expected) in [
            (
                r#"header: Signature version="1",signature="aG/k+Q==" is wrong"#,
                r#"header: Signature version="1",signature="[redacted]" is wrong"#,
            ),
            (
                r#"{"message":"algorithm=\"rsa\",signature=\"aG/k\""}"#,
                r#"{"message":"algorithm=\"rsa\",signature=\"[redacted]\""}"#,
            ),
            (
                "?AccessKeyId=a&Signature=aG%2Bk&Version=2, Signature=00ff",
                "?AccessKeyId=a&Signature=[redacted]&Version=2, Signature=[redacted]",
            ),
            (
                "the signature= is missing, ü",
                "the signature= is missing, ü",
            ),
            ("signature=", "signature="),
        ] {
            assert_eq!(signatures(text), expected);
        }
    }

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
