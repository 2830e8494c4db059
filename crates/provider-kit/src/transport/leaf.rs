//! What carries a request: reqwest, or a tower service in this process.

use std::fmt;

use bytes::Bytes;
use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::ServiceExt;

/// No answer arrived.
#[derive(Debug)]
pub struct NoAnswer {
    cause: String,
    pub(super) sent: bool,
}

impl NoAnswer {
    /// A cut connection, a body that broke off: whether the request was applied is unknown.
    pub fn new(cause: impl fmt::Display) -> Self {
        Self { cause: cause.to_string(), sent: true }
    }

    /// No connection: the request was not sent, and may be sent again whatever it is.
    pub fn not_sent(cause: impl fmt::Display) -> Self {
        Self { cause: cause.to_string(), sent: false }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

/// Carries one request and reads its whole answer. Does nothing else: no retries, no redirects.
pub trait Leaf: Send + Sync + 'static {
    /// Sends `request`, whose URI is absolute.
    fn carry(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>>;
}

/// A tower service, such as an axum router, in this process: no sockets, and time may be virtual.
pub(super) struct InProcess<S>(pub(super) S);

impl<S, B> Leaf for InProcess<S>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: fmt::Display + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    fn carry(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let service = self.0.clone();
        async move {
            let answer = service.oneshot(request.map(Full::new)).await.map_err(NoAnswer::new)?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(NoAnswer::new)?.to_bytes();
            Ok(Response::from_parts(parts, body))
        }
        .boxed()
    }
}

/// The network.
pub(super) struct Network(reqwest::Client);

impl Network {
    /// For `https` the program must have installed a TLS crypto provider; plain `http` works without one.
    /// A proxy from the environment is used, but not for this machine itself, nor for the metadata service of its cloud.
    pub(super) fn new(https: bool, host: &str) -> Result<Self> {
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("ccm-rs/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true);
        if ["localhost", "127.0.0.1", "[::1]", "169.254.169.254"].contains(&host) {
            builder = builder.no_proxy();
        }
        if !https {
            builder = builder.tls_backend_preconfigured(unused_tls()?);
        } else if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(Error::other(
                "no TLS crypto provider is installed; the program must install one when it starts",
            ));
        }
        builder.build().map(Self).map_err(|err| Error::other(format!("cannot make an HTTP client: {err}")))
    }
}

/// A TLS configuration that trusts nobody. It keeps reqwest from asking for the program's crypto provider, and from
/// loading the system's certificates, where only `http` is spoken.
fn unused_tls() -> Result<rustls::ClientConfig> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| Error::other(format!("cannot make an HTTP client: {err}")))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

impl Leaf for Network {
    fn carry(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let client = self.0.clone();
        async move {
            let request = reqwest::Request::try_from(request).map_err(no_answer)?;
            let answer = client.execute(request).await.map_err(no_answer)?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut response = Response::new(answer.bytes().await.map_err(no_answer)?);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        }
        .boxed()
    }
}

/// reqwest's own text is just "error sending request": the causes say what happened. The URL is left out, because its
/// query may hold what nobody should read.
fn no_answer(err: reqwest::Error) -> NoAnswer {
    let err = err.without_url();
    let answer = if err.is_connect() { NoAnswer::not_sent } else { NoAnswer::new };
    let mut text = err.to_string();
    let mut cause = std::error::Error::source(&err);
    while let Some(err) = cause {
        text = format!("{text}: {err}");
        cause = err.source();
    }
    answer(text)
}
