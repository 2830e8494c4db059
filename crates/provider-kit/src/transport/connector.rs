//! Connectors, which carry requests.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::RwLock;
use tower::ServiceExt;

use super::{BodyLimit, BodyReader};

/// The error of a request that got no answer.
#[derive(Debug)]
pub struct NoAnswer {
    cause: String,
    pub(super) sent: bool,
}

impl NoAnswer {
    /// Returns the error for a cut connection, or a body that broke off: it is unknown if the request was applied.
    pub fn new(cause: impl fmt::Display) -> Self {
        Self {
            cause: cause.to_string(),
            sent: true,
        }
    }

    /// Returns the error for a failed connection: the request was not sent, and may be sent again in any case.
    pub fn not_sent(cause: impl fmt::Display) -> Self {
        Self {
            cause: cause.to_string(),
            sent: false,
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

/// A connector: carries one request and reads its answer up to the limit. Does nothing else: no retries, no redirects.
pub trait Connector: Send + Sync + 'static {
    /// Sends `request`, whose URI is absolute. A body that is longer than `limit` is read only until it is known to be
    /// longer: see [`BodyReader`].
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>>;
}

/// A connector to a tower service in this process, such as an axum router: no sockets, and time may be virtual.
pub(super) struct InProcess<S>(pub(super) S);

impl<S, B> Connector for InProcess<S>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: fmt::Display + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let service = self.0.clone();
        async move {
            let answer = service
                .oneshot(request.map(Full::new))
                .await
                .map_err(NoAnswer::new)?;
            let (parts, body) = answer.into_parts();
            let mut read = BodyReader::new(limit, parts.status);
            let mut body = pin!(body);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(NoAnswer::new)?;
                if frame.data_ref().is_some_and(|part| !read.push(part)) {
                    break;
                }
            }
            Ok(Response::from_parts(parts, read.finish()))
        }
        .boxed()
    }
}

/// A connector that can be replaced while it is in use, for example when certificates are renewed.
pub struct ReplaceableConnector(RwLock<Arc<dyn Connector>>);

impl ReplaceableConnector {
    /// Returns a connector that starts with `connector`.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>) -> Self {
        Self(RwLock::new(connector))
    }

    /// Replaces the connector for all later requests.
    pub fn replace(&self, connector: Arc<dyn Connector>) {
        *self.0.write() = connector;
    }
}

impl Connector for ReplaceableConnector {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        self.0.read().carry(request, limit)
    }
}

/// Shares one connector between several clients.
impl Connector for Arc<dyn Connector> {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        (**self).carry(request, limit)
    }
}

/// Returns a connector to a tower service in this process, such as an axum router, for several clients.
pub fn in_process<S, B>(service: S) -> Arc<dyn Connector>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: fmt::Display + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    Arc::new(InProcess(service))
}
