//! IDs of requests in the messages of errors.

use std::borrow::Cow;

/// Returns the text without the IDs of requests, so that two attempts which fail alike have equal texts. A request ID
/// stands behind the name of its header: `… (x-request-id 7f3a)`.
///
/// ```
/// let first = "quota exceeded (x-correlation-id 7f3a); delete one";
/// let second = "quota exceeded (x-correlation-id 81bb); delete one";
/// assert_eq!(cloud_provider::without_request_ids(first), cloud_provider::without_request_ids(second));
/// assert_eq!(cloud_provider::without_request_ids("load balancer (id 7)"), "load balancer (id 7)");
/// ```
#[must_use]
pub fn without_request_ids(text: &str) -> Cow<'_, str> {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, length)) = next_request_id(rest) {
        kept.push_str(&rest[..before]);
        rest = &rest[before + length..];
    }
    if kept.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Returns the start and the length of the first ` (HEADER ID)` in a text.
fn next_request_id(text: &str) -> Option<(usize, usize)> {
    text.match_indices(" (").find_map(|(start, opening)| {
        let inside = &text[start + opening.len()..];
        let inside = &inside[..inside.find(')')?];
        let (name, id) = inside.split_once(' ')?;
        let is_id = is_header_of_request_id(name) && !id.is_empty() && !id.contains(' ');
        is_id.then(|| (start, opening.len() + inside.len() + 1))
    })
}

/// Returns `true` for names such as `x-request-id`, `x-amzn-requestid` and `x-correlation-id`.
fn is_header_of_request_id(name: &str) -> bool {
    let is_header = name.contains('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_header
        && name.ends_with("id")
        && ["request", "correlation"]
            .iter()
            .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_of_all_headers_are_removed_and_other_parentheses_stay() {
        for header in [
            "x-correlation-id",
            "x-amzn-requestid",
            "x-ms-correlation-request-id",
            "opc-request-id",
            "x-request-id",
        ] {
            let text = format!("no quota (5 of 5) ({header} a-1); retried ({header} b2)");
            assert_eq!(without_request_ids(&text), "no quota (5 of 5); retried");
        }
        for other in [
            "load balancer (id 7)",
            "(x-request-id",
            "a (x-request-id two words)",
            "a (x-volume-id 7)",
            "",
        ] {
            assert!(
                matches!(without_request_ids(other), Cow::Borrowed(text) if text == other),
                "{other}"
            );
        }
    }
}
