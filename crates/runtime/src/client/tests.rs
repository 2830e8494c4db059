//! The layers over an in-process server, in virtual time.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Node;
use kube::client::Body;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use super::*;
use crate::api_error::{api_error, is_not_found};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;

fn answer(status: u16, body: &'static str) -> Response<Full<kube_bytes::Bytes>> {
    Response::builder().status(status).body(body.into()).unwrap()
}

mod kube_bytes {
    pub(super) type Bytes = <kube::client::Body as http_body::Body>::Data;
}

#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl RequestMetrics for Recorded {
    fn answered(&self, request: &RequestInfo, status: Option<u16>, time: Duration) {
        let status = status.map_or_else(|| "<error>".into(), |s| s.to_string());
        self.note(format!("{} {} {} {status} {}s", request.method, request.verb, request.route, time.as_secs()));
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
        self.0.lock().unwrap().push(text);
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A client over a server that gives these answers, one after the other, the last for ever.
fn client(
    limits: &Limits,
    answers: Vec<Response<Full<kube_bytes::Bytes>>>,
) -> (Client, Arc<Recorded>, Arc<Mutex<Vec<String>>>) {
    let (metrics, agents) = (Arc::new(Recorded::default()), Arc::new(Mutex::new(Vec::new())));
    let (seen, answers) = (Arc::clone(&agents), Mutex::new(answers));
    let below = Client::new(
        tower::service_fn(move |request: Request<Body>| {
            seen.lock().unwrap().push(request.headers()["user-agent"].to_str().unwrap().to_owned());
            let mut answers = answers.lock().unwrap();
            let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
            ready(Ok::<_, std::convert::Infallible>(answer))
        }),
        "default",
    );
    let wrapped = wrap(&below, "h:443", "ccm/v1", limits, Arc::clone(&metrics) as Arc<dyn RequestMetrics>);
    (wrapped, metrics, agents)
}

#[tokio::test(start_paused = true)]
async fn a_request_says_who_asks_and_is_measured() {
    let (client, metrics, agents) = client(&Limits::default(), vec![answer(200, NODE)]);
    let node = Api::<Node>::all(client).get("n").await.unwrap();
    assert_eq!(node.metadata.name.as_deref(), Some("n"));
    assert_eq!(*agents.lock().unwrap(), ["ccm/v1"]);
    assert_eq!(metrics.take(), ["0 > 57", "GET get nodes 200 0s"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_under_load_is_given_time() {
    let mut busy = answer(429, "");
    busy.headers_mut().insert("retry-after", 2.into());
    let (client, metrics, _) = client(&Limits::default(), vec![busy.clone(), busy, answer(200, NODE)]);
    let start = Instant::now();
    Api::<Node>::all(client).get("n").await.unwrap();
    assert!((4.0..4.5).contains(&start.elapsed().as_secs_f32()), "{:?}", start.elapsed());
    let told: Vec<_> = metrics.take().into_iter().filter(|m| !m.contains('>')).collect();
    assert_eq!(
        told,
        ["GET get nodes 429 0s", "retried 429", "GET get nodes 429 0s", "retried 429", "GET get nodes 200 0s"]
    );
}

#[tokio::test(start_paused = true)]
async fn patience_with_a_busy_server_ends_and_its_words_come_through() {
    let busy =
        r#"{"kind":"Status","code":429,"reason":"TooManyRequests","message":"too many requests","status":"Failure"}"#;
    let (client, _, agents) = client(&Limits::default(), vec![answer(429, busy)]);
    let start = Instant::now();
    let error = Api::<Node>::all(client).get("n").await.unwrap_err();
    assert_eq!(api_error(&error).to_string(), "too many requests");
    assert_eq!(agents.lock().unwrap().len(), 5);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_not_repeated() {
    let missing =
        r#"{"kind":"Status","code":404,"reason":"NotFound","message":"nodes \"n\" not found","status":"Failure"}"#;
    let (client, _, agents) = client(&Limits::default(), vec![answer(404, missing)]);
    let error = Api::<Node>::all(client).get("n").await.unwrap_err();
    assert!(is_not_found(&error));
    assert_eq!((api_error(&error).to_string().as_str(), agents.lock().unwrap().len()), ("nodes \"n\" not found", 1));
}

#[tokio::test(start_paused = true)]
async fn a_limit_delays_requests_but_not_watches() {
    let limits = Limits { rate: Some((2.0, 3)), request_timeout: None };
    let (client, metrics, _) = client(&limits, vec![answer(200, NODE)]);
    let (nodes, start) = (Api::<Node>::all(client), Instant::now());
    for _ in 0..5 {
        nodes.get("n").await.unwrap();
    }
    assert_eq!(start.elapsed().as_millis() / 10, 100);
    let limited: Vec<_> = metrics.take().into_iter().filter(|m| m.starts_with("limited")).collect();
    assert_eq!(limited.len(), 5);
    drop(nodes.watch(&kube::api::WatchParams::default(), "0").await.unwrap());
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
    let limits = Limits { rate: None, request_timeout: Some(Duration::from_secs(10)) };
    let client = wrap(&below, "h:443", "ccm/v1", &limits, Arc::clone(&metrics) as Arc<dyn RequestMetrics>);
    let error = Api::<Node>::all(client).get("n").await.unwrap_err();
    assert_eq!(api_error(&error).to_string(), "ServiceError: no answer from the API server (h:443) within 10s");
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
    let missing = refusal(ClientOptions { kubeconfig: Some("/no/such/file".into()), ..options() }).await;
    assert!(missing.starts_with("cannot use the kubeconfig /no/such/file: ") && missing.contains("check the path"));
    let master = refusal(ClientOptions { master: Some("https://a b".into()), ..options() }).await;
    assert!(master.contains("\"https://a b\"") && master.contains("https://HOST:PORT"), "{master}");
}
