//! Accept loop of the server.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::activity::Activity;
use super::admission::Connections;
use super::connection::{Peer, Protocol, Service, serve};
use super::limits::{Limit, Limits};
use super::share::Client;
use crate::answer::TLS_REQUIRED;
use crate::log_limit::LogLimit;
use crate::tls::Tls;

/// Pause after a failed accept, because without free file descriptors the next attempt would fail as well.
const REST: Duration = Duration::from_millis(100);
/// Time-out for a caller without TLS to read the response.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of the log lines about a flood of connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

pub(super) async fn accept(listener: &TcpListener, tls: Option<&Tls>, service: &Service) {
    let tracker = TaskTracker::new();
    let connections = Connections::new(&service.limits);
    let complaints = LogLimit::new(1, LOG_INTERVAL);
    loop {
        let accepted = tokio::select! {
            biased;
            () = service.shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(suppressed) = complaints.admit() {
                    tracing::warn!(%error, suppressed, "connections cannot be accepted");
                }
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let local = stream.local_addr().map_or(address, |local| local);
        let client = Client::new(address.ip(), local.ip());
        let admitted = connections.admit(client);
        let limit = admitted.as_ref().map_or_else(
            |limit| Some(*limit),
            |a| a.replaced.then_some(Limit::IdlestConnection),
        );
        if let Some(limit) = limit {
            service.metrics.limited(limit);
            if let Some(suppressed) = complaints.admit() {
                let limit = limit.as_str();
                tracing::warn!(peer = %address, limit, suppressed, "too many connections: one was closed");
            }
        }
        let Ok(admitted) = admitted else { continue };
        prepare(&stream, &service.limits);
        // Each connection uses the TLS configuration at its start, because certificates and CAs may change later.
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config()));
        let service = service.clone();
        tracker.spawn(async move {
            let evicted = admitted.evicted.clone();
            let activity = admitted.activity.clone();
            let served = serve_stream(stream, address, client, acceptor, activity, service);
            _ = evicted.run_until_cancelled(served).await;
            drop(admitted);
        });
    }
    tracker.close();
    // Each connection ends by itself within the time for draining.
    tracker.wait().await;
}

async fn serve_stream(
    stream: TcpStream,
    address: SocketAddr,
    client: Client,
    acceptor: Option<TlsAcceptor>,
    activity: Activity,
    service: Service,
) {
    let peer = Peer {
        address,
        certificates: Default::default(),
    };
    let Some(acceptor) = acceptor else {
        return serve(stream, Protocol::Http1, peer, client, activity, service).await;
    };
    match (
        is_plain(&stream, &service.limits, &service.shutdown).await,
        service.plain.clone(),
    ) {
        (Some(false), _) => encrypted(stream, address, client, &acceptor, activity, service).await,
        (Some(true), Some(router)) => {
            let service = Service { router, ..service };
            serve(stream, Protocol::Http1, peer, client, activity, service).await;
        }
        (Some(true), None) => refuse_plain(stream).await,
        (None, _) => tracing::debug!(peer = %address, "connection closed without data"),
    }
}

fn prepare(stream: &TcpStream, limits: &Limits) {
    // Both options are optional, so errors are ignored.
    _ = stream.set_nodelay(true);
    let keep_alive = TcpKeepalive::new()
        .with_time(limits.tcp_keep_alive)
        .with_interval(limits.tcp_keep_alive);
    _ = SockRef::from(stream).set_tcp_keepalive(&keep_alive);
}

/// Returns `true` if the caller speaks HTTP without TLS, the commonest mistake in a probe's definition. Returns `None`
/// if the caller sends nothing or the server stops.
async fn is_plain(
    stream: &TcpStream,
    limits: &Limits,
    shutdown: &CancellationToken,
) -> Option<bool> {
    let mut first = [0];
    let peeked = shutdown
        .run_until_cancelled(timeout(limits.handshake, stream.peek(&mut first)))
        .await;
    // TLS begins with 0x16, HTTP with the name of a method.
    matches!(peeked, Some(Ok(Ok(1)))).then(|| first[0].is_ascii_uppercase())
}

/// Answers a caller without TLS on a port that requires TLS.
async fn refuse_plain(mut stream: TcpStream) {
    let response = format!(
        "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{TLS_REQUIRED}"
    );
    let refusal = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        // A connection that is closed with unread data may be reset before the response arrives.
        tokio::io::copy(&mut stream.take(1 << 16), &mut tokio::io::sink()).await
    };
    // The time-out is for callers that do not read the response.
    _ = timeout(REFUSAL_TIMEOUT, refusal).await;
}

/// Performs the handshake within its time-out, and then serves the negotiated protocol.
pub(super) async fn encrypted<S>(
    stream: S,
    address: SocketAddr,
    client: Client,
    acceptor: &TlsAcceptor,
    activity: Activity,
    service: Service,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = service.limits;
    let handshake = tokio::select! {
        () = service.shutdown.cancelled() => return,
        handshake = timeout(limits.handshake, acceptor.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(peer = %address, %error, "TLS handshake failed"),
        Err(_) => {
            return tracing::debug!(peer = %address, limit = ?limits.handshake, "TLS handshake took too long");
        }
    };
    let session = stream.get_ref().1;
    let protocol = match session.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let certificates = session
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .map(|certificate| certificate.clone().into_owned());
    let peer = Peer {
        address,
        certificates: certificates.collect(),
    };
    serve(stream, protocol, peer, client, activity, service).await;
}
