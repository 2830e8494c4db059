//! Accepting connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::{Place, Places};
use super::connection::{Peer, Protocol, serve};
use super::limits::Limits;
use crate::tls::Tls;

/// A rest when there are no descriptors left: the next attempt fails just as well.
const REST: Duration = Duration::from_millis(100);
/// For a caller without TLS to read that.
const TOLD: Duration = Duration::from_secs(2);
const COMPLAINT: Duration = Duration::from_secs(60);

pub(super) async fn accept(
    listener: &TcpListener,
    tls: Option<&Tls>,
    router: Router,
    limits: &Limits,
    shutdown: &CancellationToken,
) {
    let (connections, places) = (TaskTracker::new(), Places::new(limits));
    let mut complaints = Complaints::default();
    loop {
        if places.is_full() {
            complaints.say("all connections are in use, and new ones wait; is somebody flooding the port?");
        }
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = next(listener, &places) => accepted,
        };
        let (stream, address, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                complaints.say(&format!("connections cannot be accepted: {error}"));
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let Some(taken) = places.take(place, address.ip()) else {
            complaints.say(&format!("{} has too many connections; more of it are closed", address.ip()));
            continue;
        };
        prepare(&stream, limits);
        // Each connection has the configuration of its time: certificates and authorities change.
        let (acceptor, router) = (tls.map(|tls| TlsAcceptor::from(tls.config())), router.clone());
        let (limits, shutdown) = (*limits, shutdown.clone());
        connections.spawn(async move {
            let _taken = taken;
            match acceptor {
                None => {
                    let peer = Peer { address, certificates: Default::default() };
                    serve(stream, Protocol::Http1, peer, router, limits, shutdown).await;
                }
                Some(acceptor) => match is_plain(&stream, &limits, &shutdown).await {
                    Some(false) => encrypted(stream, address, &acceptor, router, limits, shutdown).await,
                    Some(true) => refuse_plain(stream).await,
                    None => tracing::debug!(peer = %address, "connection without a word"),
                },
            }
        });
    }
    connections.close();
    // Each connection ends by itself within the time for draining.
    connections.wait().await;
}

/// A place first: a connection that is accepted has a descriptor.
async fn next(listener: &TcpListener, places: &Places) -> io::Result<(TcpStream, SocketAddr, Place)> {
    let place = places.free().await.ok_or(io::ErrorKind::Other)?;
    let (stream, address) = listener.accept().await?;
    Ok((stream, address, place))
}

/// What is wrong with accepting, told once in a while: it goes wrong as often as somebody calls.
#[derive(Default)]
struct Complaints(Option<Instant>);

impl Complaints {
    fn say(&mut self, problem: &str) {
        let now = Instant::now();
        if self.0.is_none_or(|last| now.duration_since(last) >= COMPLAINT) {
            self.0 = Some(now);
            tracing::warn!("{problem}");
        }
    }
}

fn prepare(stream: &TcpStream, limits: &Limits) {
    // Neither is vital: a kernel that refuses does without.
    _ = stream.set_nodelay(true);
    let keep_alive = TcpKeepalive::new().with_time(limits.tcp_keep_alive).with_interval(limits.tcp_keep_alive);
    _ = SockRef::from(stream).set_tcp_keepalive(&keep_alive);
}

/// Whether the caller speaks HTTP without TLS: the commonest mistake in a probe's definition. `None`: it says nothing, or
/// nobody wants to hear it any more.
async fn is_plain(stream: &TcpStream, limits: &Limits, shutdown: &CancellationToken) -> Option<bool> {
    let mut first = [0];
    let peeked = shutdown.run_until_cancelled(timeout(limits.handshake, stream.peek(&mut first))).await;
    // TLS begins with 0x16, HTTP with the name of a method.
    matches!(peeked, Some(Ok(Ok(1)))).then(|| first[0].is_ascii_uppercase())
}

/// Says so in the words that operators know from everywhere else.
async fn refuse_plain(mut stream: TcpStream) {
    let said = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
                Client sent an HTTP request to an HTTPS server.\n";
    let told = async {
        stream.write_all(said.as_bytes()).await?;
        stream.shutdown().await?;
        // What is closed while something is unread may be cut off before it is told.
        tokio::io::copy(&mut stream.take(1 << 16), &mut tokio::io::sink()).await
    };
    // A caller that does not listen need not be told.
    _ = timeout(TOLD, told).await;
}

/// The handshake, within its time, and then the protocol that was agreed upon.
pub(super) async fn encrypted<S>(
    stream: S,
    address: SocketAddr,
    acceptor: &TlsAcceptor,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = tokio::select! {
        () = shutdown.cancelled() => return,
        handshake = timeout(limits.handshake, acceptor.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(peer = %address, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(peer = %address, limit = ?limits.handshake, "TLS handshake took too long"),
    };
    let session = stream.get_ref().1;
    let protocol = match session.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let certificates =
        session.peer_certificates().unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned());
    let peer = Peer { address, certificates: certificates.collect() };
    serve(stream, protocol, peer, router, limits, shutdown).await;
}
