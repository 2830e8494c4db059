//! Credentials, and the signature bce-auth-v1.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cloud_provider::{Error, Result, async_trait};
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use jiff::Timestamp;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provider_kit::signing::{AwsCredentials as Keys, CloudClock, Signer, hmac_sha256};
use provider_kit::transport::{Refusal, ValueOrFile};
use secrecy::{ExposeSecret, SecretString};

use crate::config::{Config, Credentials};

/// Seconds for which a signature is valid.
const VALIDITY: u32 = 1800;
const DATE: HeaderName = HeaderName::from_static("x-bce-date");
const TOKEN: HeaderName = HeaderName::from_static("x-bce-security-token");
const SIGNED: [&str; 4] = ["host", "content-length", "content-type", "content-md5"];
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Signs requests to one product, or adds the token of the CCE add-on. Keys in files are read for each request, so that
/// renewed ones are used at once; if a file cannot be read, the last keys stay in use.
pub(crate) struct BceSigner {
    config: Arc<Config>,
    /// Host of the product, which the CCE gateway sends requests to.
    host: String,
    clock: CloudClock,
    last: Mutex<Option<Keys>>,
}

impl BceSigner {
    pub(crate) fn new(config: Arc<Config>, host: String) -> Self {
        Self {
            config,
            host,
            clock: CloudClock::default(),
            last: Mutex::default(),
        }
    }

    /// Reads the keys; if reading fails, returns the last keys that were read.
    fn keys(&self) -> Result<Keys> {
        let read = match &self.config.credentials {
            Credentials::Keys(id, secret, token) => keys(id, secret, token.as_ref()),
            Credentials::Plugin(directory) => text(&directory.join("token")).map(|token| Keys {
                access_key: String::new(),
                secret_key: SecretString::default(),
                session_token: Some(token),
            }),
            Credentials::Offline => Err(Error::unauthorized("there are no credentials")),
        };
        let mut last = self.last.lock();
        match (read, &*last) {
            (Ok(keys), _) => {
                *last = Some(keys.clone());
                Ok(keys)
            }
            (Err(error), Some(keys)) => {
                tracing::warn!(%error, "cannot reload credentials; the current ones stay in use");
                Ok(keys.clone())
            }
            (Err(error), None) => Err(error),
        }
    }
}

fn text(path: &Path) -> Result<SecretString> {
    let read = cloud_provider::files::read_to_string(path).map(|text| text.trim().to_owned());
    match read {
        Ok(text) if !text.is_empty() => Ok(text.into()),
        Ok(_) => Err(Error::unauthorized(format!(
            "the credential file {} is empty",
            path.display()
        ))),
        Err(error) => Err(Error::unauthorized(format!(
            "cannot read the credential file {}: {error}",
            path.display()
        ))),
    }
}

fn keys(id: &ValueOrFile, secret: &ValueOrFile, token: Option<&ValueOrFile>) -> Result<Keys> {
    let read = |part: &ValueOrFile| match part {
        ValueOrFile::Value(value) => Ok(value.clone()),
        ValueOrFile::File(path) => text(path),
    };
    let access_key = read(id)?.expose_secret().to_owned();
    Ok(Keys {
        access_key,
        secret_key: read(secret)?,
        session_token: token.map(read).transpose()?,
    })
}

#[async_trait]
impl Signer for BceSigner {
    async fn sign(&self, request: &mut Request<Bytes>, _now: Timestamp) -> Result<()> {
        let keys = self.keys()?;
        if !matches!(self.config.credentials, Credentials::Plugin(_)) {
            return sign(request, &keys, self.clock.now());
        }
        let token = keys
            .session_token
            .as_ref()
            .map_or("", |token| token.expose_secret());
        let names = ["cce-token", "cce-cluster", "cce-remote-host"].map(HeaderName::from_static);
        for (name, value) in names
            .into_iter()
            .zip([token, &self.config.cluster, &self.host])
        {
            let is_secret = name == "cce-token";
            request
                .headers_mut()
                .insert(name, header(value, is_secret)?);
        }
        Ok(())
    }

    /// Corrects the clock by the date of the answer.
    async fn refused(
        &self,
        request: &HeaderMap,
        refusal: &Refusal,
        answer: &HeaderMap,
    ) -> Result<bool> {
        let is_about_time = ["RequestExpired", "SignatureDoesNotMatch"].contains(&&*refusal.code);
        let signed = request
            .get(DATE)
            .and_then(|date| date.to_str().ok()?.parse().ok());
        Ok(is_about_time && signed.is_some_and(|signed| self.clock.correct(signed, answer)))
    }

    fn redact(&self, text: String) -> String {
        self.last
            .lock()
            .iter()
            .fold(text, |text, keys| keys.redact(text))
    }
}

fn header(text: &str, is_secret: bool) -> Result<HeaderValue> {
    let value = HeaderValue::try_from(text);
    let mut value = value
        .map_err(|_| Error::invalid("a credential has characters that no HTTP header can carry"))?;
    value.set_sensitive(is_secret);
    Ok(value)
}

fn hex_hmac(key: &[u8], text: &str) -> String {
    hmac_sha256(key, text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Signs a request. The signature covers neither the body nor the headers of the transport.
///
/// # Errors
/// *Invalid* if a header cannot carry a part of the credential.
pub(crate) fn sign(request: &mut Request<Bytes>, keys: &Keys, now: Timestamp) -> Result<()> {
    let date = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let host = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned())
        .unwrap_or_default();
    request.headers_mut().insert(HOST, header(&host, false)?);
    request.headers_mut().insert(DATE, header(&date, false)?);
    if let Some(token) = &keys.session_token {
        request
            .headers_mut()
            .insert(TOKEN, header(token.expose_secret(), true)?);
    }
    let prefix = format!("bce-auth-v1/{}/{date}/{VALIDITY}", keys.access_key);
    let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let is_signed = |name: &str| {
        SIGNED.contains(&name) || name.starts_with("x-bce-") && name != "x-bce-request-id"
    };
    let signed = request
        .headers()
        .iter()
        .filter(|(name, _)| is_signed(name.as_str()));
    let (mut names, mut lines): (Vec<_>, Vec<_>) = signed
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (
                name.as_str().to_owned(),
                format!("{name}:{}", encoded(value.trim())),
            )
        })
        .unzip();
    names.sort_unstable();
    lines.sort_unstable();
    let parameters = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|part| !part.is_empty());
    let mut query: Vec<_> = parameters
        .map(|parameters| {
            if parameters.contains('=') {
                parameters.to_owned()
            } else {
                format!("{parameters}=")
            }
        })
        .collect();
    query.sort_unstable();
    let canonical = format!(
        "{}\n{}\n{}\n{}",
        request.method(),
        request.uri().path(),
        query.join("&"),
        lines.join("\n")
    );
    let key = hex_hmac(keys.secret_key.expose_secret().as_bytes(), &prefix);
    let signature = hex_hmac(key.as_bytes(), &canonical);
    request.headers_mut().insert(
        AUTHORIZATION,
        header(&format!("{prefix}/{}/{signature}", names.join(";")), true)?,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that Baidu publishes: the last part of an upload to its object storage.
    #[test]
    fn published_example_is_signed_as_published() {
        let uri = "https://bj.bcebos.com/v1/test/myfolder/readme.txt?uploadId=a44cc9bab11cbd156984767aad637851&partNumber=9";
        let mut request = Request::put(uri)
            .body(Bytes::from_static(b"Example"))
            .unwrap();
        for (name, value) in [
            ("content-type", "text/plain"),
            ("content-length", "8"),
            ("content-md5", "NFzcPqhviddjRNnSOGo4rw=="),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let access_key = "a".repeat(32);
        let secret_key = SecretString::from("b".repeat(32));
        let keys = Keys {
            access_key,
            secret_key,
            session_token: None,
        };
        sign(&mut request, &keys, "2015-04-27T08:23:49Z".parse().unwrap()).unwrap();
        let prefix = "bce-auth-v1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/2015-04-27T08:23:49Z/1800";
        let signature = "d74a04362e6a848f5b39b15421cb449427f419c95a480fd6b8cf9fc783e2999e";
        let names = "content-length;content-md5;content-type;host;x-bce-date";
        assert_eq!(
            request.headers()[AUTHORIZATION],
            format!("{prefix}/{names}/{signature}")
        );
    }

    #[test]
    fn session_token_is_signed_and_shown_nowhere() {
        let mut request = Request::get("https://blb.bj.baidubce.com/v1/blb?exactlyMatch")
            .body(Bytes::new())
            .unwrap();
        let token = Some(SecretString::from("session-token"));
        let keys = Keys {
            access_key: "id".into(),
            secret_key: "secret".to_owned().into(),
            session_token: token,
        };
        sign(&mut request, &keys, Timestamp::now()).unwrap();
        let shown = format!("{:?}", request.headers());
        assert!(
            !shown.contains("session-token") && !shown.contains("bce-auth"),
            "{shown}"
        );
        let signed = request.headers()[AUTHORIZATION].to_str().unwrap();
        assert!(
            signed.contains("/host;x-bce-date;x-bce-security-token/"),
            "{signed}"
        );
    }
}
