//! A connection from its handshake to its end: requests, limits, shutdown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::activity::{Activity, Answering, Lifetime, Watched};
use super::budget::{Budget, InFlight};
use super::limits::{HEADERS, HTTP2_FRAME, HTTP2_WINDOW, Limit, Limits, ServerMetrics};
use super::share::Client;
use crate::health::Probe;
use crate::quote::shortened;

/// The peer of the connection; an extension of each request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Address of the peer.
    pub address: SocketAddr,
    /// Certificates that the peer presented, its own first. The peer has proven possession of the key; nothing else has
    /// been verified.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// Protocol of a connection, known from the handshake, so that no time is lost with detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// State that all connections of a listener share.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) router: Router,
    /// Routes for callers without TLS on a port that has TLS; such callers get 400 if there are none.
    pub(super) plain: Option<Router>,
    pub(super) limits: Limits,
    pub(super) budget: Budget,
    pub(super) metrics: Arc<dyn ServerMetrics>,
    pub(super) shutdown: CancellationToken,
}

/// Serves a connection until it ends, exceeds a limit, or is drained after the shutdown.
pub(super) async fn serve<S>(
    stream: S,
    protocol: Protocol,
    peer: Peer,
    client: Client,
    activity: Activity,
    service: Service,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = peer.address;
    let limits = service.limits;
    let shutdown = service.shutdown.clone();
    let metrics = Arc::clone(&service.metrics);
    let answers = {
        let activity = activity.clone();
        hyper::service::service_fn(move |request| {
            // Called before the future is polled, so that a refused request does not hold memory while it waits.
            let admitted = admit(&request, client, &service);
            let admitted =
                admitted.map(|in_flight| (request, in_flight, activity.begin(service.limits.busy)));
            let peer = peer.clone();
            let service = service.clone();
            async move {
                Ok::<_, Infallible>(match admitted {
                    Ok((request, in_flight, answering)) => {
                        answer(request, peer, service, in_flight, answering).await
                    }
                    Err(status) => refused(status),
                })
            }
        })
    };
    match protocol {
        Protocol::Http1 => {
            let stream = TokioIo::new(Watched::http1(stream, activity.clone()));
            let connection = http1(&limits).serve_connection(stream, answers);
            drive(
                connection, address, &activity, &limits, &*metrics, &shutdown,
            )
            .await;
        }
        Protocol::Http2 => {
            let stream = TokioIo::new(Watched::http2(stream, activity.clone()));
            let connection = http2(&limits).serve_connection(stream, answers);
            drive(
                connection, address, &activity, &limits, &*metrics, &shutdown,
            )
            .await;
        }
    }
}

/// A connection of either protocol.
trait Connection: Future<Output = hyper::Result<()>> {
    /// Ends the connection when the requests are answered that it has.
    fn drain(self: Pin<&mut Self>);
}

impl<I, S> Connection for http1::Connection<I, S>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<axum::BoxError>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S> Connection for http2::Connection<I, S, TokioExecutor>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<axum::BoxError>,
    TokioExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, Body>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

async fn drive(
    connection: impl Connection,
    address: SocketAddr,
    activity: &Activity,
    limits: &Limits,
    metrics: &dyn ServerMetrics,
    shutdown: &CancellationToken,
) {
    let mut connection = pin!(connection);
    let mut end = None::<Instant>;
    let mut ending = false;
    loop {
        let deadline = end.or_else(|| activity.deadline(limits));
        if !ending && activity.lifetime() == Lifetime::Ending {
            ending = true;
            connection.as_mut().drain();
        }
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if activity.lifetime() == Lifetime::Over {
                    metrics.limited(Limit::ConnectionBytes);
                }
                if let Err(error) = ended {
                    tracing::debug!(peer = %address, %error, "connection ended");
                }
                return;
            }
            () = shutdown.cancelled(), if end.is_none() => {
                end = Instant::now().checked_add(limits.drain);
                connection.as_mut().drain();
            }
            () = activity.changed() => {}
            () = until(deadline) => {
                let busy = activity.is_busy();
                if busy && end.is_none() {
                    metrics.limited(Limit::RequestTime);
                }
                tracing::debug!(peer = %address, busy, "connection took too long");
                return;
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // The time-out of headers is implemented in `activity`, which distinguishes it from the time between requests.
    builder
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes as usize)
        .max_headers(HEADERS);
    builder
}

fn http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW)
        .max_frame_size(HTTP2_FRAME);
    builder
}

/// Counts a request, if there is room for it.
///
/// # Errors
/// The status to refuse it with.
fn admit(
    request: &Request<Incoming>,
    client: Client,
    service: &Service,
) -> Result<InFlight, StatusCode> {
    let uri_bytes = request
        .uri()
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    if uri_bytes > service.limits.uri_bytes {
        service.metrics.limited(Limit::UriLength);
        return Err(StatusCode::URI_TOO_LONG);
    }
    // HTTP/2 counts 32 bytes for each header in addition to its text.
    let headers = request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    let bytes = headers.sum::<usize>() + uri_bytes;
    let admitted = match Probe::of_path(request.uri().path()) {
        Some(_) => service.budget.begin_probe(client, bytes),
        None => service.budget.begin(client, bytes),
    };
    admitted.map_err(|limit| {
        service.metrics.limited(limit);
        StatusCode::SERVICE_UNAVAILABLE
    })
}

async fn answer(
    request: Request<Incoming>,
    peer: Peer,
    mut service: Service,
    mut in_flight: InFlight,
    answering: Answering,
) -> Response {
    let begun = Instant::now();
    let address = peer.address;
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(answering.timeout());
    let answered = AssertUnwindSafe(async { service.router.call(request).await })
        .catch_unwind()
        .await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            // The panic hook has logged the location.
            tracing::error!(%method, path = %shortened(&path), "a request made its handler panic");
            crate::answer::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the handler of this request panicked; see the log\n",
            )
        }
    };
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    let status = response.status().as_u16();
    tracing::debug!(peer = %address, %method, path = %shortened(&path), status, time = ?begun.elapsed(), "HTTP");
    let bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
    if let Err(limit) = in_flight.resize(bytes) {
        service.metrics.limited(limit);
        return refused(StatusCode::SERVICE_UNAVAILABLE);
    }
    // The request is over when the last byte of its answer has been taken.
    let untaken = Arc::new(Untaken {
        _answering: answering,
        _in_flight: in_flight,
    });
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let untaken = Arc::clone(&untaken);
            frame.map_data(|bytes| {
                Bytes::from_owner(Chunk {
                    bytes,
                    _untaken: untaken,
                })
            })
        }))
    })
}

/// Answers a request that exceeds a limit. The response has no body, which a slow caller would keep in memory.
fn refused(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Response that the caller has not received completely.
struct Untaken {
    _answering: Answering,
    _in_flight: InFlight,
}

/// A part of an answer. The library drops a body when it has put its parts into a queue, which a slow caller need not
/// empty.
struct Chunk {
    bytes: Bytes,
    _untaken: Arc<Untaken>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
