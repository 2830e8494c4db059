//! The server under attack: its process, a child of the test's, must keep answering and stay small.
//!
//! Rules: P-38, D-170, D-217.

#![allow(clippy::unwrap_used, reason = "tests fail by it, their helpers too")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use serving::access::{Access, NoAccessMetrics, Reviewers};
use serving::health::Health;
use serving::options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use serving::server::Listener;
use serving::webhook::{Handler, NoWebhookMetrics, Webhook, WebhookLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

/// Says in the child which server it is.
const ROLE: &str = "SERVING_TEST_ROLE";
/// Longest that anything may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest that callers are waited for who get no answer, as they should not.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum memory of the process, in KiB.
const BOUND: u64 = 64 << 10;

/// Runs the child process, which ends with its standard input.
#[test]
#[ignore = "the other tests of this file start it"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = ServingOptions {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            port: 0,
            ..Default::default()
        };
        let listener = Listener::bind(&options).unwrap();
        println!("PORT {}", listener.local_address().port());
        let routes = if role == "webhook" {
            webhook()
        } else {
            secure()
        };
        let shutdown = CancellationToken::new();
        std::thread::spawn({
            let shutdown = shutdown.clone();
            move || {
                _ = std::io::stdin().read(&mut [0]);
                shutdown.cancel();
            }
        });
        listener.serve(routes, shutdown).await;
    });
}

fn secure() -> Router {
    let who = AuthenticationOptions::default();
    let what = AuthorizationOptions::default();
    let access = Access::new(who, what, Reviewers::default(), Arc::new(NoAccessMetrics)).unwrap();
    access.guard(Health::new().routes().fallback(serving::not_found))
}

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(role: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once("PORT ")?.1.parse().ok());
        Self {
            process,
            port: port.expect("it prints its port"),
        }
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the most memory that it has had, in KiB.
    fn peak(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn assert_small(&self, before: u64) {
        let peak = self.peak();
        println!("peak of the server: {before} KiB before, {peak} KiB after");
        assert!(
            peak < BOUND,
            "{before} KiB before the attack, {peak} KiB at its height"
        );
    }

    /// Returns the status of `/healthz`, requested as by the kubelet.
    async fn probe(&self) -> String {
        let asked = async {
            let mut stream = connect(self.address(), 1, b"http/1.1").await?;
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                .await
                .ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            answer.lines().next().map(str::to_owned)
        };
        timeout(TIMEOUT, asked)
            .await
            .ok()
            .flatten()
            .unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Certificate verifier that accepts any certificate.
#[derive(Debug)]
struct Anything(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns a connection from 127.0.0.`from`.
async fn connect(address: SocketAddr, from: u8, protocol: &[u8]) -> Option<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((Ipv4Addr::new(127, 0, 0, from), 0).into())
        .unwrap();
    let tcp = socket.connect(address).await.ok()?;
    TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), tcp)
        .await
        .ok()
}

/// Returns an HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the HTTP/2 preface with SETTINGS that leave no window for answers; if wished, those of the server are
/// acknowledged.
fn preface(acknowledged: bool) -> Vec<u8> {
    let settings = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]),
    ]
    .concat();
    if acknowledged {
        [settings, frame(4, 1, 0, &[])].concat()
    } else {
        settings
    }
}

/// Encodes `GET https://x` with a path of `path` bytes: HEADERS, and CONTINUATION if that is too small.
fn get(stream: u32, path: usize) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x41, 1, b'x', 0x04, 0x7f];
    let mut rest = path - 0x7f;
    while rest >= 0x80 {
        block.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
    block.push(b'/');
    block.extend(std::iter::repeat_n(b'x', path - 1));
    let parts: Vec<_> = block.chunks(16 << 10).collect();
    let of = |(n, part): (usize, &&[u8])| {
        let last = if n + 1 == parts.len() { 4 } else { 0 };
        if n == 0 {
            frame(1, 1 | last, stream, part)
        } else {
            frame(9, last, stream, part)
        }
    };
    parts.iter().enumerate().flat_map(of).collect()
}

/// Sends `bytes` and a PING, and waits until that is answered or the connection has ended. Returns the connection, which the
/// server is to believe alive.
async fn send_http2(
    address: SocketAddr,
    from: u8,
    bytes: Arc<Vec<u8>>,
) -> Option<TlsStream<TcpStream>> {
    let mut stream = connect(address, from, b"h2").await?;
    let sent = async {
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let writing = async {
            write.write_all(&bytes).await?;
            write.write_all(&frame(6, 0, 0, b"answered")).await?;
            write.flush().await
        };
        let reading = async {
            let mut last = Vec::new();
            let mut buffer = vec![0; 1 << 14];
            while let Ok(n @ 1..) = read.read(&mut buffer).await {
                last.extend_from_slice(&buffer[..n]);
                if last.windows(8).any(|bytes| bytes == b"answered") {
                    break;
                }
                last.drain(..last.len().saturating_sub(7));
            }
        };
        _ = tokio::join!(writing, reading);
    };
    _ = timeout(WRITE_TIMEOUT, sent).await;
    Some(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_streams_without_window_and_long_paths_do_not_fill_the_memory() {
    for (path, acknowledged) in [
        (60_000, false),
        (60_000, true),
        (8_000, false),
        (8_000, true),
        (200, true),
    ] {
        let server = Server::start("secure");
        assert_eq!(server.probe().await, "HTTP/1.1 200 OK");
        let before = server.peak();
        let address = server.address();
        let requests: Vec<_> = (0..100).flat_map(|n| get(2 * n + 1, path)).collect();
        let requests = Arc::new([preface(acknowledged), requests].concat());
        let mut attack = JoinSet::new();
        for n in 0..200_u8 {
            attack.spawn(send_http2(address, 2 + n / 40, Arc::clone(&requests)));
        }
        let connections = attack.join_all().await;
        assert_eq!(
            server.probe().await,
            "HTTP/1.1 200 OK",
            "the kubelet is answered"
        );
        println!(
            "{path} bytes, acknowledged: {acknowledged}, {} connections",
            connections.iter().flatten().count()
        );
        server.assert_small(before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http1_clients_that_read_nothing_do_not_fill_the_memory() {
    let server = Server::start("secure");
    assert_eq!(server.probe().await, "HTTP/1.1 200 OK");
    let before = server.peak();
    let address = server.address();
    let request = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(8_000));
    let requests = Arc::new(request.repeat(250));
    let mut attack = JoinSet::new();
    for n in 0..200_u8 {
        let requests = Arc::clone(&requests);
        attack.spawn(async move {
            let mut stream = connect(address, 2 + n / 40, b"http/1.1").await?;
            _ = timeout(WRITE_TIMEOUT, stream.write_all(requests.as_bytes())).await;
            Some(stream)
        });
    }
    let _connections = attack.join_all().await;
    assert_eq!(
        server.probe().await,
        "HTTP/1.1 200 OK",
        "the kubelet is answered"
    );
    server.assert_small(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_tokens_do_not_fill_the_memory() {
    let server = Server::start("secure");
    assert_eq!(server.probe().await, "HTTP/1.1 200 OK");
    let before = server.peak();
    let address = server.address();
    let token = "x".repeat(878 << 10);
    let request = Arc::new(format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    ));
    let mut attack = JoinSet::new();
    for n in 0..150_u8 {
        let request = Arc::clone(&request);
        attack.spawn(async move {
            let mut stream = connect(address, 2 + n / 40, b"http/1.1").await?;
            _ = timeout(WRITE_TIMEOUT, stream.write_all(request.as_bytes())).await;
            Some(stream)
        });
    }
    let _connections = attack.join_all().await;
    assert_eq!(
        server.probe().await,
        "HTTP/1.1 200 OK",
        "the kubelet is answered"
    );
    server.assert_small(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_http2_connections_of_three_clients_do_not_close_the_port() {
    let server = Server::start("secure");
    let before = server.peak();
    let address = server.address();
    let one = Arc::new([preface(true), get(1, 200)].concat());
    let mut held = Vec::new();
    for from in 2..5 {
        let mut attack = JoinSet::new();
        for _ in 0..200 {
            attack.spawn(send_http2(address, from, Arc::clone(&one)));
        }
        held.extend(attack.join_all().await);
    }
    assert_eq!(
        server.probe().await,
        "HTTP/1.1 200 OK",
        "the kubelet is answered"
    );
    server.assert_small(before);
}

/// Authorizer that allows everything.
struct AllowAll;

#[serving::webhook::async_trait]
impl Handler for AllowAll {
    async fn handle(&self, _request: serving::webhook::AdmissionRequest) -> Result<Value, String> {
        Ok(json!({"allowed": true}))
    }
}

fn webhook() -> Router {
    let webhook = Webhook {
        name: "all".into(),
        path: "/all".into(),
        handler: Arc::new(AllowAll),
    };
    serving::webhook::router(
        [webhook],
        WebhookLimits::default(),
        Arc::new(NoWebhookMetrics),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_of_many_small_objects_does_not_fill_the_memory() {
    let server = Server::start("webhook");
    let before = server.peak();
    let address = server.address();
    let object = format!("[{}{{}}]", "{},".repeat((13 << 19) / 3));
    let review = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"17","object":{object}}}}}"#
    );
    let request = format!(
        "POST /all HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{review}",
        review.len()
    );
    for _ in 0..3 {
        let mut stream = connect(address, 2, b"http/1.1").await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // Without the flush the end of a large body may stay in the client's TLS buffer.
        stream.flush().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""uid":"17""#),
            "{answer}"
        );
    }
    server.assert_small(before);
}
