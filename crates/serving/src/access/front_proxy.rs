//! Authentication by a front proxy's headers (APP-123).

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::certificate::Subject;
use super::client_cas::Proxies;
use super::user::User;
use crate::options::RequestHeaderOptions;

/// Returns the user that a trusted proxy names, if any.
///
/// # Errors
/// Why the proxy is not trusted.
pub(super) fn authenticate(
    proxies: &Proxies,
    chain: &[CertificateDer<'_>],
    headers: &HeaderMap,
    now: UnixTime,
) -> Result<Option<User>, String> {
    proxies.bundle.verify(chain, now)?;
    let name = Subject::of(chain)?.common_name;
    let allowed = &proxies.headers.allowed_names;
    if !allowed.is_empty() && !allowed.contains(&name) {
        return Err(format!(
            "x509: subject with cn={name} is not in the allowed list"
        ));
    }
    Ok(user(&proxies.headers, headers))
}

fn user(options: &RequestHeaderOptions, headers: &HeaderMap) -> Option<User> {
    let first = |names: &[String]| names.iter().flat_map(|name| values(headers, name)).next();
    Some(User {
        name: first(&options.username_headers)?,
        uid: first(&options.uid_headers).unwrap_or_default(),
        groups: options
            .group_headers
            .iter()
            .flat_map(|name| values(headers, name))
            .collect(),
        extra: extra(&options.extra_prefixes, headers),
    })
}

fn values(headers: &HeaderMap, name: &str) -> impl Iterator<Item = String> {
    // A name that is no header's name is in no request.
    headers
        .get_all(name.to_ascii_lowercase())
        .iter()
        .filter_map(text)
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
}

/// Decodes `%XX` codes; a key whose bytes are not UTF-8 stays as it is.
fn decoded(key: &str) -> String {
    percent_decode_str(key)
        .decode_utf8()
        .map_or_else(|_| key.to_owned(), Cow::into_owned)
}

/// Names need not be ASCII.
fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}

fn extra(prefixes: &[String], headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for prefix in prefixes {
        let prefix = prefix.to_ascii_lowercase();
        for (name, value) in headers {
            if let (Some(key), Some(value)) = (name.as_str().strip_prefix(&prefix), text(value)) {
                // Keys may hold what a header's name may not (`example.com%2fteam`).
                extra
                    .entry(decoded(key))
                    .or_default()
                    .push(value.to_owned());
            }
        }
    }
    extra
}

/// Removes the proxy's headers after they were used, so that no handler relies on them.
pub(super) fn strip(options: &RequestHeaderOptions, headers: &mut HeaderMap) {
    for name in options
        .username_headers
        .iter()
        .chain(&options.uid_headers)
        .chain(&options.group_headers)
    {
        headers.remove(name.to_ascii_lowercase());
    }
    let prefixes: Vec<_> = options
        .extra_prefixes
        .iter()
        .map(|prefix| prefix.to_ascii_lowercase())
        .collect();
    let is_extra = |name: &&http::HeaderName| {
        prefixes
            .iter()
            .any(|prefix| name.as_str().starts_with(prefix))
    };
    let extra: Vec<_> = headers.keys().filter(is_extra).cloned().collect();
    for name in extra {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_first_name_counts_and_all_groups() {
        let options = RequestHeaderOptions {
            username_headers: vec!["X-Missing".into(), "X-Remote-User".into()],
            uid_headers: vec!["X-Remote-Uid".into()],
            ..RequestHeaderOptions::default()
        };
        let given = headers(&[
            ("x-remote-user", "jane"),
            ("x-remote-user", "joe"),
            ("x-remote-uid", "17"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-example.com%2fteam", "red"),
            ("x-remote-extra-scopes", "x"),
            ("x-remote-extra-scopes", "y"),
            ("x-other", "stays"),
        ]);
        let user = user(&options, &given).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "17"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra["example.com/team"], ["red"]);
        assert_eq!(user.extra["scopes"], ["x", "y"]);

        let mut given = given;
        strip(&options, &mut given);
        assert_eq!(given, headers(&[("x-other", "stays")]));
    }

    #[test]
    fn names_need_not_be_ascii() {
        let bytes = |text: &str| HeaderValue::from_bytes(text.as_bytes()).unwrap();
        let mut given = HeaderMap::new();
        given.insert("x-remote-user", bytes("jürgen"));
        given.insert("x-remote-group", bytes("бухгалтерия"));
        let user = user(&RequestHeaderOptions::default(), &given).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("jürgen", vec!["бухгалтерия".to_owned()])
        );
    }

    #[test]
    fn a_proxy_that_names_nobody_says_nothing() {
        let given = headers(&[("x-remote-user", ""), ("x-remote-group", "a")]);
        assert_eq!(user(&RequestHeaderOptions::default(), &given), None);
    }
}
