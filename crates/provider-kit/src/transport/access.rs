//! The access of one request: the base URL of the service, and the header that identifies the caller.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::{Error, Result};
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

/// Access to a service: its base URL, and the header that identifies the caller. Its `Debug` does not show the secret.
///
/// ```
/// use http::HeaderName;
/// use provider_kit::transport::Access;
///
/// let token = HeaderName::from_static("x-auth-token");
/// let access = Access::new("https://compute.example.com/v2.1/", token, &"s3cret".to_owned().into())?;
/// assert_eq!(access.base(), "https://compute.example.com/v2.1");
/// assert!(!format!("{access:?}").contains("s3cret"));
/// # Ok::<(), cloud_provider::Error>(())
/// ```
pub struct Access {
    /// Base URL; empty for the client's own.
    base: String,
    /// Header that identifies the caller; `None` if requests are signed.
    pub(super) name: Option<HeaderName>,
    /// Value of the header; `None` if it is not valid in a header.
    pub(super) header: Option<HeaderValue>,
    /// Secrets that must appear nowhere else.
    hidden: Vec<SecretString>,
}

/// A source of [`Access`] that changes: a token that expires, a catalogue that lists the services' URLs.
#[async_trait]
pub trait Session: Send + Sync + 'static {
    /// Returns the access for the next request. Called before each request, so the session caches and renews the
    /// access.
    ///
    /// # Errors
    /// The reason why there is no access: the call fails with this error, and is not sent.
    async fn access(&self) -> Result<Arc<Access>>;

    /// Returns another access after `refused` was answered with 401; `None` if there is none, and the refusal stands.
    ///
    /// # Errors
    /// The reason why there is no access: the call fails with this error.
    async fn renewed(&self, refused: &Arc<Access>) -> Result<Option<Arc<Access>>>;
}

impl Access {
    /// Returns the access to a service at `base`, a URL, that identifies callers by the value of the header `name`.
    ///
    /// # Errors
    /// *Invalid* if `base` is not `http://` or `https://` with a host.
    pub fn new(base: &str, name: HeaderName, value: &SecretString) -> Result<Self> {
        endpoint(base)?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self {
            base,
            ..Self::of(name, value.expose_secret(), vec![value.clone()])
        })
    }

    /// Returns an access at the client's own base URL.
    pub(super) fn of(name: HeaderName, value: &str, mut hidden: Vec<SecretString>) -> Self {
        let mut header = HeaderValue::from_str(value).ok();
        header
            .iter_mut()
            .for_each(|header| header.set_sensitive(true));
        // A longer secret may contain a shorter one.
        hidden.sort_by_key(|part| std::cmp::Reverse(part.expose_secret().len()));
        Self {
            base: String::new(),
            name: Some(name),
            header,
            hidden,
        }
    }

    /// A service at `base`, a URL, where a [signature](super::Builder::signer) identifies the caller.
    ///
    /// ```
    /// use provider_kit::transport::Access;
    ///
    /// assert_eq!(Access::signed("https://ec2.example.com/")?.base(), "https://ec2.example.com");
    /// # Ok::<(), cloud_provider::Error>(())
    /// ```
    ///
    /// # Errors
    /// *Invalid* if `base` is not `http://` or `https://` with a host.
    pub fn signed(base: &str) -> Result<Self> {
        endpoint(base)?;
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            name: None,
            header: None,
            hidden: Vec::new(),
        })
    }

    /// Returns the base URL of the service, without a slash at the end.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        self.header == other.header
    }

    /// Removes the secrets from a text: a cloud may repeat what it was sent, and a secret must not reach a log (INV-5).
    pub(super) fn redact(&self, text: String) -> String {
        redact(text, &self.hidden)
    }
}

/// Returns `text` with each of the hidden values replaced.
pub(super) fn redact(text: String, hidden: &[SecretString]) -> String {
    let hidden = hidden
        .iter()
        .map(ExposeSecret::expose_secret)
        .filter(|hidden| !hidden.is_empty());
    hidden.fold(text, |text, hidden| match text.contains(hidden) {
        true => text.replace(hidden, "[redacted]"),
        false => text,
    })
}

/// Returns whether a base URL is `https`, and its host.
pub(super) fn endpoint(base: &str) -> Result<(bool, String)> {
    let uri = base.parse::<http::Uri>().ok();
    let scheme = uri
        .as_ref()
        .and_then(http::Uri::scheme_str)
        .filter(|s| ["http", "https"].contains(s));
    let host = uri
        .as_ref()
        .and_then(http::Uri::host)
        .filter(|host| !host.is_empty());
    let (Some(scheme), Some(host)) = (scheme, host) else {
        // A URL may hold user and password.
        return Err(Error::invalid(
            "the endpoint is not a URL such as https://api.example.com",
        ));
    };
    if !uri.as_ref().is_some_and(has_valid_port) {
        return Err(Error::invalid(
            "the endpoint's port is not a number from 1 to 65535",
        ));
    }
    Ok((scheme == "https", host.to_owned()))
}

/// Returns `true` if the URL has no port, or one from 1 to 65535. The parser accepts any digits, and connects to the scheme's
/// own port where they are no port.
///
/// ```
/// use provider_kit::transport::has_valid_port;
///
/// let urls = ["https://a.example.com/v1", "https://a.example.com:65535", "http://[fd00::1]:8080"];
/// assert!(urls.iter().all(|url| has_valid_port(&url.parse().unwrap())));
/// let urls = ["https://a.example.com:99999/v1", "http://[fd00::1]:65536", "http://a.example.com:0"];
/// assert!(!urls.iter().any(|url| has_valid_port(&url.parse().unwrap())));
/// ```
#[must_use]
pub fn has_valid_port(url: &http::Uri) -> bool {
    let Some(authority) = url.authority() else {
        return true;
    };
    let place = authority
        .as_str()
        .rsplit_once('@')
        .map_or(authority.as_str(), |(_, place)| place);
    match place
        .strip_prefix(authority.host())
        .unwrap_or_default()
        .strip_prefix(':')
    {
        None | Some("") => true,
        Some(port) => port.parse::<u16>().is_ok_and(|port| port != 0),
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("header", &self.name)
            .finish_non_exhaustive()
    }
}
