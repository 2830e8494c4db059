//! Faults as a client meets them.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::time::Duration;

use embedded_apiserver::{Action, ApiServer, Matcher};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use support::{Watch, send};
use tokio::time::Instant;
use tower::ServiceExt as _;

fn cluster() -> (ApiServer, Api<Node>) {
    let server = ApiServer::new();
    server
        .seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}))
        .unwrap();
    let nodes = Api::all(kube::Client::new(server.service(), "default"));
    (server, nodes)
}

fn label(value: &str) -> Patch<serde_json::Value> {
    Patch::Strategic(json!({"metadata": {"labels": {"x": value}}}))
}

#[tokio::test(start_paused = true)]
async fn a_status_is_answered_as_often_as_asked_and_nothing_is_written() {
    let (server, nodes) = cluster();
    let action = Action::Status {
        code: 429,
        reason: "TooManyRequests".into(),
        message: "slow down".into(),
        retry_after_seconds: Some(7),
    };
    server.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("nodes")
            .name("a")
            .times(1),
        action,
    );
    let error = nodes
        .patch("a", &PatchParams::default(), &label("1"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 429 && status.message == "slow down"),
        "{error}"
    );
    assert!(server.get("nodes", None, "a").unwrap()["metadata"]["labels"].is_null());
    nodes
        .patch("a", &PatchParams::default(), &label("1"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_error_although_the_write_happened_and_a_refused_one_did_not_happen() {
    let (server, nodes) = cluster();
    let id = server
        .faults()
        .add(Matcher::any().verb("write"), Action::AnswerLost);
    assert!(
        nodes
            .patch("a", &PatchParams::default(), &label("1"))
            .await
            .is_err()
    );
    assert_eq!(
        server.get("nodes", None, "a").unwrap()["metadata"]["labels"]["x"],
        "1"
    );
    assert!(server.faults().remove(id));
    server
        .faults()
        .add(Matcher::any().verb("write"), Action::Refused);
    assert!(
        nodes
            .patch("a", &PatchParams::default(), &label("2"))
            .await
            .is_err()
    );
    assert_eq!(
        server.get("nodes", None, "a").unwrap()["metadata"]["labels"]["x"],
        "1"
    );
    assert_eq!(
        server
            .requests()
            .writes()
            .iter()
            .map(|request| request.status)
            .collect::<Vec<_>>(),
        [0, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_takes_its_time_and_a_hung_one_never_comes() {
    let (server, nodes) = cluster();
    server
        .faults()
        .add(Matcher::any().verb("get"), Action::Latency { millis: 1500 });
    let start = Instant::now();
    nodes.get("a").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(1500));
    server
        .faults()
        .add(Matcher::any().verb("get"), Action::Hang);
    assert!(
        tokio::time::timeout(Duration::from_secs(3600), nodes.get("a"))
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_cut_by_a_rule_or_all_at_once() {
    let (server, _) = cluster();
    let mut watch = Watch::open(&server, "/api/v1/nodes?watch=true", "application/json").await;
    assert_eq!(watch.event().await["type"], "ADDED");
    server
        .faults()
        .add(Matcher::any().resource("nodes").times(1), Action::DropWatch);
    assert!(
        watch
            .next()
            .await
            .unwrap()
            .unwrap_err()
            .contains("connection reset")
    );
    let mut again = Watch::open(&server, "/api/v1/nodes?watch=true", "application/json").await;
    assert_eq!(again.event().await["type"], "ADDED");
    server.faults().drop_watches();
    assert!(again.next().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn forgotten_objects_end_watches_with_410_and_come_back_with_their_uid() {
    let (server, nodes) = cluster();
    let uid = nodes.get("a").await.unwrap().metadata.uid;
    let mut watch = Watch::open(&server, "/api/v1/nodes?watch=true", "application/json").await;
    assert_eq!(watch.event().await["type"], "ADDED");
    server.lose_storage("nodes");
    let expired = watch.event().await;
    assert_eq!(
        (&expired["type"], &expired["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items, []);
    assert_eq!(
        send(&server, "GET", "/api/v1/nodes/a", "", None)
            .await
            .status,
        404
    );
    server.restore_storage("nodes");
    assert_eq!(nodes.get("a").await.unwrap().metadata.uid, uid);
}

#[tokio::test(start_paused = true)]
async fn a_person_sets_rules_over_http() {
    let (server, _) = cluster();
    let rule = json!({"match": {"verb": "list", "resource": "nodes"}, "action": {"status": {"code": 503, "reason": "ServiceUnavailable"}}});
    let added = send(
        &server,
        "POST",
        "/_faults",
        "",
        Some(("application/json", rule)),
    )
    .await;
    assert_eq!((added.status, added.body), (201, json!({"id": 1})));
    assert_eq!(
        send(&server, "GET", "/api/v1/nodes", "", None).await.status,
        503
    );
    assert_eq!(
        send(&server, "GET", "/_faults", "", None).await.body[0]["applied"],
        1
    );
    send(&server, "DELETE", "/_faults", "", None).await;
    assert_eq!(
        send(&server, "GET", "/api/v1/nodes", "", None).await.status,
        200
    );
    let counts = send(&server, "GET", "/_requests", "", None).await.body;
    assert_eq!(
        counts,
        json!([{"verb": "list", "resource": "nodes", "count": 2}])
    );
}

#[tokio::test(start_paused = true)]
async fn through_the_router_a_cut_connection_is_a_body_that_breaks_off() {
    let (server, _) = cluster();
    server.faults().add(Matcher::any(), Action::Refused);
    let request = http::Request::get("/api/v1/nodes")
        .body(axum::body::Body::empty())
        .unwrap();
    let response = server.router().oneshot(request).await.unwrap();
    assert!(
        http_body_util::BodyExt::collect(response.into_body())
            .await
            .is_err()
    );
}
