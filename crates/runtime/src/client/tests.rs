//! The layers over an in-process server, in virtual time.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::*;
use crate::api_error::{api_error, is_not_found};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;

fn answer(status: u16, body: &'static str) -> Response<Full<kube_bytes::Bytes>> {
    Response::builder()
        .status(status)
        .body(body.into())
        .unwrap()
}

mod kube_bytes {
    pub(super) type Bytes = <kube::client::Body as http_body::Body>::Data;
}

#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl RequestMetrics for Recorded {
    fn answered(&self, request: &RequestInfo, status: Option<u16>, time: Duration) {
        let status = status.map_or_else(|| "<error>".into(), |s| s.to_string());
        self.note(format!(
            "{} {} {} {status} {}s",
            request.method,
            request.verb,
            request.route,
            time.as_secs()
        ));
    }
    fn limited(&self, _: &RequestInfo, time: Duration) {
        self.note(format!("limited {}ms", time.as_millis()));
    }
    fn retried(&self, _: &RequestInfo, status: u16) {
        self.note(format!("retried {status}"));
    }
    fn transferred(&self, _: &RequestInfo, sent: usize, received: usize) {
        self.note(format!("{sent} > {received}"));
    }
}

impl Recorded {
    fn note(&self, text: String) {
        self.0.lock().push(text);
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Creates a client over a server that gives these answers, one after the other, the last for ever.
fn client(
    limits: &Limits,
    answers: Vec<Response<Full<kube_bytes::Bytes>>>,
) -> (Client, Arc<Recorded>, Arc<Mutex<Vec<String>>>) {
    let metrics = Arc::new(Recorded::default());
    let agents = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&agents);
    let answers = Mutex::new(answers);
    let below = Client::new(
        tower::service_fn(move |request: Request<Body>| {
            seen.lock()
                .push(request.headers()["user-agent"].to_str().unwrap().to_owned());
            let mut answers = answers.lock();
            let answer = if answers.len() > 1 {
                answers.remove(0)
            } else {
                answers[0].clone()
            };
            ready(Ok::<_, std::convert::Infallible>(answer))
        }),
        "default",
    );
    let wrapped = wrap(
        &below,
        "h:443",
        "ccm/v1",
        limits,
        Arc::clone(&metrics) as Arc<dyn RequestMetrics>,
    );
    (wrapped, metrics, agents)
}

#[tokio::test(start_paused = true)]
async fn a_request_says_who_asks_and_is_measured() {
    let (client, metrics, agents) = client(&Limits::default(), vec![answer(200, NODE)]);
    let node = Api::<Node>::all(client).get("n").await.unwrap();
    assert_eq!(node.metadata.name.as_deref(), Some("n"));
    assert_eq!(*agents.lock(), ["ccm/v1"]);
    assert_eq!(metrics.take(), ["0 > 57", "GET get nodes 200 0s"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_under_load_is_given_time() {
    let mut busy = answer(429, "");
    busy.headers_mut().insert("retry-after", 2.into());
    let (client, metrics, _) = client(
        &Limits::default(),
        vec![busy.clone(), busy, answer(200, NODE)],
    );
    let start = Instant::now();
    Api::<Node>::all(client).get("n").await.unwrap();
    assert!(
        (4.0..4.5).contains(&start.elapsed().as_secs_f32()),
        "{:?}",
        start.elapsed()
    );
    let recorded: Vec<_> = metrics
        .take()
        .into_iter()
        .filter(|m| !m.contains('>'))
        .collect();
    assert_eq!(
        recorded,
        [
            "GET get nodes 429 0s",
            "retried 429",
            "GET get nodes 429 0s",
            "retried 429",
            "GET get nodes 200 0s"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn patience_with_a_busy_server_ends_and_its_words_come_through() {
    let busy = r#"{"kind":"Status","code":429,"reason":"TooManyRequests","message":"too many requests","status":"Failure"}"#;
    let (client, _, agents) = client(&Limits::default(), vec![answer(429, busy)]);
    let start = Instant::now();
    let error = Api::<Node>::all(client).get("n").await.unwrap_err();
    assert_eq!(api_error(&error).to_string(), "too many requests");
    assert_eq!(agents.lock().len(), 5);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_not_repeated() {
    let missing = r#"{"kind":"Status","code":404,"reason":"NotFound","message":"nodes \"n\" not found","status":"Failure"}"#;
    let (client, _, agents) = client(&Limits::default(), vec![answer(404, missing)]);
    let error = Api::<Node>::all(client).get("n").await.unwrap_err();
    assert!(is_not_found(&error));
    assert_eq!(
        (api_error(&error).to_string().as_str(), agents.lock().len()),
        ("nodes \"n\" not found", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_limit_delays_requests_but_not_watches() {
    let limits = Limits {
        rate: Some((2.0, 3)),
        ..Limits::default()
    };
    let (client, metrics, _) = client(&limits, vec![answer(200, NODE)]);
    let nodes = Api::<Node>::all(client);
    let start = Instant::now();
    for _ in 0..5 {
        nodes.get("n").await.unwrap();
    }
    assert_eq!(start.elapsed().as_millis() / 10, 100);
    let limited: Vec<_> = metrics
        .take()
        .into_iter()
        .filter(|m| m.starts_with("limited"))
        .collect();
    assert_eq!(limited.len(), 5);
    drop(
        nodes
            .watch(&kube::api::WatchParams::default(), "0")
            .await
            .unwrap(),
    );
    assert_eq!(start.elapsed().as_millis() / 10, 100);
    assert!(!metrics.take().iter().any(|m| m.starts_with("limited")));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_not_waited_for_for_ever() {
    let below = Client::new(
        tower::service_fn(|_: Request<Body>| async {
            sleep(Duration::from_secs(3600)).await;
            Ok::<_, std::convert::Infallible>(answer(200, NODE))
        }),
        "default",
    );
    let metrics = Arc::new(Recorded::default());
    let limits = Limits {
        request_timeout: Some(Duration::from_secs(10)),
        ..Limits::default()
    };
    let client = wrap(
        &below,
        "h:443",
        "ccm/v1",
        &limits,
        Arc::clone(&metrics) as Arc<dyn RequestMetrics>,
    );
    let error = Api::<Node>::all(client).get("n").await.unwrap_err();
    assert_eq!(
        api_error(&error).to_string(),
        "no answer from the API server to GET h:443/api/v1/nodes/n within 10s"
    );
    assert_eq!(metrics.take(), ["GET get nodes <error> 10s"]);
}

fn options() -> ClientOptions {
    ClientOptions::default()
}

async fn refusal(options: ClientOptions) -> String {
    match connect(&options, "test", Arc::new(NoRequestMetrics)).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn errors_say_what_was_tried_and_what_to_do() {
    let missing = refusal(ClientOptions {
        kubeconfig: Some("/no/such/file".into()),
        ..options()
    })
    .await;
    assert!(
        missing.starts_with("cannot use the kubeconfig /no/such/file: ")
            && missing.contains("check the path")
    );
    let master = refusal(ClientOptions {
        master: Some("https://a b".into()),
        ..options()
    })
    .await;
    assert!(
        master.contains("\"https://a b\"") && master.contains("https://HOST:PORT"),
        "{master}"
    );
    for url in [
        "https://admin:s3cr3t@a b",
        "https://admin:s3cr3t@10.0.0.1:99999",
        "admin:s3cr3t@10.0.0.1:99999",
    ] {
        let master = refusal(ClientOptions {
            master: Some(url.into()),
            ..options()
        })
        .await;
        assert!(
            master.contains("https://HOST:PORT") && !master.contains("s3cr3t"),
            "{master}"
        );
    }
}

/// Creates a fence and the flag that opens it.
#[test]
fn authorities_of_the_system_are_loaded_only_where_they_count() {
    let roots = |url: &str, root_cert: Option<Vec<Vec<u8>>>, accept_invalid_certs| {
        let mut config = kube::Config::new(url.parse().unwrap());
        (config.root_cert, config.accept_invalid_certs) = (root_cert, accept_invalid_certs);
        config::trust_roots_of_the_system(&mut config).map(|()| config.root_cert)
    };
    assert_eq!(
        roots("http://127.0.0.1:1", None, false),
        Ok(Some(Vec::new())),
        "no TLS, no certificates"
    );
    assert_eq!(
        roots("https://127.0.0.1:1", Some(vec![vec![1]]), false),
        Ok(Some(vec![vec![1]])),
        "the named one alone"
    );
    assert_eq!(roots("https://127.0.0.1:1", None, true), Ok(None));
    let system = trusted_roots::load()
        .map(|roots| roots.len())
        .map_err(|error| error.to_string());
    match roots("https://127.0.0.1:1", None, false) {
        Ok(loaded) => assert_eq!(loaded.map(|loaded| loaded.len()), system.ok()),
        Err(text) => assert!(text.contains("certificate-authority"), "{text}"),
    }
}

fn fence(open: bool) -> (cloud_provider::Fence, Arc<std::sync::atomic::AtomicBool>) {
    let leads = Arc::new(std::sync::atomic::AtomicBool::new(open));
    let asked = Arc::clone(&leads);
    (
        cloud_provider::Fence::new(move || asked.load(Ordering::SeqCst)),
        leads,
    )
}

fn a_node() -> Node {
    serde_json::from_str(NODE).unwrap()
}

#[tokio::test(start_paused = true)]
async fn behind_a_closed_fence_one_may_read_and_nothing_else() {
    let (fence, _) = fence(false);
    let (client, metrics, agents) = client(
        &Limits {
            fence,
            ..Limits::default()
        },
        vec![answer(200, NODE)],
    );
    let nodes = Api::<Node>::all(client);
    let refused = [
        nodes
            .create(&PostParams::default(), &a_node())
            .await
            .map(drop),
        nodes
            .replace("n", &PostParams::default(), &a_node())
            .await
            .map(drop),
        nodes
            .patch("n", &PatchParams::default(), &Patch::Merge(a_node()))
            .await
            .map(drop),
        nodes.delete("n", &DeleteParams::default()).await.map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert!(
            api_error(&error)
                .to_string()
                .contains("does not hold the lease"),
            "{}",
            api_error(&error)
        );
    }
    assert!(agents.lock().is_empty() && metrics.take().is_empty());
    nodes.get("n").await.unwrap();
    drop(
        nodes
            .watch(&kube::api::WatchParams::default(), "0")
            .await
            .unwrap(),
    );
    assert_eq!(agents.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_closes_while_a_write_waits_stops_it() {
    let mut busy = answer(429, "");
    busy.headers_mut().insert("retry-after", 2.into());
    let (limited, waits) = fence(true);
    let limits = Limits {
        rate: Some((0.1, 1)),
        fence: limited,
        ..Limits::default()
    };
    let (client, _, agents) = client(&limits, vec![busy, answer(200, NODE)]);
    let nodes = Api::<Node>::all(client);
    let params = PostParams::default();
    let node = a_node();
    let (written, ()) = tokio::join!(nodes.create(&params, &node), async {
        sleep(Duration::from_secs(1)).await;
        waits.store(false, Ordering::SeqCst);
    });
    assert!(
        written.is_err() && agents.lock().len() == 1,
        "before a second attempt it is asked again"
    );
    waits.store(true, Ordering::SeqCst);
    let (written, ()) = tokio::join!(nodes.create(&params, &node), async {
        sleep(Duration::from_secs(1)).await;
        waits.store(false, Ordering::SeqCst);
    });
    assert!(
        written.is_err() && agents.lock().len() == 1,
        "after the wait for the limit it is asked again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_closes_while_a_connection_is_made_stops_what_would_be_sent_on_it() {
    let sent = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&sent);
    let below = Client::new(
        tower::service_fn(move |_: Request<Body>| {
            let counter = Arc::clone(&counter);
            async move {
                sleep(Duration::from_secs(10)).await;
                *counter.lock() += 1;
                Ok::<_, std::convert::Infallible>(answer(200, NODE))
            }
        }),
        "default",
    );
    let (fence, leads) = fence(true);
    let limits = Limits {
        fence,
        ..Limits::default()
    };
    let nodes = Api::<Node>::all(wrap(
        &below,
        "h:443",
        "ccm/v1",
        &limits,
        Arc::new(NoRequestMetrics),
    ));
    let closing = async {
        sleep(Duration::from_secs(1)).await;
        leads.store(false, Ordering::SeqCst);
    };
    let params = PostParams::default();
    let node = a_node();
    let (written, read, ()) = tokio::join!(nodes.create(&params, &node), nodes.get("n"), closing);
    let error = api_error(&written.unwrap_err()).to_string();
    assert!(error.contains("cut off on its way"), "{error}");
    assert!(
        read.is_ok() && *sent.lock() == 1,
        "only the read got through"
    );
}

#[tokio::test(start_paused = true)]
async fn client_with_its_own_retries_sends_once() {
    let limits = Limits {
        single_attempt: true,
        ..Limits::default()
    };
    let (client, metrics, agents) = client(&limits, vec![answer(429, "")]);
    Api::<Node>::all(client).get("n").await.unwrap_err();
    assert_eq!(agents.lock().len(), 1);
    assert!(
        !metrics
            .take()
            .iter()
            .any(|recorded| recorded.starts_with("retried"))
    );
}
