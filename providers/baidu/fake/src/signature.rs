//! The check of signatures: bce-auth-v1.

use fake_cloud::Refused;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ring::hmac;

use crate::{ApiRequest, KEY, SECRET, TEMPORARY};

const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const KEPT_IN_PATH: &AsciiSet = &KEPT.remove(b'/');

/// The headers that are signed if a signature does not name them.
const DEFAULT: [&str; 4] = ["host", "content-length", "content-type", "content-md5"];

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

fn mac(key: &str, text: &str) -> String {
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()),
        text.as_bytes(),
    );
    tag.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Checks the signature of a request, or the token of the CCE add-on, which is [`SECRET`] here.
pub(crate) fn check(request: &ApiRequest) -> Result<(), Refused> {
    if request.header("cce-token") == Some(SECRET) && request.header("cce-cluster").is_some() {
        let is_product = request
            .header("cce-remote-host")
            .is_some_and(|host| host.ends_with(".baidubce.com"));
        return if is_product {
            Ok(())
        } else {
            Err(Refused::new(400, "InvalidHTTPRequest", "cce-remote-host"))
        };
    }
    let broken = |code: &'static str, status| {
        Refused::new(status, code, "The request is not signed correctly.")
    };
    let header = request.header("authorization").unwrap_or_default();
    let parts: Vec<_> = header.split('/').collect();
    let ["bce-auth-v1", id, date, validity, names, signature] = parts[..] else {
        return Err(broken("InvalidHTTPAuthHeader", 400));
    };
    let secret = match (id, request.header("x-bce-security-token")) {
        (KEY, None) => SECRET,
        (id, token) if id == TEMPORARY[0] && token == Some(TEMPORARY[2]) => TEMPORARY[1],
        _ => return Err(broken("InvalidAccessKeyId", 403)),
    };
    let mut names: Vec<_> = names.split(';').filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        let is_signed = |name: &&str| DEFAULT.contains(name) || name.starts_with("x-bce-");
        names = request
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(is_signed)
            .collect();
    }
    let is_whole = ["host", "x-bce-date"]
        .iter()
        .all(|name| names.contains(name));
    let mut headers: Vec<_> = names
        .iter()
        .filter_map(|name| Some(format!("{name}:{}", encoded(request.header(name)?.trim()))))
        .collect();
    headers.sort();
    let mut query: Vec<_> = request
        .query
        .iter()
        .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
        .collect();
    query.sort();
    let path = percent_decode_str(&request.path).decode_utf8_lossy();
    let path = utf8_percent_encode(&path, KEPT_IN_PATH);
    let method = request.route.split(' ').next().unwrap_or_default();
    let canonical = format!(
        "{method}\n{path}\n{}\n{}",
        query.join("&"),
        headers.join("\n")
    );
    let key = mac(secret, &format!("bce-auth-v1/{id}/{date}/{validity}"));
    if is_whole && mac(&key, &canonical) == signature {
        Ok(())
    } else {
        Err(broken("SignatureDoesNotMatch", 400))
    }
}
