//! URLs of API servers: which are accepted, and how they are shown.

use std::net::IpAddr;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

/// Returns a URL without user and password, for logs, errors and reports.
///
/// The input is an operator's text, which need not be a URL.
///
/// ```
/// use runtime::client::shown_url;
///
/// assert_eq!(shown_url("https://admin:s3cr3t@10.0.0.1:6443/x"), "https://10.0.0.1:6443/x");
/// assert_eq!(shown_url("admin:s3/cr@3t@10.0.0.1"), "10.0.0.1");
/// assert_eq!(shown_url("https://10.0.0.1:6443"), "https://10.0.0.1:6443");
/// ```
#[must_use]
pub fn shown_url(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('@') => (format!("{scheme}://"), rest),
        _ => (String::new(), text),
    };
    // A password that is not escaped may have any character in it, so everything before the last @ counts as secret.
    let shown = rest.rsplit_once('@').map_or(rest, |(_, shown)| shown);
    format!("{scheme}{shown}")
}

/// Returns the URL of an API server as requests use it: with a scheme, and without user and password, which nothing
/// reads.
///
/// `has_tls` decides the scheme of an address without one, as in kubectl.
///
/// # Errors
/// Returns the URL, or its error without the URL itself.
pub(super) fn checked(url: &Uri, has_tls: bool) -> Result<Uri, String> {
    let scheme = match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => scheme.clone(),
        Some(_) => return Err("its scheme is neither https nor http".to_owned()),
        None if has_tls => Scheme::HTTPS,
        None => Scheme::HTTP,
    };
    let authority = url
        .authority()
        .filter(|authority| !authority.host().is_empty())
        .ok_or("it has no host")?;
    let host_and_port = authority
        .as_str()
        .rsplit_once('@')
        .map_or(authority.as_str(), |(_, host_and_port)| host_and_port);
    check_port(
        host_and_port
            .strip_prefix(authority.host())
            .unwrap_or_default(),
    )?;
    let path = url.path_and_query().map_or("/", PathAndQuery::as_str);
    let built = Uri::builder()
        .scheme(scheme)
        .authority(host_and_port)
        .path_and_query(path)
        .build();
    built.map_err(|error| error.to_string())
}

/// Checks `:6443`, or that there is no port.
pub(super) fn check_port(port: &str) -> Result<(), String> {
    match port.strip_prefix(':') {
        None | Some("") => Ok(()),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port != 0) => Ok(()),
        Some(_) => Err("its port is not a number from 1 to 65535".to_owned()),
    }
}

/// Returns `true` if requests to this URL pass over a network, unencrypted.
pub(super) fn is_open(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    url.scheme() == Some(&Scheme::HTTP)
        && host != "localhost"
        && !address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_api_servers_are_completed_or_refused() {
        let port = Err("its port is not a number from 1 to 65535");
        let table = [
            ("https://10.0.0.1:6443", false, Ok("https://10.0.0.1:6443/")),
            (
                "https://example.com/k8s/clusters/c-1",
                false,
                Ok("https://example.com/k8s/clusters/c-1"),
            ),
            (
                "https://[fd00::1]:6443/x?y=1",
                false,
                Ok("https://[fd00::1]:6443/x?y=1"),
            ),
            (
                "https://admin:s3cr3t@10.0.0.1:6443/x",
                false,
                Ok("https://10.0.0.1:6443/x"),
            ),
            ("10.0.0.1:6443", true, Ok("https://10.0.0.1:6443/")),
            ("10.0.0.1:8080", false, Ok("http://10.0.0.1:8080/")),
            ("localhost", false, Ok("http://localhost/")),
            ("https://10.0.0.1:", false, Ok("https://10.0.0.1:/")),
            (
                "https://10.0.0.1:65535",
                false,
                Ok("https://10.0.0.1:65535/"),
            ),
            ("https://10.0.0.1:65536", false, port),
            ("https://10.0.0.1:99999/x", false, port),
            ("https://u:p@10.0.0.1:99999/x", false, port),
            ("https://[fd00::1]:99999", false, port),
            ("https://10.0.0.1:0", false, port),
            ("10.0.0.1:99999", true, port),
            (
                "ftp://10.0.0.1",
                false,
                Err("its scheme is neither https nor http"),
            ),
            ("/var/run/socket", false, Err("it has no host")),
        ];
        for (text, has_tls, expected) in table {
            let checked = checked(&text.parse().unwrap(), has_tls).map(|url| url.to_string());
            assert_eq!(
                checked,
                expected.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn only_plain_http_to_another_machine_is_open() {
        let open = [
            "http://10.0.0.1",
            "http://api.example.com:8080",
            "http://[fd00::1]",
        ];
        let closed = [
            "https://10.0.0.1",
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://[::1]:1",
        ];
        for (urls, expected) in [(&open[..], true), (&closed[..], false)] {
            for url in urls {
                assert_eq!(is_open(&url.parse().unwrap()), expected, "{url}");
            }
        }
    }
}
