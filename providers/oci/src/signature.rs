//! The HTTP signature of requests: RSA over some headers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cloud_provider::Error;
use getrandom::SysRng;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rsa::PrivateKey;
use rsa::pkcs1::EncodeRsaPrivateKey;
use rsa::pkcs8::{DecodePrivateKey, EncodePublicKey, LineEnding};
use secrecy::{ExposeSecret, SecretString};

type Result<T, E = Error> = std::result::Result<T, E>;

const CONTENT_HASH: HeaderName = HeaderName::from_static("x-content-sha256");

/// A key that signs requests. `Debug` shows the key ID of an API key alone.
pub(crate) struct SigningKey {
    /// `<tenancy>/<user>/<fingerprint>`, or `ST$<token>`.
    pub(crate) id: SecretString,
    pub(crate) pair: RsaKeyPair,
}

/// A generated key: its private half, and its public half in PEM.
pub(crate) struct SessionKey {
    pub(crate) pair: RsaKeyPair,
    pub(crate) public: String,
}

fn invalid(what: &'static str) -> Error {
    Error::invalid(what)
}

/// Reads a private key in PEM: PKCS #8, encrypted with a passphrase or not, or PKCS #1.
pub(crate) fn read_key(pem: &str, passphrase: Option<&SecretString>) -> Result<RsaKeyPair> {
    let body = |begin: &str| {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {begin}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {begin}-----"))?;
        STANDARD
            .decode(body.split_whitespace().collect::<String>())
            .ok()
    };
    if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") {
        let passphrase = passphrase
            .ok_or_else(|| invalid("the private key is encrypted; set auth.passphrase"))?;
        let key = PrivateKey::from_pkcs8_encrypted_pem(pem, passphrase.expose_secret());
        return pair(
            &key.map_err(|_| {
                invalid("the private key cannot be decrypted; check auth.passphrase")
            })?,
        );
    }
    if pem.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(invalid(
            "the private key is encrypted in an old form; convert it with: openssl pkcs8 -topk8 -v2 aes256",
        ));
    }
    let pair = match (body("PRIVATE KEY"), body("RSA PRIVATE KEY")) {
        (Some(der), _) => RsaKeyPair::from_pkcs8(&der),
        (None, Some(der)) => RsaKeyPair::from_der(&der),
        (None, None) => return Err(invalid("the private key is not in PEM form")),
    };
    pair.map_err(|error| {
        Error::invalid(format!(
            "the private key is no RSA key of at least 2048 bits: {error}"
        ))
    })
}

fn pair(key: &PrivateKey) -> Result<RsaKeyPair> {
    let der = key
        .to_pkcs1_der()
        .map_err(|_| invalid("the private key is no valid RSA key"))?;
    RsaKeyPair::from_der(der.as_bytes())
        .map_err(|error| Error::invalid(format!("the private key is refused: {error}")))
}

/// Generates a key for one session. It takes some tenths of a second.
pub(crate) async fn session_key() -> Result<SessionKey> {
    let failed = |what: &dyn std::fmt::Display| {
        Error::other(format!("no session key can be generated: {what}"))
    };
    let generate = || PrivateKey::new(&mut SysRng, 2048);
    let key = tokio::task::spawn_blocking(generate)
        .await
        .map_err(|error| failed(&error))?;
    let key = key.map_err(|error| failed(&error))?;
    let public = key
        .to_public_key()
        .to_public_key_pem(LineEnding::LF)
        .map_err(|error| failed(&error))?;
    Ok(SessionKey {
        pair: pair(&key)?,
        public,
    })
}

impl SigningKey {
    /// Signs a request as of `now`. `with_host` is not set for the federation, whose signature covers no host.
    pub(crate) fn sign(
        &self,
        request: &mut Request<Bytes>,
        now: Timestamp,
        with_host: bool,
    ) -> Result<()> {
        let date = now
            .to_zoned(TimeZone::UTC)
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string();
        let host = request
            .uri()
            .authority()
            .map(|authority| authority.as_str().to_owned());
        let host = host.ok_or_else(|| invalid("a request without a host cannot be signed"))?;
        let target = request
            .uri()
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let target = format!(
            "{} {target}",
            request.method().as_str().to_ascii_lowercase()
        );
        let mut lines = vec![("date", date.clone()), ("(request-target)", target)];
        request.headers_mut().insert(DATE, value(&date)?);
        request.headers_mut().insert(HOST, value(&host)?);
        if with_host {
            lines.push(("host", host));
        }
        if [Method::POST, Method::PUT, Method::PATCH].contains(request.method()) {
            let length = request.body().len().to_string();
            let hash = STANDARD.encode(digest(&SHA256, request.body()));
            let kind = request
                .headers()
                .get(CONTENT_TYPE)
                .and_then(|header| header.to_str().ok())
                .unwrap_or("application/json");
            lines.extend([
                ("content-length", length.clone()),
                ("content-type", kind.to_owned()),
                ("x-content-sha256", hash.clone()),
            ]);
            let kind = value(kind)?;
            let headers = request.headers_mut();
            headers.insert(CONTENT_LENGTH, value(&length)?);
            headers.insert(CONTENT_TYPE, kind);
            headers.insert(CONTENT_HASH, value(&hash)?);
        }
        let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
        let text: Vec<_> = lines
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let signed = self.pair.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            text.join("\n").as_bytes(),
            &mut signature,
        );
        signed.map_err(|_| Error::other("a request cannot be signed"))?;
        let authorization = format!(
            "Signature version=\"1\",headers=\"{}\",keyId=\"{}\",algorithm=\"rsa-sha256\",signature=\"{}\"",
            names.join(" "),
            self.id.expose_secret(),
            STANDARD.encode(signature)
        );
        let mut authorization = value(&authorization)?;
        authorization.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, authorization);
        Ok(())
    }

    /// Returns `true` if a request with these headers was signed with this key.
    pub(crate) fn has_signed(&self, headers: &http::HeaderMap) -> bool {
        let text = headers
            .get(AUTHORIZATION)
            .and_then(|header| header.to_str().ok())
            .unwrap_or_default();
        text.contains(&format!("keyId=\"{}\"", self.id.expose_secret()))
    }
}

fn value(text: &str) -> Result<HeaderValue> {
    HeaderValue::try_from(text)
        .map_err(|_| invalid("the credential has characters that no HTTP header can carry"))
}
