//! Rules: APP-113, APP-115, D-215, D-216.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use parking_lot::Mutex;
use reqwest::tls::TlsInfo;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::connection::{Protocol, Service, serve};
use super::share::Client;
use super::*;
use crate::issuing::{Authority, Issued, TIMEOUT};
use crate::options::{AuthenticationOptions, AuthorizationOptions, SniPair, TlsVersion};

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn routes() -> Router {
    Router::new()
        .route("/", get(async || "hello"))
        .route("/slow", get(async || sleep(s(3)).await))
        .route("/slower", get(slower))
        .route("/stuck", get(async || sleep(s(300)).await))
        .route("/large", get(async || "x".repeat(1 << 20)))
        .route(
            "/panic",
            get(async || -> &'static str { panic!("a defect") }),
        )
        .fallback(crate::not_found)
}

async fn slower(Extension(timeout): Extension<RequestTimeout>) {
    timeout.extend(s(300));
    sleep(s(300)).await;
}

fn service(limits: Limits, budget: &Budget, shutdown: &CancellationToken) -> Service {
    let budget = budget.clone();
    let shutdown = shutdown.clone();
    Service {
        router: routes(),
        plain: None,
        limits,
        budget,
        metrics: Arc::new(NoServerMetrics),
        shutdown,
    }
}

fn here() -> Client {
    Client::new(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())
}

/// A connection in memory, under a clock that stands still.
struct InMemory {
    stream: DuplexStream,
    server: tokio::task::JoinHandle<()>,
    budget: Budget,
    shutdown: CancellationToken,
}

impl InMemory {
    fn open(protocol: Protocol, limits: Limits) -> Self {
        let (stream, theirs) = duplex(1 << 16);
        let budget = Budget::default();
        let shutdown = CancellationToken::new();
        let peer = Peer {
            address: ([127, 0, 0, 1], 1).into(),
            certificates: Default::default(),
        };
        let service = service(limits, &budget, &shutdown);
        let server = tokio::spawn(serve(
            theirs,
            protocol,
            peer,
            here(),
            Activity::new(),
            service,
        ));
        Self {
            stream,
            server,
            budget,
            shutdown,
        }
    }

    fn http1() -> Self {
        Self::open(Protocol::Http1, Limits::standard(0))
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads one response with a short body.
    async fn answer(&mut self) -> String {
        let mut buffer = vec![0; 1 << 16];
        let read = self.stream.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    }

    /// Reads until the server closes the connection.
    async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        _ = self.stream.read_to_end(&mut rest).await;
        String::from_utf8_lossy(&rest).into_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_never_ends_is_cut_off_after_its_time_however_slowly_it_comes() {
    let begun = Instant::now();
    let mut connection = InMemory::http1();
    connection.send("GET / HTTP/1.1\r\n").await;
    for n in 0.. {
        sleep(s(1)).await;
        let line = format!("x-{n}: slow\r\n");
        if connection.server.is_finished()
            || connection.stream.write_all(line.as_bytes()).await.is_err()
        {
            break;
        }
    }
    assert!(
        (32..=33).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_is_asked_is_closed() {
    let begun = Instant::now();
    let mut connection = InMemory::http1();
    assert_eq!(connection.rest().await, "");
    assert_eq!(begun.elapsed(), s(32));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_for_its_time_and_a_second_header_has_its_own() {
    let mut connection = InMemory::http1();
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(connection.answer().await.ends_with("hello"));
    sleep(s(80)).await;
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(
        connection.answer().await.ends_with("hello"),
        "it was idle for 80 s only"
    );
    let begun = Instant::now();
    assert_eq!(connection.rest().await, "");
    assert_eq!(begun.elapsed(), s(90));

    let mut connection = InMemory::http1();
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    connection.answer().await;
    sleep(s(50)).await;
    connection.send("GET / HT").await;
    let begun = Instant::now();
    assert_eq!(connection.rest().await, "");
    assert_eq!(begun.elapsed(), s(32), "from its first byte");
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_extend_the_time_of_its_request() {
    let mut connection = InMemory::http1();
    connection
        .send("GET /slower HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let begun = Instant::now();
    assert!(connection.answer().await.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(begun.elapsed(), s(300));

    let mut connection = InMemory::http1();
    connection
        .send("GET /stuck HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let begun = Instant::now();
    assert_eq!(
        (connection.rest().await.as_str(), begun.elapsed()),
        ("", s(30)),
        "without that it has 30 s"
    );
}

impl InMemory {
    /// Sends the HTTP/2 preface with an empty window for responses.
    async fn open_http2_without_window() -> Self {
        let mut connection = Self::open(Protocol::Http2, Limits::standard(0));
        connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        connection
            .stream
            .write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0])
            .await
            .unwrap();
        connection
    }

    /// Sends the complete HEADERS of a stream: GET https / with authority x.
    async fn get_root(&mut self, stream: u8) {
        let headers = [0x82, 0x87, 0x84, 0x41, 1, b'x'];
        let length = u8::try_from(headers.len()).unwrap();
        self.stream
            .write_all(&[0, 0, length, 1, 5, 0, 0, 0, stream])
            .await
            .unwrap();
        self.stream.write_all(&headers).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_http2_answer_that_is_not_taken_ends_the_connection_after_30_s() {
    let mut connection = InMemory::open_http2_without_window().await;
    connection.get_root(1).await;
    let begun = Instant::now();
    sleep(s(20)).await;
    connection.get_root(3).await;
    sleep(s(1)).await;
    assert_eq!(connection.budget.in_flight().0, 2);
    let text = connection.rest().await;
    assert!(!text.contains("hello"), "there was no window for it");
    assert_eq!(begun.elapsed(), s(30), "the second request gains nothing");
    sleep(s(1)).await;
    assert_eq!(connection.budget.in_flight(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_is_drained_after_64_kib_and_closed_after_128() {
    let mut connection = InMemory::open_http2_without_window().await;
    // Frames of an unknown type.
    let ignored = [vec![0, 0x3f, 0xf7, 0x77, 0, 0, 0, 0, 0], vec![0; 0x3ff7]].concat();
    for _ in 0..5 {
        connection.stream.write_all(&ignored).await.unwrap();
    }
    sleep(Duration::from_millis(1)).await;
    let mut text = vec![0; 1 << 10];
    let read = connection.stream.read(&mut text).await.unwrap();
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    assert!(
        text[..read].windows(9).any(|bytes| bytes == goaway),
        "{:?}",
        &text[..read]
    );
    let mut written = 0;
    while written < 10 && connection.stream.write_all(&ignored).await.is_ok() {
        written += 1;
        sleep(Duration::from_millis(1)).await;
    }
    assert!(written < 5, "{written}");
}

#[tokio::test(start_paused = true)]
async fn an_http1_answer_that_is_not_taken_ends_the_connection_after_30_s() {
    let mut connection = InMemory::http1();
    connection
        .send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let begun = Instant::now();
    sleep(s(1)).await;
    assert_eq!(
        connection.budget.in_flight(),
        (1, 1 << 20),
        "it is in flight until it is taken"
    );
    let budget = connection.budget.clone();
    (&mut connection.server).await.unwrap();
    assert_eq!(begun.elapsed(), s(30));
    assert_eq!(budget.in_flight(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_http1_client_that_pipelines_and_reads_nothing_is_cut_off() {
    let mut connection = InMemory::http1();
    let begun = Instant::now();
    let requests = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    while connection
        .stream
        .write_all(requests.as_bytes())
        .await
        .is_ok()
    {
        let (requests, bytes) = connection.budget.in_flight();
        assert!(requests <= 1000 && bytes <= 1 << 16, "{requests} {bytes}");
    }
    assert!(begun.elapsed() <= s(32), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_uri_beyond_8_kib_is_414_without_a_body() {
    let mut connection = InMemory::http1();
    let path = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
    connection
        .send(&format!(
            "GET {} HTTP/1.1\r\nhost: x\r\n\r\n",
            path(8 << 10)
        ))
        .await;
    assert!(
        connection.answer().await.starts_with("HTTP/1.1 404 "),
        "8 KiB are answered"
    );
    connection
        .send(&format!(
            "GET {} HTTP/1.1\r\nhost: x\r\n\r\n",
            path((8 << 10) + 1)
        ))
        .await;
    let answer = connection.answer().await;
    assert!(
        answer.starts_with("HTTP/1.1 414 ") && answer.contains("content-length: 0\r\n"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_what_a_client_may_have_in_flight_are_503() {
    let mut first = InMemory::http1();
    let held: Vec<_> = std::iter::from_fn(|| first.budget.begin(here(), 10).ok()).collect();
    assert_eq!(held.len(), 64);
    first.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = first.answer().await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1\r\n"),
        "{answer}"
    );
    drop(held);
    first.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(first.answer().await.ends_with("hello"));
}

#[tokio::test]
async fn client_without_tls_gets_an_error_in_plain_text() {
    let running = Running::start(Listener::bind(&free()).unwrap(), routes());
    let url = format!("http://{}/healthz", running.here());
    let response = running
        .client()
        .build()
        .unwrap()
        .get(url)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 400);
    assert_eq!(
        response.text().await.unwrap(),
        "Client sent an HTTP request to an HTTPS server.\n"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_flood_of_idle_connections_makes_room_for_others() {
    let few = Limits {
        connections: 3,
        connections_kept: 0,
        connections_per_client: 3,
        ..Limits::standard(0)
    };
    let running = Running::start(Listener::bind(&free()).unwrap().with_limits(few), routes());
    let connect = async || {
        tokio::net::TcpStream::connect(running.here())
            .await
            .unwrap()
    };
    let mut flood = [connect().await, connect().await, connect().await];
    let response = running
        .client()
        .build()
        .unwrap()
        .get(running.url("localhost", "/"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let mut byte = [0];
    let ended = timeout(TIMEOUT, flood[0].read(&mut byte))
        .await
        .expect("the idlest one is closed");
    assert!(matches!(ended, Ok(0) | Err(_)));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn headers_beyond_the_limit_are_431() {
    let mut connection = InMemory::open(
        Protocol::Http1,
        Limits {
            header_bytes: 8192,
            ..Limits::standard(0)
        },
    );
    let header = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "y".repeat(20_000)
    );
    connection.send(&header).await;
    let answer = connection.rest().await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");

    let mut connection = InMemory::http1();
    let header = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "y".repeat(20_000)
    );
    connection.send(&header).await;
    assert!(
        connection.answer().await.ends_with("hello"),
        "64 KiB are allowed"
    );

    let mut connection = InMemory::http1();
    let header = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "y".repeat(70_000)
    );
    // The answer may be there before all of this is sent.
    _ = connection.stream.write_all(header.as_bytes()).await;
    assert!(
        connection.rest().await.starts_with("HTTP/1.1 431 "),
        "and no more"
    );

    let groups = |n| "x-remote-group: some\r\n".repeat(n);
    let mut connection = InMemory::http1();
    connection
        .send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", groups(900)))
        .await;
    assert!(
        connection.answer().await.ends_with("hello"),
        "somebody in many groups"
    );
    connection
        .send(&format!(
            "GET / HTTP/1.1\r\nhost: x\r\n{}\r\n",
            groups(1000)
        ))
        .await;
    assert!(connection.answer().await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_answers_500_and_the_connection_goes_on() {
    let mut connection = InMemory::http1();
    connection
        .send("GET /panic HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(connection.answer().await.starts_with("HTTP/1.1 500 "));
    connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = connection.answer().await;
    assert!(
        answer.contains("cache-control: no-cache, private") && answer.ends_with("hello"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_requests_and_closes_idle_connections() {
    let mut busy = InMemory::http1();
    let mut idle = InMemory::http1();
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    idle.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    idle.answer().await;
    sleep(s(1)).await;
    let begun = Instant::now();
    busy.shutdown.cancel();
    idle.shutdown.cancel();
    assert_eq!((idle.rest().await.as_str(), begun.elapsed()), ("", s(0)));
    let answer = busy.rest().await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("connection: close"),
        "{answer}"
    );
    assert_eq!(begun.elapsed(), s(2));
    busy.server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_at_the_shutdown_is_given_up() {
    let mut connection = InMemory::http1();
    connection
        .send("GET /slower HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    sleep(s(1)).await;
    let begun = Instant::now();
    connection.shutdown.cancel();
    assert_eq!(
        (connection.rest().await.as_str(), begun.elapsed()),
        ("", s(5))
    );
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_on_which_nothing_is_asked_is_closed_too() {
    let begun = Instant::now();
    let mut connection = InMemory::open(Protocol::Http2, Limits::standard(0));
    connection.rest().await;
    assert_eq!(begun.elapsed(), s(32));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_ends_is_cut_off() {
    let options = ServingOptions::default();
    let certificates = Certificates::load(&options, jiff::Timestamp::now()).unwrap();
    let acceptor =
        tokio_rustls::TlsAcceptor::from(Tls::new(&options, certificates).unwrap().config());
    let (mut stream, theirs) = duplex(1024);
    let begun = Instant::now();
    let server = tokio::spawn(async move {
        let shutdown = CancellationToken::new();
        let service = service(Limits::standard(0), &Budget::default(), &shutdown);
        accept::encrypted(
            theirs,
            ([127, 0, 0, 1], 1).into(),
            here(),
            &acceptor,
            Activity::new(),
            service,
        )
        .await;
    });
    stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    server.await.unwrap();
    assert_eq!(begun.elapsed(), s(10));
}

/// A server with real sockets.
struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(listener: Listener, router: Router) -> Self {
        let address = listener.local_address();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(listener.serve(router, shutdown.clone()));
        Self {
            address,
            shutdown,
            task,
        }
    }

    fn client(&self) -> reqwest::ClientBuilder {
        _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .tls_info(true)
            .timeout(TIMEOUT);
        // All names of the tests resolve to this server.
        ["a.example.com", "b.example.com", "example.com", "localhost"]
            .into_iter()
            .fold(builder, |builder, name| builder.resolve(name, self.here()))
    }

    fn here(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.address.port()).into()
    }

    fn url(&self, name: &str, path: &str) -> String {
        format!("https://{name}:{}{path}", self.address.port())
    }

    /// Returns the certificate that the server shows for this name.
    async fn certificate(&self, name: &str) -> Vec<u8> {
        let client = self.client().build().unwrap();
        let response = client.get(self.url(name, "/")).send().await.unwrap();
        response
            .extensions()
            .get::<TlsInfo>()
            .unwrap()
            .peer_certificate()
            .unwrap()
            .to_vec()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        timeout(TIMEOUT, self.task).await.unwrap().unwrap();
    }
}

fn free() -> ServingOptions {
    ServingOptions {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        ..ServingOptions::default()
    }
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_and_the_first_alone_on_demand() {
    for (disable_http2, expected) in [
        (false, http::Version::HTTP_2),
        (true, http::Version::HTTP_11),
    ] {
        let listener = Listener::bind(&ServingOptions {
            disable_http2,
            ..free()
        })
        .unwrap();
        let running = Running::start(listener, routes());
        let response = running
            .client()
            .build()
            .unwrap()
            .get(running.url("localhost", "/"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.version(), expected);
        assert_eq!(response.headers()["cache-control"], "no-cache, private");
        assert_eq!(response.text().await.unwrap(), "hello");
        let old = running.client().http1_only().build().unwrap();
        let response = old
            .get(running.url("localhost", "/nothing"))
            .send()
            .await
            .unwrap();
        assert_eq!(
            (response.version(), response.status().as_u16()),
            (http::Version::HTTP_11, 404)
        );
        running.stop().await;
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_with_its_flag() {
    let first = Listener::bind(&free()).unwrap();
    let port = first.local_address().port();
    let options = ServingOptions {
        port,
        port_flag: "--webhook-secure-port",
        ..free()
    };
    let text = Listener::bind(&options).map(drop).unwrap_err().to_string();
    let stem = format!("failed to create listener: failed to listen on 127.0.0.1:{port}: ");
    assert!(
        text.starts_with(&stem) && text.contains("choose another port with --webhook-secure-port"),
        "{text}"
    );
    assert!(Listener::bind_plain(Ipv4Addr::LOCALHOST.into(), port, "--metrics-port").is_err());

    // An unspecified address binds the port in both families, and fails if either is in use.
    let everywhere = ServingOptions {
        port,
        ..ServingOptions::default()
    };
    let text = Listener::bind(&everywhere)
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(&format!("failed to listen on 0.0.0.0:{port}: ")),
        "{text}"
    );
}

#[tokio::test]
async fn a_port_can_be_shared_if_both_want_it() {
    let first = Listener::bind(&ServingOptions {
        permit_port_sharing: true,
        ..free()
    })
    .unwrap();
    let port = first.local_address().port();
    assert!(
        Listener::bind(&ServingOptions {
            port,
            permit_port_sharing: true,
            ..free()
        })
        .is_ok()
    );
    assert!(Listener::bind(&ServingOptions { port, ..free() }).is_err());
}

#[tokio::test]
async fn the_plain_listener_serves_without_tls_and_without_asking_who_it_is() {
    let listener = Listener::bind_plain(Ipv4Addr::LOCALHOST.into(), 0, "--metrics-port").unwrap();
    let running = Running::start(listener, routes());
    let url = format!("http://{}/", running.here());
    assert_eq!(
        running
            .client()
            .build()
            .unwrap()
            .get(url)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "hello"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_generated_pair_is_stored_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let cert_dir = directory.path().join("deep/in/there");
    let options = ServingOptions {
        cert_dir: Some(cert_dir.clone()),
        ..free()
    };
    let running = Running::start(Listener::bind(&options).unwrap(), routes());
    let first = running.certificate("localhost").await;
    running.stop().await;
    let mode = |name: &str| {
        std::fs::metadata(cert_dir.join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    let crt = "cloud-controller-manager.crt";
    assert_eq!(
        (mode(crt), mode("cloud-controller-manager.key"), mode(".")),
        (0o644, 0o600, 0o755)
    );
    assert_eq!(
        std::fs::read_to_string(cert_dir.join(crt))
            .unwrap()
            .matches("BEGIN")
            .count(),
        2,
        "leaf and authority"
    );

    let running = Running::start(Listener::bind(&options).unwrap(), routes());
    assert_eq!(running.certificate("localhost").await, first);
    running.stop().await;

    std::fs::remove_file(cert_dir.join("cloud-controller-manager.key")).unwrap();
    let text = Listener::bind(&options).map(drop).unwrap_err().to_string();
    assert!(
        text.contains(".crt exists but ") && text.contains(".key does not: "),
        "{text}"
    );
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_said() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = ServingOptions {
        cert_dir: Some(file.path().join("below-a-file")),
        ..free()
    };
    let text = Listener::bind(&options).map(drop).unwrap_err().to_string();
    assert!(
        text.starts_with("error creating self-signed certificates: cannot write "),
        "{text}"
    );
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let old = authority.server(&["localhost"]);
    let new = authority.server(&["localhost"]);
    let options = ServingOptions {
        certificate: Some(old.write(directory.path(), "tls")),
        ..free()
    };
    let quick = Limits {
        reload: Duration::from_millis(20),
        ..Limits::standard(0)
    };
    let running = Running::start(
        Listener::bind(&options).unwrap().with_limits(quick),
        routes(),
    );
    assert_eq!(running.certificate("localhost").await, old.der().to_vec());
    new.write(directory.path(), "tls");
    let renewed = async {
        while running.certificate("localhost").await != new.der().to_vec() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, renewed)
        .await
        .expect("the new certificate is shown");
    running.stop().await;
}

#[tokio::test]
async fn a_pair_that_does_not_fit_is_said_with_both_files() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let files = authority
        .server(&["localhost"])
        .write(directory.path(), "tls");
    std::fs::write(&files.key, authority.server(&["localhost"]).key_pem()).unwrap();
    let options = ServingOptions {
        certificate: Some(files),
        ..free()
    };
    let text = Listener::bind(&options).map(drop).unwrap_err().to_string();
    assert!(
        text.contains("tls.crt") && text.contains("tls.key"),
        "{text}"
    );
    let missing = crate::options::CertificateFiles {
        certificate: "/nowhere/a".into(),
        key: "/nowhere/b".into(),
    };
    let text = Listener::bind(&ServingOptions {
        certificate: Some(missing),
        ..free()
    })
    .map(drop)
    .unwrap_err();
    assert!(
        text.to_string().starts_with("cannot read /nowhere/a: "),
        "{text}"
    );
}

#[tokio::test]
async fn the_server_name_chooses_the_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let issue = |name: &str, names: &[&str]| {
        let issued = authority.server(names);
        (issued.write(directory.path(), name), issued.der().to_vec())
    };
    let (default, default_der) = issue("default", &["default.example.com"]);
    // Written names go before those in a certificate; exact ones before wildcards.
    let (wildcard, wildcard_der) = issue("wildcard", &["wrong.example.com"]);
    let (extracted, extracted_der) = issue("extracted", &["b.example.com", "a.example.com"]);
    let (exact, exact_der) = issue("exact", &["other.example.com"]);
    let pair = |files, names: &[&str]| SniPair {
        files,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let sni = vec![
        pair(wildcard, &["*.example.com"]),
        pair(extracted, &[]),
        pair(exact, &["A.example.com"]),
    ];
    let options = ServingOptions {
        certificate: Some(default),
        sni,
        ..free()
    };
    let running = Running::start(Listener::bind(&options).unwrap(), routes());
    assert_eq!(
        running.certificate("a.example.com").await,
        exact_der,
        "written"
    );
    assert_eq!(
        running.certificate("b.example.com").await,
        extracted_der,
        "in the certificate, but exact"
    );
    assert_eq!(
        running.certificate("example.com").await,
        default_der,
        "a wildcard is for one label"
    );
    assert_eq!(
        running.certificate("127.0.0.1").await,
        default_der,
        "no name at all"
    );
    let client = running
        .client()
        .resolve("c.example.com", running.here())
        .build()
        .unwrap();
    let response = client
        .get(running.url("c.example.com", "/"))
        .send()
        .await
        .unwrap();
    assert_eq!(
        response
            .extensions()
            .get::<TlsInfo>()
            .unwrap()
            .peer_certificate()
            .unwrap(),
        wildcard_der
    );
    running.stop().await;
}

/// Performs a TLS handshake with this configuration and returns the negotiated version.
async fn handshake(
    address: SocketAddr,
    config: ClientConfig,
) -> Result<rustls::ProtocolVersion, String> {
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector
        .connect(name, tcp)
        .await
        .map_err(|error| error.to_string())?;
    Ok(stream.get_ref().1.protocol_version().unwrap())
}

fn trusting(
    authority: &Authority,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(rustls::pki_types::CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[tokio::test]
async fn versions_below_the_floor_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let certificate = Some(
        authority
            .server(&["localhost"])
            .write(directory.path(), "tls"),
    );
    let tls12 = || trusting(&authority, &[&rustls::version::TLS12]);
    for (min_version, spoken) in [(TlsVersion::V1_2, true), (TlsVersion::V1_3, false)] {
        let options = ServingOptions {
            min_version,
            certificate: certificate.clone(),
            ..free()
        };
        let running = Running::start(Listener::bind(&options).unwrap(), routes());
        assert_eq!(
            handshake(running.here(), tls12()).await.is_ok(),
            spoken,
            "{min_version:?}"
        );
        let newest = handshake(running.here(), trusting(&authority, rustls::ALL_VERSIONS)).await;
        assert_eq!(newest, Ok(rustls::ProtocolVersion::TLSv1_3));
        running.stop().await;
    }
}

#[tokio::test]
async fn client_certificates_are_asked_for_and_judged_per_request() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let other = Authority::new("other");
    let file = directory.path().join("ca.crt");
    std::fs::write(&file, &ours.pem).unwrap();
    let authentication = AuthenticationOptions {
        client_ca_file: Some(file),
        ..Default::default()
    };
    let metrics = Arc::new(crate::access::NoAccessMetrics);
    let access = crate::access::Access::new(
        authentication,
        AuthorizationOptions::default(),
        crate::access::Reviewers::default(),
        metrics,
    )
    .unwrap();
    let listener = Listener::bind(&free())
        .unwrap()
        .with_client_cas(access.client_cas());
    let running = Running::start(listener, access.guard(routes()));
    let status = async |client: reqwest::ClientBuilder| {
        let response = client
            .build()
            .unwrap()
            .get(running.url("localhost", "/"))
            .send()
            .await
            .unwrap();
        response.status().as_u16()
    };
    let with = |issued: &Issued| {
        running
            .client()
            .identity(reqwest::Identity::from_pem(issued.pem().as_bytes()).unwrap())
    };
    assert_eq!(status(running.client()).await, 403, "none is required");
    assert_eq!(
        status(with(&ours.client("jane", &["system:masters"]))).await,
        200
    );
    assert_eq!(status(with(&ours.client("jane", &[]))).await, 403);
    assert_eq!(status(with(&ours.expired_client("jane"))).await, 401);
    assert_eq!(
        status(with(&other.client("jane", &["system:masters"]))).await,
        401
    );
    running.stop().await;
}

/// Records the authorities that a server requests.
#[derive(Debug, Default)]
struct Hints(Mutex<Vec<Vec<u8>>>);

impl ResolvesClientCert for Hints {
    fn resolve(
        &self,
        hints: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        *self.0.lock() = hints.iter().map(|hint| hint.to_vec()).collect();
        None
    }
    fn has_certs(&self) -> bool {
        true
    }
}

/// Shows a certificate whose key it has not.
#[derive(Debug)]
struct Thief(Arc<rustls::sign::CertifiedKey>);

impl ResolvesClientCert for Thief {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_ends_the_handshake() {
    use rustls::pki_types::pem::PemObject;
    let directory = tempfile::tempdir().unwrap();
    let server = Authority::new("servers");
    let clients = Authority::new("clients");
    let certificate = Some(server.server(&["localhost"]).write(directory.path(), "tls"));
    let listener = Listener::bind(&ServingOptions {
        certificate,
        ..free()
    })
    .unwrap();
    let running = Running::start(
        listener.with_client_cas(crate::access::ClientCas::default()),
        routes(),
    );
    let jane = clients.client("jane", &["system:masters"]);
    let thief = clients.client("thief", &[]);
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(thief.key_pem().as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    for (versions, shown, good) in [
        (&[&rustls::version::TLS13], thief.der(), true),
        (&[&rustls::version::TLS13], jane.der(), false),
        (&[&rustls::version::TLS12], thief.der(), true),
        (&[&rustls::version::TLS12], jane.der(), false),
    ] {
        let mut config = trusting(&server, versions);
        let pair = rustls::sign::CertifiedKey::new(vec![shown], Arc::clone(&key));
        config.client_auth_cert_resolver = Arc::new(Thief(Arc::new(pair)));
        let tcp = tokio::net::TcpStream::connect(running.here())
            .await
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connected = tokio_rustls::TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await;
        let mut answer = String::new();
        if let Ok(mut stream) = connected {
            _ = stream
                .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                .await;
            _ = timeout(TIMEOUT, stream.read_to_string(&mut answer))
                .await
                .unwrap();
        }
        assert_eq!(answer.ends_with("hello"), good, "{versions:?} {answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn clients_are_told_which_authorities_count() {
    let directory = tempfile::tempdir().unwrap();
    let server = Authority::new("servers");
    let clients = Authority::new("clients");
    let file = directory.path().join("ca.crt");
    std::fs::write(&file, clients.pem.repeat(2)).unwrap();
    let authentication = AuthenticationOptions {
        client_ca_file: Some(file),
        ..Default::default()
    };
    let access = crate::access::Access::new(
        authentication,
        AuthorizationOptions::default(),
        crate::access::Reviewers::default(),
        Arc::new(crate::access::NoAccessMetrics),
    )
    .unwrap();
    let certificate = Some(server.server(&["localhost"]).write(directory.path(), "tls"));
    let listener = Listener::bind(&ServingOptions {
        certificate,
        ..free()
    })
    .unwrap();
    let running = Running::start(listener.with_client_cas(access.client_cas()), routes());
    let hints = Arc::new(Hints::default());
    let mut config = trusting(&server, rustls::ALL_VERSIONS);
    config.client_auth_cert_resolver = Arc::clone(&hints) as Arc<dyn ResolvesClientCert>;
    handshake(running.here(), config).await.unwrap();
    let hints = hints.0.lock().clone();
    assert!(
        hints.len() == 1 && String::from_utf8_lossy(&hints[0]).contains("clients"),
        "{hints:?}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn http2_settings_carry_the_limits() {
    let mut connection = InMemory::open(Protocol::Http2, Limits::standard(7));
    connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    connection
        .stream
        .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    let mut head = [0; 9];
    connection.stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "SETTINGS");
    let mut settings = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    connection.stream.read_exact(&mut settings).await.unwrap();
    let value = |id: u8| {
        let setting = settings.chunks(6).find(|setting| setting[1] == id)?;
        Some(u32::from_be_bytes([
            setting[2], setting[3], setting[4], setting[5],
        ]))
    };
    assert_eq!(
        (value(3), value(4), value(5), value(6)),
        (Some(7), Some(65_535), Some(16 << 10), Some(64 << 10))
    );
    assert_eq!(Limits::standard(0).http2_streams, 10);
}

#[tokio::test]
async fn a_drained_server_has_closed_its_port() {
    let running = Running::start(Listener::bind(&free()).unwrap(), routes());
    let address = running.here();
    assert!(
        running
            .client()
            .build()
            .unwrap()
            .get(running.url("localhost", "/"))
            .send()
            .await
            .is_ok()
    );
    running.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
