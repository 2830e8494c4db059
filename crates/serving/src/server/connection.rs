//! One connection: its requests, its limits, its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures::FutureExt;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::activity::{Activity, Watched};
use super::limits::Limits;

/// Headers of an HTTP/1.1 request. HTTP/2 counts their bytes only.
const MOST_HEADERS: usize = 1000;

/// Who is at the other end; an extension of each request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where from.
    pub address: SocketAddr,
    /// The certificates that it presented, its own first. It has their keys; nothing else has been checked.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// What is spoken on a connection. It is known beforehand, so no time is lost with guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Serves a connection until it ends, exceeds a limit, or is drained after `shutdown`.
pub(super) async fn serve<S>(
    stream: S,
    protocol: Protocol,
    peer: Peer,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new();
    let address = peer.address;
    let service = {
        let activity = activity.clone();
        hyper::service::service_fn(move |request| answer(request, peer.clone(), router.clone(), activity.begin()))
    };
    let reads = (protocol == Protocol::Http1).then(|| activity.clone());
    let builder = builder(protocol, &limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Watched { stream, activity: reads }), service));
    let mut end: Option<Instant> = None;
    loop {
        let deadline = end.or_else(|| activity.phase().deadline(&limits));
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(peer = %address, %error, "connection ended");
                }
                return;
            }
            () = shutdown.cancelled(), if end.is_none() => {
                end = Instant::now().checked_add(limits.drain);
                connection.as_mut().graceful_shutdown();
            }
            () = activity.changed() => {}
            () = until(deadline) => {
                tracing::debug!(peer = %address, phase = ?activity.phase(), "connection took too long");
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

fn builder(protocol: Protocol, limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = match protocol {
        Protocol::Http1 => Builder::new(TokioExecutor::new()).http1_only(),
        Protocol::Http2 => Builder::new(TokioExecutor::new()).http2_only(),
    };
    // The time for headers is kept here (`activity`), where it is told from the time between requests.
    // A front proxy sends a header for each group of its caller, and who has many has more than the library's 100.
    builder.http1().header_read_timeout(None).max_buf_size(limits.header_bytes as usize).max_headers(MOST_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(limits.header_bytes)
        .initial_stream_window_size(limits.http2_buffer)
        .max_frame_size(limits.http2_buffer);
    builder
}

async fn answer(
    request: Request<Incoming>,
    peer: Peer,
    mut router: Router,
    answering: super::activity::Answering,
) -> Result<Response, Infallible> {
    let (begun, address) = (Instant::now(), peer.address);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    let answered = AssertUnwindSafe(async { router.call(request).await }).catch_unwind().await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            // The panic hook has said where.
            tracing::error!(%method, path, "a request made its handler panic");
            crate::answer::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the handler of this request panicked; see the log\n",
            )
        }
    };
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    let status = response.status().as_u16();
    tracing::debug!(peer = %address, %method, path, status, time = ?begun.elapsed(), "HTTP");
    // The request is over when the last byte of its answer has been taken.
    Ok(response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _answering = &answering;
            frame
        }))
    }))
}
