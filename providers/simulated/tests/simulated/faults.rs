//! Every fault, as a client over HTTP sees it.

use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use provider_simulated::cloud::{Fault, FaultKind};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use super::*;

/// Status and JSON of an answer; `None` if the connection is cut.
pub(super) async fn ask(
    cloud: &Cloud,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Option<(StatusCode, Value)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {DEFAULT_TOKEN}"));
    let request = request.header("content-type", "application/json");
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let answer = cloud
        .router()
        .oneshot(request.body(body).unwrap())
        .await
        .unwrap();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
        .await
        .ok()?;
    Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

async fn get(cloud: &Cloud, path: &str) -> (StatusCode, Value) {
    ask(cloud, Method::GET, path, None).await.unwrap()
}

async fn break_by_http(cloud: &Cloud, fault: Value) {
    let (status, _) = ask(cloud, Method::POST, "/admin/faults", Some(fault))
        .await
        .unwrap();
    assert_eq!(status, StatusCode::CREATED);
}

fn cloud_with(machines: usize) -> Cloud {
    let cloud = Cloud::default();
    cloud.create_machines("w-", machines);
    cloud
}

#[tokio::test(start_paused = true)]
async fn a_fault_hits_its_route_for_its_count() {
    let cloud = cloud_with(3);
    break_by_http(
        &cloud,
        json!({"kind": "status", "status": 503, "route": MACHINES, "count": 2}),
    )
    .await;
    assert_eq!(get(&cloud, "/v1/token").await.0, StatusCode::OK);
    assert_eq!(
        get(&cloud, "/v1/machines").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let (_, faults) = get(&cloud, "/admin/faults").await;
    assert_eq!(
        (&faults[0]["kind"], &faults[0]["count"]),
        (&json!("status"), &json!(1))
    );
    assert_eq!(
        get(&cloud, "/v1/machines").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(get(&cloud, "/v1/machines").await.0, StatusCode::OK);
    assert_eq!(
        get(&cloud, "/admin/requests").await.1,
        json!({"GET /v1/machines": 3, "GET /v1/token": 1})
    );
}

#[tokio::test(start_paused = true)]
async fn latency_delays_and_hang_never_answers() {
    let cloud = cloud_with(1);
    break_by_http(
        &cloud,
        json!({"kind": "latency", "milliseconds": 700, "count": 1}),
    )
    .await;
    let began = Instant::now();
    assert_eq!(get(&cloud, "/v1/token").await.0, StatusCode::OK);
    assert_eq!(began.elapsed(), Duration::from_millis(700));
    break_by_http(&cloud, json!({"kind": "hang"})).await;
    let answer = tokio::time::timeout(Duration::from_secs(3600), get(&cloud, "/v1/token")).await;
    assert!(answer.is_err());
    assert_eq!(
        ask(&cloud, Method::DELETE, "/admin/faults", None)
            .await
            .unwrap()
            .0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(get(&cloud, "/v1/token").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_applied() {
    let cloud = cloud_with(1);
    break_by_http(
        &cloud,
        json!({"kind": "lost_answer", "route": "POST /v1/load-balancers", "count": 1}),
    )
    .await;
    assert_eq!(
        ask(
            &cloud,
            Method::POST,
            "/v1/load-balancers",
            Some(json!({"name": "a"}))
        )
        .await,
        None
    );
    assert_eq!(cloud.load_balancers().len(), 1);
    let (status, _) = ask(
        &cloud,
        Method::POST,
        "/v1/load-balancers",
        Some(json!({"name": "a"})),
    )
    .await
    .unwrap();
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_cuts_a_real_connection() {
    let cloud = cloud_with(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = cloud.clone();
    let until = stop.clone();
    let stopped = stop.clone().drop_guard();
    tokio::spawn(async move { serving.serve(listener, until).await });
    cloud.inject(Fault::new(FaultKind::LostAnswer));
    let client = Transport::builder(endpoint)
        .credential(Credential::token(DEFAULT_TOKEN))
        .build()
        .unwrap();
    let err = client
        .send(provider_kit::transport::Call::get("/v1/token", &[]))
        .await
        .unwrap_err();
    assert!(
        err.to_string()
            .starts_with("GET /v1/token was not answered: "),
        "{err}"
    );
    assert_eq!(
        cloud.requests()["GET /v1/token"],
        4,
        "a read is tried again"
    );
    drop(stopped);
}

#[tokio::test(start_paused = true)]
async fn lists_go_wrong_in_three_ways() {
    let cloud = cloud_with(120);
    let pages = async || {
        let mut page = 1;
        let mut names = Vec::new();
        loop {
            let (_, body) = get(&cloud, &format!("/v1/machines?page={page}&per_page=50")).await;
            names.extend(
                body["machines"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|m| m["name"].as_str().unwrap().to_owned()),
            );
            match body["next_page"].as_u64() {
                Some(next) => page = next,
                None => break (page, names, body["total"].clone()),
            }
        }
    };
    assert_eq!(
        {
            let (page, names, total) = pages().await;
            (page, names.len(), total)
        },
        (3, 120, json!(120))
    );
    break_by_http(&cloud, json!({"kind": "missing_page", "page": 2})).await;
    let (_, names, total) = pages().await;
    assert_eq!(
        (names.len(), &*names[49], &*names[50], total),
        (70, "w-50", "w-101", json!(120))
    );
    cloud.clear_faults();
    break_by_http(
        &cloud,
        json!({"kind": "early_end", "page": 2, "without_total": true}),
    )
    .await;
    assert_eq!(
        {
            let (page, names, total) = pages().await;
            (page, names.len(), total)
        },
        (2, 100, Value::Null)
    );
    cloud.clear_faults();
    break_by_http(&cloud, json!({"kind": "empty_list"})).await;
    assert_eq!(pages().await, (1, vec![], json!(0)));
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_refuse_the_right_token() {
    let cloud = cloud_with(1);
    break_by_http(&cloud, json!({"kind": "wrong_credentials", "count": 1})).await;
    let (status, body) = get(&cloud, "/v1/machines").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::UNAUTHORIZED, &json!("unauthorized"))
    );
    assert_eq!(get(&cloud, "/v1/machines").await.0, StatusCode::OK);
}
