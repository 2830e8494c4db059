//! Tests of the choice of an API server (APP-175) and of the verification of candidates (APP-176).

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A server that a test switches: an HTTP status, refused connections, or no answer.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Reaction>>, Arc<AtomicUsize>);

#[derive(Clone, Copy, Default)]
enum Reaction {
    Status(u16),
    #[default]
    Refused,
    Silent,
}

impl Server {
    fn of(reaction: Reaction) -> Self {
        Self(Arc::new(Mutex::new(reaction)), Arc::default())
    }

    fn react(&self, reaction: Reaction) {
        *self.0.lock() = reaction;
    }

    fn requests(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    fn client(&self) -> Client {
        let this = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                if request.uri().path() != "/readyz" {
                    this.1.fetch_add(1, Ordering::Relaxed);
                }
                let reaction = *this.0.lock();
                match reaction {
                    Reaction::Status(status) => {
                        let mut answer = Response::new(Body::empty());
                        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
                        Ok(answer)
                    }
                    Reaction::Refused => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                    Reaction::Silent => pending().await,
                }
            }
        });
        Client::new(service, "default")
    }
}

fn selector(servers: &[&Server]) -> (Arc<Selector>, Client) {
    let candidates = servers.iter().enumerate();
    let candidates = candidates.map(|(index, server)| Candidate {
        url: format!("https://{index}"),
        client: server.client(),
    });
    let selector = Arc::new(Selector::new(candidates.collect()));
    let this = Arc::clone(&selector);
    (
        selector,
        Client::new(
            service_fn(move |request| Arc::clone(&this).send(request)),
            "default",
        ),
    )
}

async fn send(client: &Client) -> Result<u16, kube::Error> {
    let request = Request::get("/api/v1/nodes").body(Body::empty()).unwrap();
    Ok(client.send(request).await?.status().as_u16())
}

#[tokio::test(start_paused = true)]
async fn silent_service_address_falls_to_the_next_candidate_within_seconds() {
    let service = Server::of(Reaction::Silent);
    let local = Server::of(Reaction::Status(401));
    let (selector, client) = selector(&[&service, &local]);
    let began = Instant::now();
    assert_eq!(send(&client).await.unwrap(), 401);
    assert!(
        began.elapsed() <= PROBE_TIMEOUT + Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((service.requests(), local.requests()), (0, 1));
    let failed = selector.choice.lock().failed.clone();
    assert_eq!(
        failed
            .iter()
            .map(|a| (a.url.as_str(), a.problem.as_str()))
            .collect::<Vec<_>>(),
        [("https://0", "no answer within 3 s")]
    );
}

#[tokio::test]
async fn unreachable_candidate_after_the_chosen_server_is_no_failed_one() {
    let servers = [
        Reaction::Refused,
        Reaction::Status(200),
        Reaction::Refused,
        Reaction::Refused,
    ]
    .map(Server::of);
    let (selector, _client) = selector(&servers.each_ref());
    let attempt = |index: usize, is_refused| Attempt {
        url: format!("https://{index}"),
        problem: "no answer".to_owned(),
        is_refused,
    };
    selector
        .record(
            Decision::Use(1),
            vec![attempt(0, false), attempt(2, false), attempt(3, true)],
        )
        .unwrap();
    let failed = selector.choice.lock().failed.clone();
    assert_eq!(
        failed
            .iter()
            .map(|attempt| attempt.url.as_str())
            .collect::<Vec<_>>(),
        ["https://0", "https://3"]
    );
}

#[tokio::test(start_paused = true)]
async fn candidates_are_tried_again_when_the_chosen_server_dies() {
    let first = Server::of(Reaction::Status(200));
    let second = Server::of(Reaction::Status(200));
    let (selector, client) = selector(&[&first, &second]);
    assert_eq!(send(&client).await.unwrap(), 200);
    let watch = selector.choice.lock().last.clone().unwrap();
    for dead in [Reaction::Refused, Reaction::Silent] {
        first.react(dead);
        // A caller gives up a request that is not answered, as the layer above does.
        let answer = timeout(Duration::from_secs(5), send(&client)).await;
        assert!(
            !answer.is_ok_and(|answer| answer.is_ok()),
            "the server is dead"
        );
        assert_eq!(
            send(&client).await.unwrap(),
            200,
            "the next request reaches the second server"
        );
        second.react(dead);
        first.react(Reaction::Status(200));
        let answer = timeout(Duration::from_secs(5), send(&client)).await;
        assert!(
            !answer.is_ok_and(|answer| answer.is_ok()),
            "the second is dead, too"
        );
        assert_eq!(send(&client).await.unwrap(), 200, "and back");
        second.react(Reaction::Status(200));
    }
    assert!(
        watch.superseded.is_cancelled(),
        "watches of a server that was left end"
    );
}

#[tokio::test(start_paused = true)]
async fn server_that_is_not_ready_is_used_only_if_no_other_is_ready() {
    let first = Server::of(Reaction::Status(503));
    let second = Server::of(Reaction::Status(200));
    assert_eq!(send(&selector(&[&first, &second]).1).await.unwrap(), 200);
    second.react(Reaction::Refused);
    assert_eq!(send(&selector(&[&first, &second]).1).await.unwrap(), 503);
}

#[tokio::test(start_paused = true)]
async fn error_names_each_candidate_when_none_answers() {
    let first = Server::of(Reaction::Refused);
    let second = Server::of(Reaction::Silent);
    let (_, client) = selector(&[&first, &second]);
    let error = send(&client).await.unwrap_err();
    let none = NoApiServer::of(&error).expect("the error is found in the chain");
    assert_eq!(none.attempts.len(), 2);
    let text = api_error(&error).to_string();
    assert!(
        text.contains("https://0: ") && text.contains("https://1: no answer within 3 s"),
        "{text}"
    );
    // Requests that waited for the same probes share their result.
    let began = Instant::now();
    futures::future::join_all((0..20).map(|_| send(&client))).await;
    assert!(
        began.elapsed() <= PROBE_TIMEOUT * 2,
        "{:?}",
        began.elapsed()
    );
}

struct Authority(Issuer<'static, KeyPair>, String);

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority(Issuer::new(params, key), pem)
}

/// Serves one answer to each request of a connection, and returns the URL and what was received.
async fn serve(authority: &Authority, name: &str) -> (Uri, Arc<Mutex<String>>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()])
        .unwrap()
        .signed_by(&key, &authority.0)
        .unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(
        vec![certificate.der().clone()],
        PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
    );
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let received = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let Ok(mut tls) = acceptor.accept(tcp).await else {
                continue;
            };
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(read @ 1..) = tls.read(&mut buffer).await {
                    log.lock()
                        .push_str(&String::from_utf8_lossy(&buffer[..read]));
                    let _ = tls
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                        .await;
                }
            });
        }
    });
    (url, received)
}

#[tokio::test]
async fn token_reaches_only_a_server_that_the_cluster_ca_verifies_by_name() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = authority();
    let other = authority();
    let (foreign, seen_by_foreign) = serve(&other, SERVER_NAME).await;
    let (renamed, seen_by_renamed) = serve(&cluster, "kubelet.example.com").await;
    let (right, seen_by_right) = serve(&cluster, SERVER_NAME).await;
    let mut config = Config::new(foreign);
    config.root_cert = Some(vec![
        CertificateDer::from_pem_slice(cluster.1.as_bytes())
            .unwrap()
            .to_vec(),
    ]);
    let servers = ApiServers::new(format!("{renamed},{right}").parse().unwrap());
    let (bare, host) = servers
        .connect(&config, "the Pod's service account")
        .unwrap();
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cr3t").unwrap();
    let client = super::super::token_file::over(&bare, token.path().to_owned()).unwrap();
    assert_eq!(send(&client).await.unwrap(), 200);
    assert_eq!(host, SERVER_NAME);
    assert_eq!(servers.in_use(), Some(shown(&right)));
    let failed = servers.failed();
    assert!(
        failed.len() == 2 && failed.iter().all(|attempt| attempt.is_refused),
        "{failed:?}"
    );
    assert!(seen_by_right.lock().contains("Bearer s3cr3t"));
    assert_eq!(
        (
            seen_by_foreign.lock().as_str(),
            seen_by_renamed.lock().as_str()
        ),
        ("", ""),
        "nothing was sent there"
    );
}
