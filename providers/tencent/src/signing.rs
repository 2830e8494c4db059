//! The signature of API 3.0: TC3-HMAC-SHA256.

use bytes::Bytes;
use cloud_provider::{Error, Result};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use jiff::Timestamp;
use provider_kit::signing::{AwsCredentials as Keys, canonical_headers, hmac_sha256, sha256_hex};
use secrecy::ExposeSecret;

const ALGORITHM: &str = "TC3-HMAC-SHA256";
const TIMESTAMP: HeaderName = HeaderName::from_static("x-tc-timestamp");
const TOKEN: HeaderName = HeaderName::from_static("x-tc-token");
const JSON: &str = "application/json; charset=utf-8";

fn value(text: &str, is_secret: bool) -> Result<HeaderValue> {
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| Error::invalid("a credential has characters that no HTTP header can carry"))?;
    value.set_sensitive(is_secret);
    Ok(value)
}

/// Adds the time to a request, and the signature with these keys; without keys, the mark of a request that needs none.
///
/// # Errors
/// *Invalid* if a header cannot carry a part of the credential.
pub(crate) fn sign(
    request: &mut Request<Bytes>,
    product: &str,
    keys: Option<&Keys>,
    now: Timestamp,
) -> Result<()> {
    let host = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned())
        .unwrap_or_default();
    let seconds = now.as_second().to_string();
    let headers = request.headers_mut();
    for (name, text) in [(HOST, &*host), (CONTENT_TYPE, JSON), (TIMESTAMP, &seconds)] {
        headers.insert(name, value(text, false)?);
    }
    let Some(keys) = keys else {
        headers.insert(AUTHORIZATION, value("SKIP", false)?);
        return Ok(());
    };
    if let Some(token) = &keys.session_token {
        headers.insert(TOKEN, value(token.expose_secret(), true)?);
    }
    let (lines, names) = canonical_headers(request.headers(), |name| {
        name == "content-type" || name == "host"
    });
    let canonical = format!(
        "{}\n/\n\n{lines}\n{names}\n{}",
        request.method(),
        sha256_hex(request.body())
    );
    let date = now.strftime("%Y-%m-%d").to_string();
    let scope = format!("{date}/{product}/tc3_request");
    let text = format!(
        "{ALGORITHM}\n{seconds}\n{scope}\n{}",
        sha256_hex(canonical.as_bytes())
    );
    let secret = format!("TC3{}", keys.secret_key.expose_secret());
    let key = [&*date, product, "tc3_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| {
            hmac_sha256(&key, part.as_bytes()).to_vec()
        });
    let signature: String = hmac_sha256(&key, text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let id = &keys.access_key;
    let header = format!(
        "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
    );
    request
        .headers_mut()
        .insert(AUTHORIZATION, value(&header, true)?);
    Ok(())
}

/// Returns the time at which a request with these headers was signed.
pub(crate) fn signed_at(request: &HeaderMap) -> Option<Timestamp> {
    Timestamp::from_second(request.get(TIMESTAMP)?.to_str().ok()?.parse().ok()?).ok()
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
    text(AUTHORIZATION).contains(&format!("Credential={}/", keys.access_key))
        && text(TOKEN) == token
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(token: Option<&str>) -> Keys {
        Keys {
            access_key: "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE".to_owned(),
            secret_key: "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE".to_owned().into(),
            session_token: token.map(|token| token.to_owned().into()),
        }
    }

    /// The example in Tencent Cloud's description of the signature.
    #[test]
    fn published_example_is_signed_as_published() {
        let body = r#"{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}"#;
        let mut request = Request::post("https://cvm.tencentcloudapi.com/")
            .body(Bytes::from(body))
            .unwrap();
        let now = Timestamp::from_second(1_551_113_065).unwrap();
        sign(&mut request, "cvm", Some(&keys(None)), now).unwrap();
        let signed = request.headers()[AUTHORIZATION].to_str().unwrap();
        let scope = "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/2019-02-25/cvm/tc3_request";
        let signature = "72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168";
        let expected = format!(
            "TC3-HMAC-SHA256 Credential={scope}, SignedHeaders=content-type;host, Signature={signature}"
        );
        assert_eq!(signed, expected);
        assert_eq!(signed_at(request.headers()), Some(now));
        assert!(
            have_signed(&keys(None), request.headers())
                && !have_signed(&keys(Some("x")), request.headers())
        );
    }

    #[test]
    fn temporary_keys_send_their_token_and_a_request_without_keys_says_so() {
        let mut request = Request::post("https://sts.tencentcloudapi.com/")
            .body(Bytes::new())
            .unwrap();
        let now = Timestamp::from_second(1_551_113_065).unwrap();
        sign(&mut request, "sts", None, now).unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "SKIP");
        sign(&mut request, "sts", Some(&keys(Some("t"))), now).unwrap();
        assert_eq!(request.headers()[TOKEN], "t");
        assert!(have_signed(&keys(Some("t")), request.headers()));
    }
}
