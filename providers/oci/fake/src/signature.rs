//! The signatures of requests, checked as the cloud checks them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

use crate::{ApiRequest, Oracle};

/// The public half of the user's key.
pub(crate) const PUBLIC: &[u8] = include_bytes!("public.der");

/// Returns a parameter of the header, such as `keyId="…"`.
fn parameter<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header
        .split_once(&format!("{name}=\""))?
        .1
        .split('"')
        .next()
}

impl Oracle {
    /// Returns `true` if a key of the fake has signed the request, with all headers that must be covered.
    pub(crate) fn has_signed(&self, request: &ApiRequest) -> bool {
        let Some(keys) = &self.keys else { return true };
        self.is_valid(request, keys).is_some_and(|flag| flag)
    }

    fn is_valid(
        &self,
        request: &ApiRequest,
        keys: &std::collections::BTreeMap<String, Vec<u8>>,
    ) -> Option<bool> {
        let header = request
            .header("authorization")?
            .strip_prefix("Signature ")?;
        let key = keys.get(parameter(header, "keyId")?)?;
        let names: Vec<_> = parameter(header, "headers")?.split(' ').collect();
        let method = request.route.split(' ').next()?.to_ascii_lowercase();
        let has_body = ["post", "put", "patch"].contains(&&*method);
        let required: &[&str] = if has_body {
            &[
                "date",
                "(request-target)",
                "host",
                "content-length",
                "content-type",
                "x-content-sha256",
            ]
        } else {
            &["date", "(request-target)", "host"]
        };
        let hash = STANDARD.encode(digest(&SHA256, &request.bytes));
        if !required.iter().all(|required| names.contains(required))
            || has_body && request.header("x-content-sha256")? != hash
        {
            return Some(false);
        }
        let query = request
            .query
            .iter()
            .map(|(key, value)| format!("{}={}", escaped(key), escaped(value)));
        let query = query.collect::<Vec<_>>().join("&");
        let target = if query.is_empty() {
            request.path.clone()
        } else {
            format!("{}?{query}", request.path)
        };
        let line = |name: &&str| match *name {
            "(request-target)" => Some(format!("(request-target): {method} {target}")),
            name => Some(format!("{name}: {}", request.header(name)?)),
        };
        let text = names
            .iter()
            .map(line)
            .collect::<Option<Vec<_>>>()?
            .join("\n");
        let signature = STANDARD.decode(parameter(header, "signature")?).ok()?;
        Some(
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key)
                .verify(text.as_bytes(), &signature)
                .is_ok(),
        )
    }
}

/// Returns a text as it is written in a query.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
