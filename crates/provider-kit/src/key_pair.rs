//! Certificates with their keys, from Secrets of type `kubernetes.io/tls`.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{Error, Result};
use http::Request;
use ring::digest::{Algorithm, SHA256, digest};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::cluster::ClusterView;

/// A certificate chain and its private key, both in PEM.
#[derive(Clone, Debug)]
pub struct KeyPair {
    /// Certificate chain, as in `tls.crt`.
    pub certificate: String,
    /// Private key, as in `tls.key`. [Hide](crate::transport::Call::hide) it in the call that uploads it.
    pub key: SecretString,
}

impl KeyPair {
    /// Reads the certificate and key of a Secret.
    ///
    /// # Errors
    /// *Invalid*, if namespace or name cannot be those of a Secret, if the Secret does not exist, or if the Secret has no
    /// certificate or no key; the error of the Kubernetes API.
    pub async fn read(cluster: &ClusterView, namespace: &str, name: &str) -> Result<Self> {
        let what = |text: &str| format!("Secret {namespace}/{name} {text}");
        if !is_namespace(namespace) {
            let text = format!(
                "{namespace:?} is not the name of a namespace: lower-case letters, digits and `-`"
            );
            return Err(Error::invalid(text));
        }
        if !is_object_name(name) {
            let text = format!(
                "{name:?} is not the name of a Secret: lower-case letters, digits, `-` and `.`"
            );
            return Err(Error::invalid(text));
        }
        let request =
            Request::get(format!("/api/v1/namespaces/{namespace}/secrets/{name}")).body(Vec::new());
        let request = request
            .map_err(|error| Error::invalid(what(&format!("has no valid name: {error}"))))?;
        let answer = cluster.api()?.send(request).await?;
        match answer.status().as_u16() {
            200 => Self::of_secret(answer.body()).map_err(|problem| Error::invalid(what(&problem))),
            403 => Err(Error::unauthorized(what(
                "may not be read: allow the controller to get Secrets",
            ))),
            404 => Err(Error::invalid(what("does not exist"))),
            status => Err(Error::other(what(&format!(
                "cannot be read: the API server answered {status}"
            )))),
        }
    }

    fn of_secret(body: &[u8]) -> std::result::Result<Self, String> {
        let secret: Value =
            serde_json::from_slice(body).map_err(|error| format!("is no JSON: {error}"))?;
        let part = |key: &str| {
            let bytes = secret["data"][key]
                .as_str()
                .and_then(|text| STANDARD.decode(text).ok());
            let text = bytes
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .map(|text| text.trim().to_owned());
            text.filter(|text| text.contains("-----BEGIN "))
                .ok_or_else(|| format!("has no PEM in {key}"))
        };
        Ok(Self {
            certificate: part("tls.crt")?,
            key: part("tls.key")?.into(),
        })
    }

    /// Returns a digest of certificate and key, in lower-case hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let content = format!("{}\n{}", self.certificate, self.key.expose_secret());
        hexadecimal(&SHA256, content.as_bytes())
    }

    /// Returns the fingerprint of the first certificate, as clouds and browsers show it: the digest of its DER form, in
    /// lower-case hexadecimal digits. `None` if the PEM cannot be decoded.
    #[must_use]
    pub fn fingerprint(&self, algorithm: &'static Algorithm) -> Option<String> {
        let (_, rest) = self.certificate.split_once("-----BEGIN CERTIFICATE-----")?;
        let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
        let der = STANDARD
            .decode(body.split_whitespace().collect::<String>())
            .ok()?;
        Some(hexadecimal(algorithm, &der))
    }
}

/// Returns `true` for a valid object name. Annotations hold any text, and a `/` or `..` would lead to a Secret of
/// another namespace, which the author of the Service may not be allowed to read.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Returns `true` for a valid name of a namespace, which is an object name without dots.
#[must_use]
pub fn is_namespace(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && is_object_name(name)
}

fn hexadecimal(algorithm: &'static Algorithm, content: &[u8]) -> String {
    digest(algorithm, content)
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(certificate: &str, key: &str) -> Vec<u8> {
        let data =
            json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
        json!({ "data": data }).to_string().into_bytes()
    }

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----";

    #[test]
    fn secret_without_pem_is_refused_with_the_name_of_the_key() {
        let refused = |body: &[u8]| KeyPair::of_secret(body).map(drop).unwrap_err();
        assert_eq!(refused(&secret("", KEY)), "has no PEM in tls.crt");
        assert_eq!(refused(&secret(PEM, "x")), "has no PEM in tls.key");
        assert_eq!(refused(b"{}"), "has no PEM in tls.crt");
    }

    #[test]
    fn name_that_leads_to_another_namespace_is_not_the_name_of_a_secret() {
        for name in ["web", "web.example.com", "a-1"] {
            assert!(is_object_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "",
            "..",
            "../../kube-system/secrets/cloud",
            "a/b",
            "a?watch=true",
            "a%2fb",
            "A",
            "-a",
            "a.",
            &long,
        ] {
            assert!(!is_object_name(name), "{name}");
        }
    }

    #[tokio::test]
    async fn invalid_secret_name_is_refused_without_a_request() {
        let read = KeyPair::read(
            &ClusterView::new("test"),
            "default",
            "../../kube-system/secrets/cloud",
        )
        .await;
        let error = read.map(drop).unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("is not the name of a Secret"),
            "{error}"
        );
        for namespace in ["", "..", "shop/secrets/cloud?", "a.b", "../../api"] {
            let read = KeyPair::read(&ClusterView::new("test"), namespace, "web").await;
            let error = read.map(drop).unwrap_err();
            assert!(
                error.is_invalid() && error.to_string().contains("is not the name of a namespace"),
                "{error}"
            );
        }
    }

    #[test]
    fn digest_follows_certificate_and_key_and_shows_neither() {
        let pair =
            |certificate: &str, key: &str| KeyPair::of_secret(&secret(certificate, key)).unwrap();
        let digests = [
            pair(PEM, KEY),
            pair(&PEM.replace("AAEC", "AAED"), KEY),
            pair(PEM, &KEY.replace("AAEC", "AAED")),
        ];
        let digests = digests.map(|key_pair| key_pair.digest());
        assert!(
            digests[0] != digests[1] && digests[0] != digests[2] && digests[0].len() == 64,
            "{digests:?}"
        );
        assert_eq!(pair(PEM, KEY).digest(), digests[0]);
        assert!(
            !format!("{:?}", pair(PEM, KEY)).contains("PRIVATE"),
            "a key is never shown"
        );
    }

    #[test]
    fn fingerprint_is_the_digest_of_the_decoded_certificate() {
        let pair = KeyPair::of_secret(&secret(PEM, KEY)).unwrap();
        // SHA-256 of the bytes 0, 1 and 2.
        let expected = "ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc";
        assert_eq!(pair.fingerprint(&SHA256).as_deref(), Some(expected));
    }
}
