//! Health probes over plain HTTP on a port that serves TLS (D-370).

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serving::access::{Access, NoAccessMetrics, Reviewers};
use serving::health::Health;
use serving::options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use serving::server::{Limits, Listener};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time-out of every wait in these tests.
const SOON: Duration = Duration::from_secs(30);

/// A port that is served with these options.
struct Port {
    address: SocketAddr,
    _until: DropGuard,
}

impl Port {
    /// Serves health, and `/metrics` for authorized callers, with these paths allowed to everybody.
    fn serve(always_allow_paths: &[&str], limits: Limits) -> Self {
        _ = rustls::crypto::ring::default_provider().install_default();
        let options = ServingOptions {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            ..ServingOptions::default()
        };
        let listener = Listener::bind(&options).unwrap().with_limits(limits);
        let paths: Vec<_> = always_allow_paths
            .iter()
            .map(|path| (*path).to_owned())
            .collect();
        let health = Health::new();
        let plain = health.plain_routes(&paths);
        let authorization = AuthorizationOptions {
            always_allow_paths: paths,
            ..AuthorizationOptions::default()
        };
        let authentication = AuthenticationOptions::default();
        let access = Access::new(
            authentication,
            authorization,
            Reviewers::default(),
            Arc::new(NoAccessMetrics),
        )
        .unwrap();
        let routes = access.guard(health.routes().fallback(serving::not_found));
        let address = listener.local_address();
        let shutdown = CancellationToken::new();
        tokio::spawn(
            listener
                .with_plain_routes(plain)
                .serve(routes, shutdown.clone()),
        );
        Self {
            address,
            _until: shutdown.drop_guard(),
        }
    }

    /// Returns status and body of the answer to a request.
    async fn send(&self, method: &str, scheme: &str, path: &str) -> (u16, String) {
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .timeout(SOON)
            .build()
            .unwrap();
        let url = format!("{scheme}://{}{path}", self.address);
        let response = client
            .request(method.parse().unwrap(), url)
            .send()
            .await
            .unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

#[tokio::test]
async fn plain_http_answers_the_probes_and_tls_answers_as_before() {
    let port = Port::serve(&["/healthz", "/livez", "/readyz"], Limits::standard(0));
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(
            port.send("GET", "http", path).await,
            (200, "ok".to_owned()),
            "{path}"
        );
        assert_eq!(
            port.send("GET", "https", path).await,
            (200, "ok".to_owned()),
            "{path}"
        );
    }
    assert_eq!(port.send("HEAD", "http", "/healthz").await.0, 200);
}

#[tokio::test]
async fn plain_http_answers_nothing_else() {
    let port = Port::serve(&["/healthz", "/metrics", "/debug/*"], Limits::standard(0));
    let refused = (
        400,
        "Client sent an HTTP request to an HTTPS server.\n".to_owned(),
    );
    let others = [
        "/",
        "/metrics",
        "/metrics/slis",
        "/configz",
        "/debug/pprof/profile",
        "/healthz/ping",
        "//healthz",
    ];
    for path in others {
        assert_eq!(port.send("GET", "http", path).await, refused, "{path}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(
            port.send("GET", "http", path).await,
            refused,
            "not in --authorization-always-allow-paths: {path}"
        );
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(
            port.send(method, "http", "/healthz").await,
            refused,
            "{method}"
        );
    }
    assert_eq!(port.send("GET", "http", "/healthz?verbose").await.0, 200);
}

/// Returns what the server sends until it closes a connection that sends these bytes and no more.
async fn until_closed(port: &Port, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(port.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut rest = Vec::new();
    // A reset is an end, too.
    _ = timeout(SOON, stream.read_to_end(&mut rest))
        .await
        .expect("the server closes the connection");
    String::from_utf8_lossy(&rest).into_owned()
}

#[tokio::test]
async fn connections_that_send_too_little_are_closed() {
    let short = Duration::from_millis(100);
    let limits = Limits {
        handshake: short,
        header_read: short,
        ..Limits::standard(0)
    };
    let port = Port::serve(&["/healthz"], limits);
    for bytes in [
        &b""[..],
        b"G",
        b"GET /healthz HTTP/1.1\r\n",
        &[0x16],
        &[0x16, 3, 1],
    ] {
        assert_eq!(until_closed(&port, bytes).await, "", "{bytes:?}");
    }
    assert_eq!(port.send("GET", "http", "/healthz").await.0, 200);
}
