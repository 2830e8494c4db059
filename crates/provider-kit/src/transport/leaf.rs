//! What carries a request.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::ServiceExt;

use super::{BodyLimit, BodyReader};

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

/// Carries one request and reads its answer as far as the limit allows. Does nothing else: no retries, no redirects.
pub trait Leaf: Send + Sync + 'static {
    /// Sends `request`, whose URI is absolute. Of a body that is longer than `limit` no more is read than shows that it is: see
    /// [`BodyReader`].
    fn carry(&self, request: Request<Bytes>, limit: BodyLimit)
    -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>>;
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
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let service = self.0.clone();
        async move {
            let answer = service.oneshot(request.map(Full::new)).await.map_err(NoAnswer::new)?;
            let (parts, body) = answer.into_parts();
            let (mut read, mut body) = (BodyReader::new(limit, parts.status), pin!(body));
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

/// A leaf whose place another one may take while it is in use, as when certificates are renewed.
pub struct Line(RwLock<Arc<dyn Leaf>>);

impl Line {
    /// This leaf, at first.
    #[must_use]
    pub fn new(leaf: Arc<dyn Leaf>) -> Self {
        Self(RwLock::new(leaf))
    }

    /// From now on requests are carried by this one.
    pub fn replace(&self, leaf: Arc<dyn Leaf>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = leaf;
    }
}

impl Leaf for Line {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).carry(request, limit)
    }
}

/// One leaf for several clients.
impl Leaf for Arc<dyn Leaf> {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        (**self).carry(request, limit)
    }
}

/// A leaf that hands requests to a tower service in this process, such as an axum router, for several clients.
pub fn in_process<S, B>(service: S) -> Arc<dyn Leaf>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: fmt::Display + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    Arc::new(InProcess(service))
}
