//! Defects of providers that the conformance suite detects: each proof must fail on a provider with the defect.
//!
//! A layer between a correct provider and the fake injects the defects, so that they apply to any provider.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use ccm_conformance::virtual_time::VirtualTime;
use ccm_conformance::{Harness, proofs};
use ccm_tests::profiles::{HetznerCloud, SimulatedCloud};
use http::request::Parts;
use http::{Method, StatusCode, Uri, header};
use serde_json::{Value, json};

async fn send(next: &Next, head: &Parts, body: impl Into<Body>) -> (StatusCode, Value) {
    let mut head = head.clone();
    head.headers.remove(header::CONTENT_LENGTH);
    let answer = next
        .clone()
        .run(Request::from_parts(head, body.into()))
        .await;
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX)
        .await
        .unwrap_or_default();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let answer = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json");
    answer
        .body(Body::from(body.to_string()))
        .expect("a response")
}

/// Makes the cloud accept a name twice, under a provider that relies on unique names.
fn names_are_not_unique(api: Router) -> Router {
    api.layer(from_fn(async |request: Request, next: Next| {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return next.run(Request::from_parts(head, body)).await;
        }
        let body: Bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let (status, created) = send(&next, &head, body.clone()).await;
        if status != StatusCode::CONFLICT {
            return answer(status, &created);
        }
        let mut second: Value = serde_json::from_slice(&body).unwrap_or_default();
        second["name"] = json!(format!("{}-2", second["name"].as_str().unwrap_or_default()));
        let (status, created) = send(&next, &head, second.to_string()).await;
        answer(status, &created)
    }))
}

/// Simulates a provider that reads only the first page of the list of load balancers, and searches it for a name.
fn first_page_is_taken_for_whole(api: Router) -> Router {
    const PATH: &str = "/v1/load-balancers";
    api.layer(from_fn(async |request: Request, next: Next| {
        let (mut head, body) = request.into_parts();
        if head.method != Method::GET || head.uri.path() != PATH {
            return next.run(Request::from_parts(head, body)).await;
        }
        let query = head.uri.query().unwrap_or_default().to_owned();
        let name = query
            .split('&')
            .find_map(|part| part.strip_prefix("name="))
            .map(str::to_owned);
        head.uri = Uri::from_static(PATH);
        let (status, mut page) = send(&next, &head, Body::empty()).await;
        if let Some(items) = page["load_balancers"].as_array_mut() {
            items.retain(|object| {
                name.as_ref()
                    .is_none_or(|name| object["name"] == name.as_str())
            });
            (page["total"], page["next_page"]) = (json!(items.len()), Value::Null);
        }
        answer(status, &page)
    }))
}

#[test]
#[should_panic(expected = "more than one load balancer for one Service")]
fn names_that_are_not_unique_on_the_simulated_cloud_fail_the_proof_of_late_creations() {
    proofs::late_creations(
        &Harness::of(&SimulatedCloud::default())
            .layer(names_are_not_unique)
            .build(),
        0,
    );
}

#[test]
#[should_panic(expected = "more than one load balancer for one Service")]
fn names_that_are_not_unique_on_hetzner_fail_the_proof_of_late_creations() {
    proofs::late_creations(
        &Harness::of(&HetznerCloud::default())
            .layer(names_are_not_unique)
            .build(),
        0,
    );
}

#[test]
#[should_panic(expected = "not settled")]
fn first_page_taken_for_whole_fails_the_proof_of_partial_lists() {
    let harness = Harness::of(&SimulatedCloud::default())
        .layer(first_page_is_taken_for_whole)
        .build();
    VirtualTime::default().live(async || proofs::partial_lists(&harness).await);
}
