//! Signatures of Alibaba Cloud: ACS3-HMAC-SHA256 in headers, and version 1.0 with HMAC-SHA1 in the query.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cloud_provider::{Error, Result};
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provider_kit::signing::{
    AwsCredentials as Keys, canonical_headers, canonical_query, hmac_sha256, sha256_hex,
};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::ExposeSecret;

const ALGORITHM: &str = "ACS3-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-acs-date");
const NONCE: HeaderName = HeaderName::from_static("x-acs-signature-nonce");
const CONTENT: HeaderName = HeaderName::from_static("x-acs-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-acs-security-token");
const ACTION: HeaderName = HeaderName::from_static("x-acs-action");
const VERSION: HeaderName = HeaderName::from_static("x-acs-version");
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a random text that no other request has.
///
/// # Errors
/// *Other*, without random numbers.
pub(crate) fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::other("the system has no random numbers"))?;
    Ok(hex(&bytes))
}

/// Returns the time in the form of signatures: `2026-11-23T08:00:00Z`.
fn date(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn value(text: &str, is_secret: bool) -> Result<HeaderValue> {
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| Error::invalid("a credential has characters that no HTTP header can carry"))?;
    value.set_sensitive(is_secret);
    Ok(value)
}

/// Signs a request with ACS3-HMAC-SHA256.
///
/// # Errors
/// *Invalid* if a header cannot carry a part of the credential.
pub(crate) fn sign(request: &mut Request<Bytes>, keys: &Keys, now: Timestamp) -> Result<()> {
    sign_with(request, keys, now, &nonce()?)
}

fn sign_with(request: &mut Request<Bytes>, keys: &Keys, now: Timestamp, nonce: &str) -> Result<()> {
    let host = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned())
        .unwrap_or_default();
    let hash = sha256_hex(request.body());
    let headers = request.headers_mut();
    for (name, text) in [
        (HOST, &*host),
        (DATE, &date(now)),
        (NONCE, nonce),
        (CONTENT, &hash),
    ] {
        headers.insert(name, value(text, false)?);
    }
    if let Some(token) = &keys.session_token {
        headers.insert(TOKEN, value(token.expose_secret(), true)?);
    }
    let is_signed =
        |name: &str| name == "host" || name == "content-type" || name.starts_with("x-acs-");
    let (lines, names) = canonical_headers(request.headers(), is_signed);
    let query = canonical_query(request.uri().query().unwrap_or_default());
    let canonical = format!("{}\n/\n{query}\n{lines}\n{names}\n{hash}", request.method());
    let text = format!("{ALGORITHM}\n{}", sha256_hex(canonical.as_bytes()));
    let signature = hex(&hmac_sha256(
        keys.secret_key.expose_secret().as_bytes(),
        text.as_bytes(),
    ));
    let id = &keys.access_key;
    let header = format!("{ALGORITHM} Credential={id},SignedHeaders={names},Signature={signature}");
    request
        .headers_mut()
        .insert(AUTHORIZATION, value(&header, true)?);
    Ok(())
}

/// Signs a request with version 1.0, which old private clouds require: action and signature are parameters of the query.
///
/// # Errors
/// *Other* if the request has no valid address afterwards.
pub(crate) fn sign_legacy(request: &mut Request<Bytes>, keys: &Keys, now: Timestamp) -> Result<()> {
    sign_legacy_with(request, keys, now, &nonce()?)
}

fn sign_legacy_with(
    request: &mut Request<Bytes>,
    keys: &Keys,
    now: Timestamp,
    nonce: &str,
) -> Result<()> {
    let header = |name: HeaderName| {
        request
            .headers()
            .get(name)
            .and_then(|header| header.to_str().ok())
            .unwrap_or_default()
    };
    let date = date(now);
    let token = keys
        .session_token
        .as_ref()
        .map(|secret| ("SecurityToken", secret.expose_secret()));
    let action_headers = [
        ("Action", header(ACTION)),
        ("Version", header(VERSION)),
        ("Format", "JSON"),
        ("AccessKeyId", &*keys.access_key),
        ("SignatureMethod", "HMAC-SHA1"),
        ("SignatureVersion", "1.0"),
        ("SignatureNonce", nonce),
        ("Timestamp", &date),
    ];
    let action_headers = action_headers
        .into_iter()
        .chain(token)
        .map(|(key, text)| format!("{key}={}", encoded(text)));
    let query = action_headers
        .chain(request.uri().query().map(str::to_owned))
        .collect::<Vec<_>>()
        .join("&");
    let form = std::str::from_utf8(request.body())
        .unwrap_or_default()
        .replace('+', "%20");
    let mut pairs: Vec<_> = query
        .split('&')
        .chain(form.split('&'))
        .filter(|part| !part.is_empty())
        .collect();
    pairs.sort_unstable();
    let text = format!("{}&%2F&{}", request.method(), encoded(&pairs.join("&")));
    let secret = format!("{}&", keys.secret_key.expose_secret());
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()).as_ref());
    let mut parts = request.uri().clone().into_parts();
    let path = format!("/?{query}&Signature={}", encoded(&signature));
    parts.path_and_query = Some(
        path.parse()
            .map_err(|_| Error::other("a signed request has no valid address"))?,
    );
    *request.uri_mut() = Uri::from_parts(parts)
        .map_err(|_| Error::other("a signed request has no valid address"))?;
    request.headers_mut().remove(ACTION);
    request.headers_mut().remove(VERSION);
    Ok(())
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns the time at which a request with these headers was signed.
pub(crate) fn signed_at(request: &HeaderMap) -> Option<Timestamp> {
    request.get(DATE)?.to_str().ok()?.parse().ok()
}

/// Returns `true` if a request with these headers was signed with these keys.
pub(crate) fn have_signed(keys: &Keys, request: &HeaderMap) -> bool {
    let text = |name| {
        request
            .get(name)
            .and_then(|header: &HeaderValue| header.to_str().ok())
            .unwrap_or_default()
    };
    let token = keys
        .session_token
        .as_ref()
        .map_or("", |secret| secret.expose_secret());
    text(AUTHORIZATION).contains(&format!("Credential={},", keys.access_key))
        && text(TOKEN) == token
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(token: Option<&str>) -> Keys {
        let access_key = "YourAccessKeyId".to_owned();
        let secret_key = "YourAccessKeySecret".to_owned().into();
        Keys {
            access_key,
            secret_key,
            session_token: token.map(|token| token.to_owned().into()),
        }
    }

    /// The example that Alibaba Cloud publishes for signature V3.
    #[test]
    fn the_published_example_of_acs3_is_signed_as_published() {
        let uri = "http://ecs.cn-shanghai.aliyuncs.com/?ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai";
        let mut request = Request::post(uri).body(Bytes::new()).unwrap();
        request
            .headers_mut()
            .insert(ACTION, "RunInstances".parse().unwrap());
        request
            .headers_mut()
            .insert(VERSION, "2014-05-26".parse().unwrap());
        let now = "2023-10-26T10:22:32Z".parse().unwrap();
        sign_with(
            &mut request,
            &keys(None),
            now,
            "3156853299f313e23d1673dc12e1703d",
        )
        .unwrap();
        let signed = request.headers()[AUTHORIZATION].to_str().unwrap();
        let expected = "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0";
        assert!(signed.ends_with(expected), "{signed}");
        assert_eq!(signed_at(request.headers()), Some(now));
        assert!(
            have_signed(&keys(None), request.headers())
                && !have_signed(&keys(Some("x")), request.headers())
        );
    }

    /// The example that Alibaba Cloud publishes for signature 1.0.
    #[test]
    fn the_published_example_of_version_one_is_signed_as_published() {
        let mut request = Request::get("http://ecs.aliyuncs.com/?RegionId=cn-beijing")
            .body(Bytes::new())
            .unwrap();
        request
            .headers_mut()
            .insert(ACTION, "DescribeDedicatedHosts".parse().unwrap());
        request
            .headers_mut()
            .insert(VERSION, "2014-05-26".parse().unwrap());
        let keys = Keys {
            access_key: "testid".into(),
            secret_key: "testsecret".to_owned().into(),
            session_token: None,
        };
        sign_legacy_with(
            &mut request,
            &keys,
            "2023-03-13T08:34:30Z".parse().unwrap(),
            "edb2b34af0af9a6d14deaf7c1a5315eb",
        )
        .unwrap();
        let query = request.uri().query().unwrap();
        assert!(
            query.contains("&Signature=9NaGiOspFP5UPcwX8Iwt2YJXXuk%3D"),
            "{query}"
        );
    }
}
