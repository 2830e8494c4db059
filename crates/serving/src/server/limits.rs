//! Limits of a server: sizes, numbers and times (APP-115, D-215).
//!
//! Any client that reaches the port can use all of this without a credential, so the limits together must fit the
//! memory of a small Pod: 224 connections of at most 190 KiB each (received data, and the buffers of TLS and HTTP) and
//! 8 MiB in flight.

use std::time::Duration;

/// Longest URI in bytes; a longer one is answered with 414 before authorization. No path of this program has more than
/// 40 bytes, and a probe names excluded checks in the query.
pub(super) const URI_BYTES: usize = 8 << 10;
/// Bytes of all headers of a request. A front proxy sends a header for each group of its user, which is some kilobytes.
pub(super) const HEADER_BYTES: u32 = 64 << 10;
/// Headers of an HTTP/1.1 request. A user in many groups has more than the library's 100.
pub(super) const HEADERS: usize = 1000;
/// Requests of one HTTP/2 connection at a time. Probes and scrapers send one, the API server opens further connections.
pub(super) const HTTP2_STREAMS: u32 = 10;
/// Bytes of bodies that an HTTP/2 connection may send before they are read: 64 KiB less one is what the protocol begins
/// with.
pub(super) const HTTP2_WINDOW: u32 = (64 << 10) - 1;
/// Bytes that an HTTP/2 connection may receive in its lifetime; after half of them it is drained, so that an active
/// client opens another. A header that the compression stores keeps the buffer in memory in which it arrived, and a
/// hundred of them may be stored: without a limit a connection could hold some megabytes. A scrape has about 1 KiB.
pub(super) const HTTP2_CONNECTION_BYTES: usize = 2 * HEADER_BYTES as usize;
/// Bytes of an HTTP/2 frame that is received; the protocol allows no less.
pub(super) const HTTP2_FRAME: u32 = 16 << 10;

/// Connections of a port at a time. A cluster needs about ten: probes, scrapers, the API server.
pub(super) const CONNECTIONS: usize = 192;
/// Connections among these that only the machine itself may use: the kubelet's probes, which restart the Pod if they
/// fail.
pub(super) const CONNECTIONS_KEPT: usize = 32;
/// Connections beyond all limits that the machine itself may open when its others are all busy. The oldest of them makes
/// room for a new one, busy or not, so that a process of the machine cannot hold them all and make the kubelet's probes
/// fail.
pub(super) const CONNECTIONS_OF_PROBES: usize = 32;
/// Connections of one client, an IPv4 address, an IPv6 /64 or all loopback addresses: three clients cannot take all connections.
pub(super) const CONNECTIONS_PER_CLIENT: usize = 48;

/// Requests of all ports that are being answered at a time; further ones are 503.
pub(super) const REQUESTS: usize = 256;
/// Requests among these that only the machine itself may send.
pub(super) const REQUESTS_KEPT: usize = 32;
/// Bytes of the headers of a probe: a request of the machine itself for the process's health, which counts towards no
/// limit of requests and bytes.
pub(super) const PROBE_BYTES: usize = 1 << 10;
/// Requests of one client at a time.
pub(super) const REQUESTS_PER_CLIENT: usize = 64;

/// Bytes of all requests' headers, and of answers that were not taken yet, on all ports.
pub(super) const BYTES: usize = 8 << 20;
/// Bytes among these that only the machine itself may use.
pub(super) const BYTES_KEPT: usize = 1 << 20;
/// Bytes of one client. The largest answer, a CPU profile, has about one MiB.
pub(super) const BYTES_PER_CLIENT: usize = 4 << 20;

/// Time from the beginning of a request to the last byte of its answer. The API server waits for a webhook for 30 s at
/// most, scrapers and probes for less. A profile extends its own time.
pub(super) const BUSY: Duration = Duration::from_secs(30);

/// Limits of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections. If all are in use, the idlest one is closed; if none is idle, the new one is.
    /// Without a limit, a client that reaches the port could use up all file descriptors of the process, those to the
    /// Kubernetes API among them.
    pub connections: usize,
    /// Connections among these that are kept for clients on the same machine.
    pub connections_kept: usize,
    /// Connections of one client, an IPv4 address or an IPv6 /64.
    pub connections_per_client: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time from the first byte of a request to the end of its headers; from the beginning of a connection to the end
    /// of the headers of its first request.
    pub header_read: Duration,
    /// Time between requests of a connection.
    pub idle: Duration,
    /// Time from the beginning of a request to the last byte of its answer; then its connection is closed. Handlers may
    /// [extend](super::RequestTimeout::extend) it.
    pub busy: Duration,
    /// Bytes of a URI.
    pub uri_bytes: usize,
    /// Bytes of all headers of a request. At least 8 KiB.
    pub header_bytes: u32,
    /// HTTP/2 streams of a connection.
    pub http2_streams: u32,
    /// Interval of TCP keep-alive probes to a silent peer.
    pub tcp_keep_alive: Duration,
    /// Time in which requests may finish after the shutdown begins.
    pub drain: Duration,
    /// Interval at which certificates are read again (APP-114).
    pub reload: Duration,
}

impl Limits {
    /// Returns the product's limits; `http2_streams`: 10 if zero.
    #[must_use]
    pub fn standard(http2_streams: u32) -> Self {
        Self {
            connections: CONNECTIONS,
            connections_kept: CONNECTIONS_KEPT,
            connections_per_client: CONNECTIONS_PER_CLIENT,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            busy: BUSY,
            uri_bytes: URI_BYTES,
            header_bytes: HEADER_BYTES,
            http2_streams: if http2_streams == 0 {
                HTTP2_STREAMS
            } else {
                http2_streams
            },
            tcp_keep_alive: Duration::from_secs(180),
            drain: Duration::from_secs(5),
            // Polling instead of notifications by the file system, which not all file systems have.
            reload: Duration::from_secs(10),
        }
    }
}

/// A limit that was reached; the label `limit` of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// A connection was closed because another client needed its place.
    IdlestConnection,
    /// A new connection was closed: all are busy.
    Connections,
    /// A new connection was closed: all of its client are busy.
    ClientConnections,
    /// A connection was closed because an answer was not taken in time.
    RequestTime,
    /// An HTTP/2 connection was closed because of all that it has sent.
    ConnectionBytes,
    /// A request was answered 414.
    UriLength,
    /// A request was answered 503: too many are being answered.
    Requests,
    /// A request was answered 503: too many bytes are in flight.
    Bytes,
    /// A bearer token was refused because of its length.
    TokenLength,
    /// A TokenReview or SubjectAccessReview was not sent: too many are under way.
    Reviews,
}

impl Limit {
    /// Every limit, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::IdlestConnection,
        Self::Connections,
        Self::ClientConnections,
        Self::RequestTime,
        Self::ConnectionBytes,
        Self::UriLength,
        Self::Requests,
        Self::Bytes,
        Self::TokenLength,
        Self::Reviews,
    ];

    /// Returns the value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdlestConnection => "idlest_connection",
            Self::Connections => "connections",
            Self::ClientConnections => "connections_per_client",
            Self::RequestTime => "request_time",
            Self::ConnectionBytes => "connection_bytes",
            Self::UriLength => "uri_length",
            Self::Requests => "requests_in_flight",
            Self::Bytes => "bytes_in_flight",
            Self::TokenLength => "token_length",
            Self::Reviews => "reviews_in_flight",
        }
    }
}

/// Hook for the metrics of servers. Does nothing by default.
pub trait ServerMetrics: Send + Sync {
    /// Counts `ccm_server_limited_total`: a request or a connection exceeded a limit.
    fn limited(&self, _limit: Limit) {}
}

/// Hook that counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServerMetrics;

impl ServerMetrics for NoServerMetrics {}
