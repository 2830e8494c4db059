//! The pieces that signature schemes are made of: digests, and requests in canonical form.

use http::HeaderMap;
use ring::{digest, hmac};

/// Returns the SHA-256 digest of `data` in lower-case hexadecimal digits.
///
/// ```
/// assert!(provider_kit::signing::sha256_hex(b"").starts_with("e3b0c44298fc1c14"));
/// ```
#[must_use]
pub fn sha256_hex(data: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, data).as_ref())
}

/// Returns the HMAC-SHA-256 of `data` with `key`.
#[must_use]
pub fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// Returns `bytes` in lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the parameters of a query, which must be percent-encoded already, sorted by name and value.
///
/// ```
/// use provider_kit::signing::canonical_query;
///
/// assert_eq!(canonical_query("b=2&a=2&a=1&flag"), "a=1&a=2&b=2&flag=");
/// ```
#[must_use]
pub fn canonical_query(query: &str) -> String {
    let parameters = query.split('&').filter(|part| !part.is_empty());
    let mut parameters: Vec<(&str, &str)> = parameters
        .map(|parameters| parameters.split_once('=').unwrap_or((parameters, "")))
        .collect();
    parameters.sort_unstable();
    parameters
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join("&")
}

/// Returns the selected headers, one `name:value` line each, and their names joined by `;`. Names are in lower case and
/// sorted; runs of spaces in a value become one space.
#[must_use]
pub fn canonical_headers(
    headers: &HeaderMap,
    is_signed: impl Fn(&str) -> bool,
) -> (String, String) {
    let mut names: Vec<&str> = headers
        .keys()
        .map(http::HeaderName::as_str)
        .filter(|name| is_signed(name))
        .collect();
    names.sort_unstable();
    let values = |name: &str| {
        let values = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let collapsed =
            values.map(|value| value.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        collapsed.collect::<Vec<_>>().join(",")
    };
    let lines = names
        .iter()
        .map(|name| format!("{name}:{}\n", values(name)))
        .collect();
    (lines, names.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_are_collapsed_joined_and_sorted_by_name() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-b", "2"),
            ("host", "example.com"),
            ("x-a", "  a   b  c "),
            ("x-b", "1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        headers.insert("user-agent", "not signed".parse().unwrap());
        let (lines, names) = canonical_headers(&headers, |name| name != "user-agent");
        assert_eq!(
            (&*lines, &*names),
            ("host:example.com\nx-a:a b c\nx-b:2,1\n", "host;x-a;x-b")
        );
    }
}
