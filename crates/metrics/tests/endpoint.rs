//! `/metrics` and `/metrics/slis`, as a scraper sees them.
//!
//! Rules: MET-1, MET-2, MET-30.

// The helpers of these tests may panic, too.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use metrics::Metrics;
use serving::health::{AlwaysHealthy, Health, Probe};
use tower::ServiceExt;

async fn send(router: &Router, method: &str, path: &str) -> (StatusCode, http::HeaderMap, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        head.status,
        head.headers,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

#[tokio::test]
async fn a_scrape_is_text_and_says_when_the_process_started() {
    let router = Metrics::new().router(&Health::new());
    let (status, headers, body) = send(&router, "GET", "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        headers["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let start: u64 = headers["process-start-time-unix"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(start > 1_700_000_000, "{start}");
    assert!(
        body.contains("\nccm_runtime_workers 1\n") && !body.contains("kubernetes_healthcheck"),
        "{body}"
    );
}

#[tokio::test]
async fn delete_request_does_not_reset_the_metrics() {
    let metrics = Metrics::new();
    let router = metrics.router(&Health::new());
    metrics.elections().slow_path("lease");
    send(&router, "DELETE", "/metrics").await;
    assert!(
        send(&router, "GET", "/metrics")
            .await
            .2
            .contains("leader_election_slowpath_total{name=\"lease\"} 1\n")
    );
}

#[tokio::test]
async fn health_is_counted_at_its_own_path_until_it_is_reset() {
    let health = Health::new();
    health.add("leaderElection", Arc::new(|| Err("no lease".to_owned())));
    health.add("cloud-node-controller", Arc::new(AlwaysHealthy));
    let router = Metrics::new().router(&health);
    for _ in 0..3 {
        _ = health.report(Probe::Healthz, &[]);
    }
    let (_, headers, body) = send(&router, "GET", "/metrics/slis").await;
    assert!(headers.contains_key("process-start-time-unix"));
    for line in [
        "kubernetes_healthcheck{name=\"cloud-node-controller\",type=\"healthz\"} 1\n",
        "kubernetes_healthcheck{name=\"leaderElection\",type=\"healthz\"} 0\n",
        "kubernetes_healthchecks_total{name=\"leaderElection\",type=\"healthz\",status=\"error\"} 3\n",
        "kubernetes_healthchecks_total{name=\"leaderElection\",type=\"healthz\",status=\"success\"} 0\n",
        "process_start_time_seconds ",
    ] {
        assert!(body.contains(line), "{line} in\n{body}");
    }
    assert_eq!(
        send(&router, "DELETE", "/metrics/slis").await.2,
        "metrics reset\n"
    );
    assert!(
        !send(&router, "GET", "/metrics/slis")
            .await
            .2
            .contains("kubernetes_health")
    );
    assert_eq!(
        send(&router, "POST", "/metrics/slis").await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn client_that_accepts_gzip_gets_it_with_its_header() {
    let router = Metrics::new().router(&Health::new());
    let request = Request::get("/metrics")
        .header("accept-encoding", "gzip")
        .body(Body::empty())
        .unwrap();
    let answer = router.oneshot(request).await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert_eq!(
        answer.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    assert_eq!(
        answer.into_body().collect().await.unwrap().to_bytes()[..2],
        [0x1f, 0x8b]
    );
}
