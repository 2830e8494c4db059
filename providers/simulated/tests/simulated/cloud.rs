//! The cloud's API and its controls, over HTTP.

use std::time::Duration;

use http::{Method, StatusCode};
use provider_simulated::cloud::{Options, RateLimit};
use serde_json::{Value, json};

use super::faults::ask;
use super::*;

async fn do_it(cloud: &Cloud, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    ask(
        cloud,
        method,
        path,
        Some(body).filter(|body| !body.is_null()),
    )
    .await
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn machines_come_change_and_go_by_http() {
    let cloud = Cloud::default();
    let (status, made) = do_it(
        &cloud,
        Method::POST,
        "/admin/machines",
        json!({"name": "gpu-1", "type": "large"}),
    )
    .await;
    assert_eq!(
        (status, &made["type"], &made["state"]),
        (StatusCode::CREATED, &json!("large"), &json!("running"))
    );
    let (_, many) = do_it(
        &cloud,
        Method::POST,
        "/admin/machines",
        json!({"count": 3, "prefix": "w-"}),
    )
    .await;
    assert_eq!(many["ids"].as_array().unwrap().len(), 3);
    let zones: std::collections::BTreeSet<_> = cloud.machines()[1..]
        .iter()
        .map(|m| m.zone.clone())
        .collect();
    assert_eq!(zones.len(), 3, "spread over zones");
    let (_, stopped) = do_it(
        &cloud,
        Method::POST,
        "/admin/machines/w-2/stop",
        Value::Null,
    )
    .await;
    assert_eq!(stopped["state"], "stopped");
    let addresses = json!([{"type": "InternalIP", "address": "10.9.9.9"}]);
    let (_, changed) = do_it(
        &cloud,
        Method::PATCH,
        "/admin/machines/w-2",
        json!({ "addresses": addresses }),
    )
    .await;
    assert_eq!(
        (&changed["addresses"], &changed["state"]),
        (&addresses, &json!("stopped"))
    );
    do_it(
        &cloud,
        Method::POST,
        "/admin/machines/w-2/start",
        Value::Null,
    )
    .await;
    let path = format!("/v1/machines/{}", changed["id"].as_str().unwrap());
    assert_eq!(
        do_it(&cloud, Method::GET, &path, Value::Null).await.1["state"],
        "running"
    );
    do_it(&cloud, Method::DELETE, "/admin/machines/w-2", Value::Null).await;
    let (status, body) = do_it(&cloud, Method::GET, &path, Value::Null).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let (status, body) = do_it(
        &cloud,
        Method::POST,
        "/admin/machines/w-1/explode",
        Value::Null,
    )
    .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("start, stop, terminate")
    );
    do_it(&cloud, Method::POST, "/admin/reset", Value::Null).await;
    assert!(cloud.machines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_token_sees_its_project_only() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 2);
    do_it(
        &cloud,
        Method::PUT,
        &format!("/admin/tokens/{DEFAULT_TOKEN}"),
        json!({"project": "other"}),
    )
    .await;
    let (_, list) = do_it(&cloud, Method::GET, "/v1/machines", Value::Null).await;
    assert_eq!((&list["machines"], &list["total"]), (&json!([]), &json!(0)));
    let (status, _) = do_it(
        &cloud,
        Method::GET,
        &format!("/v1/machines/{}", ids[0]),
        Value::Null,
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    do_it(
        &cloud,
        Method::DELETE,
        &format!("/admin/tokens/{DEFAULT_TOKEN}"),
        Value::Null,
    )
    .await;
    assert_eq!(
        do_it(&cloud, Method::GET, "/v1/machines", Value::Null)
            .await
            .0,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_is_filtered_by_name_and_label() {
    let cloud = Cloud::default();
    cloud.create_machines("w-", 60);
    do_it(
        &cloud,
        Method::PATCH,
        "/admin/machines/w-59",
        json!({"labels": {"pool": "blue"}}),
    )
    .await;
    for query in ["name=w-59", "label=pool%3Dblue"] {
        let (_, list) = do_it(
            &cloud,
            Method::GET,
            &format!("/v1/machines?{query}"),
            Value::Null,
        )
        .await;
        assert_eq!(
            (&list["machines"][0]["name"], &list["total"]),
            (&json!("w-59"), &json!(1)),
            "{query}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn operations_take_their_time() {
    let cloud = Cloud::new(Options {
        operation_milliseconds: 2000,
        ..Options::default()
    });
    let (status, made) = do_it(
        &cloud,
        Method::POST,
        "/v1/load-balancers",
        json!({"name": "a"}),
    )
    .await;
    assert_eq!(
        (status, &made["status"], &made["ip"]),
        (StatusCode::ACCEPTED, &json!("pending"), &Value::Null)
    );
    let path = format!("/v1/operations/{}", made["operation"].as_str().unwrap());
    assert_eq!(
        do_it(&cloud, Method::GET, &path, Value::Null).await.1["status"],
        "running"
    );
    let own = format!("/v1/load-balancers/{}", made["id"].as_str().unwrap());
    let (status, _) = do_it(&cloud, Method::PUT, &own, json!({"name": "a"})).await;
    assert_eq!(status, StatusCode::CONFLICT, "locked");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        do_it(&cloud, Method::GET, &path, Value::Null).await.1["status"],
        "done"
    );
    let (_, active) = do_it(&cloud, Method::GET, &own, Value::Null).await;
    assert!(
        active["status"] == "active" && active["ip"].is_string(),
        "{active}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_new_appears_in_lists_later() {
    let cloud = Cloud::default();
    do_it(
        &cloud,
        Method::PUT,
        "/admin/options",
        json!({"list_delay_milliseconds": 1000}),
    )
    .await;
    let ids = cloud.create_machines("w-", 1);
    let listed = async || {
        do_it(&cloud, Method::GET, "/v1/machines", Value::Null)
            .await
            .1["total"]
            .clone()
    };
    assert_eq!(listed().await, 0);
    assert_eq!(
        do_it(
            &cloud,
            Method::GET,
            &format!("/v1/machines/{}", ids[0]),
            Value::Null
        )
        .await
        .0,
        StatusCode::OK
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(listed().await, 1);
}

#[tokio::test(start_paused = true)]
async fn who_asks_by_name_or_ids_is_answered_for_certain() {
    let cloud = Cloud::new(Options {
        list_delay_milliseconds: 1000,
        ..Options::default()
    });
    let (_, made) = do_it(
        &cloud,
        Method::POST,
        "/v1/load-balancers",
        json!({"name": "a"}),
    )
    .await;
    let count = async |query: String| {
        do_it(
            &cloud,
            Method::GET,
            &format!("/v1/load-balancers{query}"),
            Value::Null,
        )
        .await
        .1["total"]
            .clone()
    };
    assert_eq!(count(String::new()).await, 0);
    assert_eq!(count("?name=a".into()).await, 1);
    assert_eq!(
        count(format!("?ids=x,{}", made["id"].as_str().unwrap())).await,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancers_are_protected_limited_and_changed_by_hand() {
    let cloud = Cloud::default();
    let (_, made) = do_it(
        &cloud,
        Method::POST,
        "/v1/load-balancers",
        json!({"name": "a"}),
    )
    .await;
    let own = format!("/v1/load-balancers/{}", made["id"].as_str().unwrap());
    do_it(
        &cloud,
        Method::PATCH,
        "/admin/load-balancers/a",
        json!({"protected": true, "tier": "premium"}),
    )
    .await;
    let (status, body) = do_it(&cloud, Method::DELETE, &own, Value::Null).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::LOCKED, &json!("protected"))
    );
    let (_, shown) = do_it(&cloud, Method::GET, &own, Value::Null).await;
    assert_eq!(
        (&shown["protected"], &shown["tier"]),
        (&json!(true), &json!("premium"))
    );
    do_it(
        &cloud,
        Method::PUT,
        "/admin/options",
        json!({"load_balancer_quota": 1}),
    )
    .await;
    let (status, body) = do_it(
        &cloud,
        Method::POST,
        "/v1/load-balancers",
        json!({"name": "b"}),
    )
    .await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::FORBIDDEN, &json!("quota_exceeded"))
    );
    do_it(
        &cloud,
        Method::DELETE,
        "/admin/load-balancers/a",
        Value::Null,
    )
    .await;
    assert!(cloud.load_balancers().is_empty());
    for wrong in [
        json!({"name": "c", "tier": "gold"}),
        json!({"name": "c", "targets": ["m-000001"]}),
        json!({"name": "c", "listeners": [{"port": 1, "protocol": "SCTP", "target_port": 2}]}),
    ] {
        let (status, _) = do_it(&cloud, Method::POST, "/v1/load-balancers", wrong).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_tells_itself_in_headers() {
    use tower::ServiceExt;
    let rate_limit = Some(RateLimit {
        requests: 2,
        seconds: 60,
    });
    let cloud = Cloud::new(Options {
        rate_limit,
        ..Options::default()
    });
    let ask = async || {
        let request = http::Request::get("/v1/token")
            .header("authorization", format!("Bearer {DEFAULT_TOKEN}"));
        let answer = cloud
            .router()
            .oneshot(request.body(axum::body::Body::empty()).unwrap())
            .await
            .unwrap();
        let header = |name| {
            answer
                .headers()
                .get(name)
                .map_or("", |value| value.to_str().unwrap())
                .to_owned()
        };
        let headers = [
            "ratelimit-limit",
            "ratelimit-remaining",
            "ratelimit-reset",
            "retry-after",
        ]
        .map(header);
        (answer.status().as_u16(), headers.join(" "))
    };
    assert_eq!(ask().await, (200, "2 1 60 ".into()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(ask().await, (200, "2 0 50 ".into()));
    assert_eq!(ask().await, (429, "2 0 50 50".into()));
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(ask().await, (200, "2 1 60 ".into()));
}

/// Returns the shortest time of a page: not a measurement, but a bound that only quadratic cost would exceed. The
/// shortest page is one that ran without other load.
async fn fastest_page(machines: usize, pages: usize) -> Duration {
    use tower::ServiceExt;
    let cloud = Cloud::default();
    cloud.create_machines("w-", machines);
    let router = cloud.router();
    let mut fastest = Duration::MAX;
    for page in 1..=pages {
        let request = http::Request::get(format!("/v1/machines?page={page}&per_page=50"));
        let request = request.header("authorization", format!("Bearer {DEFAULT_TOKEN}"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        let began = std::time::Instant::now();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        fastest = fastest.min(began.elapsed());
    }
    fastest
}

#[tokio::test]
async fn a_page_of_5000_machines_costs_no_hundred_times_what_one_of_50_costs() {
    let few = fastest_page(50, 1).await.min(fastest_page(50, 1).await);
    let many = fastest_page(5000, 100).await;
    println!("{few:?} a page of 50 machines, {many:?} of 5000");
    assert!(many < 30 * few, "{few:?}, {many:?}");
}
