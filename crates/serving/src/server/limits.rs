//! How much and how long (APP-115).

use std::time::Duration;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more wait to be accepted. Without a limit whoever reaches the port could take all file
    /// descriptors of the process, those to the Kubernetes API among them.
    pub connections: usize,
    /// Of these from one address, so that one caller cannot keep out all others; more are closed.
    pub connections_per_address: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its headers; from the beginning of a connection to the end of the
    /// headers of its first request.
    pub header_read: Duration,
    /// Between requests of a connection.
    pub idle: Duration,
    /// While requests are being answered, without any beginning or ending: for a caller that never takes its answer.
    pub busy: Duration,
    /// Bytes of all headers of a request. At least 8 KiB.
    pub header_bytes: u32,
    /// HTTP/2 streams of a connection.
    pub http2_streams: u32,
    /// Bytes of the receive window of an HTTP/2 stream, and of a frame.
    pub http2_buffer: u32,
    /// How often TCP asks a silent peer whether it is still there.
    pub tcp_keep_alive: Duration,
    /// How long requests may take to finish after the shutdown.
    pub drain: Duration,
    /// How often certificates are read again (APP-114).
    pub reload: Duration,
}

impl Limits {
    /// Those of APP-115; `http2_streams`: 100 if zero.
    #[must_use]
    pub fn standard(http2_streams: u32) -> Self {
        Self {
            connections: 500,
            connections_per_address: 200,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            // Longer than the longest profile.
            busy: Duration::from_secs(15 * 60),
            header_bytes: 1 << 20,
            http2_streams: if http2_streams == 0 { 100 } else { http2_streams },
            http2_buffer: 256 << 10,
            tcp_keep_alive: Duration::from_secs(180),
            drain: Duration::from_secs(5),
            // So often that no notification by the file system is missed, which not all file systems have.
            reload: Duration::from_secs(10),
        }
    }
}
