//! Servers whose answers have no end, and one whose large answers are in order.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream;
use http::Response;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{ListParams, PostParams, WatchParams};
use kube::{Api, Client};

use super::*;
use crate::api_error::api_error;
use crate::client::{Limits, NoRequestMetrics, wrap};

const CHUNK: usize = 64 << 10;

/// Creates a client over a server that answers everything with this status, and first `start`, then `filler` without an
/// end; and the number of bytes that were read from it.
fn endless(status: u16, start: &'static str, filler: u8) -> (Client, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let server = tower::service_fn(move |_: Request<Body>| {
        let counter = Arc::clone(&counter);
        let chunks = stream::once(ready(Data::from(start)))
            .chain(stream::repeat(Data::from(vec![filler; CHUNK])));
        let counted = chunks.map(move |chunk| {
            counter.fetch_add(chunk.len(), Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(chunk))
        });
        ready(Ok::<_, Infallible>(
            Response::builder()
                .status(status)
                .body(StreamBody::new(counted))
                .unwrap(),
        ))
    });
    let limits = Limits {
        single_attempt: true,
        ..Limits::default()
    };
    (
        wrap(
            &Client::new(server, "default"),
            "h:443",
            "ccm/v1",
            &limits,
            Arc::new(NoRequestMetrics),
        ),
        read,
    )
}

fn no_params() -> ListParams {
    ListParams::default()
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up_at_its_limit_and_the_error_names_url_and_limit() {
    let (client, read) = endless(200, "{", b' ');
    let nodes = Api::<Node>::all(client.clone());
    let services = Api::<Service>::namespaced(client, "shop");
    let params = PostParams::default();
    let service = Service::default();
    let errors = [
        (
            nodes.list(&no_params()).await.map(drop),
            "GET h:443/api/v1/nodes?",
            LIST_PAGE,
        ),
        (
            nodes.get("n").await.map(drop),
            "GET h:443/api/v1/nodes/n:",
            OBJECT,
        ),
        (
            services.create(&params, &service).await.map(drop),
            "POST h:443/api/v1/namespaces/shop/services?",
            OBJECT,
        ),
    ];
    for (outcome, url, limit) in errors {
        let error = outcome.unwrap_err();
        let text = api_error(&error).to_string();
        assert!(
            is_too_large(&error) && text.contains(url) && text.contains(&limit.to_string()),
            "{text}"
        );
    }
    let read = read.load(Ordering::Relaxed);
    assert!(
        read <= LIST_PAGE + 2 * OBJECT + 3 * (CHUNK + 1),
        "{read} bytes were read"
    );
}

#[tokio::test]
async fn a_refusal_without_an_end_keeps_its_status() {
    for status in [403, 404, 409, 410, 500] {
        let (client, read) = endless(status, r#"{"message":""#, b'x');
        let outcomes = [
            Api::<Node>::all(client.clone()).get("n").await.map(drop),
            Api::<Node>::all(client)
                .watch(&WatchParams::default(), "7")
                .await
                .map(drop),
        ];
        for error in outcomes.map(Result::unwrap_err) {
            let kube::Error::Api(answer) = &error else {
                panic!("{error}")
            };
            assert_eq!(answer.code, status);
            assert!(
                answer.message.contains("h:443/api/v1/nodes") && answer.message.contains("65536"),
                "{answer:?}"
            );
        }
        let read = read.load(Ordering::Relaxed);
        assert!(read <= 2 * (REFUSAL + CHUNK + 12), "{read} bytes were read");
    }
}

#[tokio::test]
async fn a_watch_ends_at_an_event_without_an_end() {
    let node =
        r#"{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}}"#;
    let start: &'static str = format!("{node}\n{node}\n{{").leak();
    let (client, read) = endless(200, start, b' ');
    let events = Api::<Node>::all(client)
        .watch(&WatchParams::default(), "7")
        .await
        .unwrap();
    let mut events = pin!(events);
    for _ in 0..2 {
        events.next().await.unwrap().unwrap();
    }
    let error = events.next().await.unwrap().unwrap_err();
    let text = api_error(&error).to_string();
    assert!(
        is_too_large(&error)
            && text.contains("watch=true")
            && text.contains(&WATCH_EVENT.to_string()),
        "{text}"
    );
    assert!(events.next().await.is_none());
    let read = read.load(Ordering::Relaxed);
    assert!(
        read <= WATCH_EVENT + 2 * CHUNK + start.len(),
        "{read} bytes were read"
    );
}

#[tokio::test]
async fn a_size_that_is_told_beforehand_is_believed() {
    let server = tower::service_fn(|_: Request<Body>| {
        ready(Ok::<_, Infallible>(Response::new(Body::from(vec![
            b' ';
            OBJECT
                + 1
        ]))))
    });
    let client = Client::new(server, "default");
    let info = RequestInfo::new(
        &Method::GET,
        &"/api/v1/nodes/n".parse().unwrap(),
        "h".into(),
    );
    let request = Request::get("/api/v1/nodes/n").body(Body::empty()).unwrap();
    let request_line = RequestLine::of(&request, "h");
    let body = client.send(request).await.unwrap().into_body();
    assert!(is_too_large(
        &read(body, StatusCode::OK, &info, &request_line)
            .await
            .unwrap_err()
    ));
}

#[tokio::test]
async fn a_hundred_large_nodes_and_the_largest_object_are_accepted() {
    let image = serde_json::json!({"names": ["x".repeat(250)], "sizeBytes": 1});
    let node =
        serde_json::json!({"metadata": {"name": "n"}, "status": {"images": vec![image; 500]}})
            .to_string();
    let list = format!(
        r#"{{"metadata":{{}},"items":[{}]}}"#,
        vec![node.as_str(); 100].join(",")
    );
    assert!(
        (12 << 20..LIST_PAGE).contains(&list.len()),
        "{}",
        list.len()
    );
    let service =
        serde_json::json!({"metadata": {"name": "s", "annotations": {"a": "x".repeat(3 << 20)}}})
            .to_string();
    let server = tower::service_fn(move |request: Request<Body>| {
        let body = if request.uri().path().ends_with("nodes") {
            list.clone()
        } else {
            service.clone()
        };
        ready(Ok::<_, Infallible>(Response::new(Body::from(
            body.into_bytes(),
        ))))
    });
    let client = wrap(
        &Client::new(server, "default"),
        "h",
        "ccm/v1",
        &Limits::default(),
        Arc::new(NoRequestMetrics),
    );
    let nodes = Api::<crate::node::NodeObject>::all(client.clone())
        .list(&no_params())
        .await
        .unwrap();
    assert_eq!(nodes.items.len(), 100);
    Api::<Service>::namespaced(client, "shop")
        .get("s")
        .await
        .unwrap();
}

#[test]
fn error_repeats_only_the_beginning_of_the_path() {
    let request = Request::get(format!("/api/v1/nodes?continue={}", "x".repeat(10_000)))
        .body(Body::empty())
        .unwrap();
    let text = RequestLine::of(&request, "h:443").to_string();
    assert!(
        text.starts_with("GET h:443/api/v1/nodes?continue=xxx") && text.len() < 300,
        "{text}"
    );
}
