//! The fake behaves as the APIs do, as far as they are described.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hetzner_fake::{Fake, Fault, FaultKind, Options, TOKEN};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

async fn ask_as(
    router: Router,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, HeaderMap, Value) {
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"));
    let answer = router.oneshot(request.body(body).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let headers = answer.headers().clone();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    (
        status,
        headers,
        serde_json::from_slice(&bytes).unwrap_or_default(),
    )
}

async fn ask(fake: &Fake, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, _, body) = ask_as(fake.router(), TOKEN, method, &format!("/v1{path}"), body).await;
    (status, body)
}

async fn get(fake: &Fake, path: &str) -> Value {
    ask(fake, "GET", path, &Value::Null).await.1
}

fn wish(server: u64) -> Value {
    json!({"name": "web", "load_balancer_type": "lb11", "location": "nbg1", "labels": {"hcloud-ccm/service-uid": "u-1"},
        "services": [{"protocol": "tcp", "listen_port": 80, "destination_port": 30080,
            "health_check": {"protocol": "tcp", "port": 30080}}],
        "targets": [{"type": "server", "server": {"id": server}, "use_private_ip": false}]})
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_made_with_everything_and_found_by_label_and_name() {
    let fake = Fake::default();
    let server = fake.add_server("worker-1");
    let (status, made) = ask(&fake, "POST", "/load_balancers", &wish(server.id)).await;
    assert_eq!(status, 201, "{made}");
    let check = &made["load_balancer"]["services"][0]["health_check"];
    assert_eq!(
        (&check["interval"], &check["timeout"], &check["retries"]),
        (&json!(15), &json!(10), &json!(3))
    );
    assert_eq!(made["action"]["status"], "running");
    let action = format!("/actions?id={}", made["action"]["id"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(get(&fake, &action).await["actions"][0]["status"], "success");
    for query in ["label_selector=hcloud-ccm/service-uid=u-1", "name=web"] {
        let found = get(&fake, &format!("/load_balancers?{query}")).await;
        assert_eq!(
            found["load_balancers"][0]["id"], made["load_balancer"]["id"],
            "{query}"
        );
    }
    assert_eq!(
        get(&fake, "/load_balancers?name=other").await["load_balancers"],
        json!([])
    );
    let (status, refused) = ask(&fake, "POST", "/load_balancers", &wish(server.id)).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("uniqueness_error"))
    );
    assert_eq!(fake.count("POST /load_balancers"), 2);
}

/// Hetzner's own client sends the ID of a type as a number.
#[tokio::test(start_paused = true)]
async fn type_of_a_load_balancer_is_given_by_name_or_id() {
    let fake = Fake::default();
    let server = fake.add_server("worker-1");
    let types = get(&fake, "/load_balancer_types").await;
    let id = &types["load_balancer_types"][0]["id"];
    for (number, kind) in [json!("lb11"), id.clone(), json!(id.to_string())]
        .into_iter()
        .enumerate()
    {
        let mut wish = wish(server.id);
        wish["name"] = json!(format!("web-{number}"));
        wish["load_balancer_type"] = kind.clone();
        let (status, made) = ask(&fake, "POST", "/load_balancers", &wish).await;
        assert_eq!(
            (status, &made["load_balancer"]["load_balancer_type"]["name"]),
            (201, &json!("lb11")),
            "{kind}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_leaves_nothing_behind() {
    let fake = Fake::default();
    let mut wish = wish(7);
    let (status, refused) = ask(&fake, "POST", "/load_balancers", &wish).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (404, &json!("not_found"))
    );
    wish["targets"] = json!([]);
    wish["nonsense"] = json!(1);
    let (status, refused) = ask(&fake, "POST", "/load_balancers", &wish).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (422, &json!("invalid_input")),
        "{refused}"
    );
    assert_eq!(fake.load_balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn private_targets_need_both_ends_in_the_network_and_go_with_it() {
    let fake = Fake::default();
    let server = fake.add_server("worker-1");
    let network = fake.add_network("kubernetes", "10.0.0.0/8");
    let id = fake.add_load_balancer("web").id;
    let act = async |action: &str, body: Value| {
        ask(
            &fake,
            "POST",
            &format!("/load_balancers/{id}/actions/{action}"),
            &body,
        )
        .await
    };
    let target = json!({"type": "server", "server": {"id": server.id}, "use_private_ip": true});
    assert_eq!(
        act("add_target", target.clone()).await.1["error"]["code"],
        "load_balancer_not_attached_to_network"
    );
    assert_eq!(
        act(
            "attach_to_network",
            json!({"network": network, "ip": "10.0.0.9"})
        )
        .await
        .0,
        201
    );
    assert_eq!(
        act("add_target", target.clone()).await.1["error"]["code"],
        "server_not_attached_to_network"
    );
    fake.attach("worker-1", network);
    assert_eq!(act("add_target", target.clone()).await.0, 201);
    assert_eq!(
        act("add_target", target).await.1["error"]["code"],
        "target_already_defined"
    );
    assert_eq!(
        fake.load_balancers()[0].private_net[0].ip.to_string(),
        "10.0.0.9"
    );
    assert_eq!(
        act("detach_from_network", json!({"network": network}))
            .await
            .0,
        201
    );
    assert_eq!(fake.load_balancers()[0].targets, []);
}

#[tokio::test(start_paused = true)]
async fn http_services_have_the_apis_defaults_and_https_needs_a_certificate() {
    let fake = Fake::default();
    let id = fake.add_load_balancer("web").id;
    let act = async |action: &str, body: Value| {
        ask(
            &fake,
            "POST",
            &format!("/load_balancers/{id}/actions/{action}"),
            &body,
        )
        .await
    };
    assert_eq!(act("add_service", json!({"protocol": "http"})).await.0, 201);
    let service = fake.load_balancers()[0].services[0].clone();
    assert_eq!((service.listen_port, service.destination_port), (80, 80));
    assert_eq!(service.http.unwrap().cookie_name, "HCLBSTICKY");
    let refused = act("add_service", json!({"protocol": "https"})).await;
    assert_eq!(
        refused.1["error"]["details"]["fields"][0]["name"],
        "http.certificates"
    );
    let certificate = fake.add_certificate("mine").id;
    let https = json!({"protocol": "https", "http": {"certificates": [certificate]}});
    assert_eq!(act("add_service", https.clone()).await.0, 201);
    assert_eq!(
        act("add_service", https).await.1["error"]["code"],
        "source_port_already_used"
    );
    assert_eq!(
        act(
            "update_service",
            json!({"listen_port": 80, "proxyprotocol": true})
        )
        .await
        .0,
        201
    );
    assert!(fake.load_balancers()[0].services[0].proxyprotocol);
    assert_eq!(
        act("delete_service", json!({"listen_port": 80})).await.0,
        201
    );
    assert_eq!(
        act("delete_service", json!({"listen_port": 80})).await.0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_network_takes_one_change_at_a_time() {
    let fake = Fake::default();
    let network = fake.add_network("kubernetes", "10.0.0.0/8");
    let add = async |number: u8| {
        let route = json!({"destination": format!("10.244.{number}.0/24"), "gateway": "10.0.0.2"});
        ask(
            &fake,
            "POST",
            &format!("/networks/{network}/actions/add_route"),
            &route,
        )
        .await
    };
    assert_eq!(add(1).await.0, 201);
    assert_eq!(add(2).await.1["error"]["code"], "conflict");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(add(2).await.0, 201);
    assert_eq!(fake.routes(network).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn lists_have_pages_which_can_be_flawed() {
    let fake = Fake::default();
    for number in 0..60 {
        fake.add_server(&format!("worker-{number}"));
    }
    let second = get(&fake, "/servers?page=2&per_page=50").await;
    assert_eq!(second["servers"].as_array().unwrap().len(), 10);
    assert_eq!(second["meta"]["pagination"]["next_page"], Value::Null);
    assert_eq!(
        get(&fake, "/servers").await["meta"]["pagination"]["next_page"],
        2
    );
    assert_eq!(
        ask(&fake, "GET", "/servers?per_page=51", &Value::Null)
            .await
            .0,
        422
    );
    fake.fail(Fault::new("GET /servers", FaultKind::EarlyEnd(1)).times(1));
    assert_eq!(
        get(&fake, "/servers").await["meta"]["pagination"]["next_page"],
        Value::Null
    );
    fake.fail(Fault::new("GET", FaultKind::EmptyList));
    assert_eq!(get(&fake, "/servers").await["servers"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_token_has_its_project_and_its_bucket() {
    let fake = Fake::new(Options {
        remaining: 2,
        ..Options::default()
    });
    fake.add_server("worker-1");
    let ask =
        async |token: &str| ask_as(fake.router(), token, "GET", "/v1/servers", &Value::Null).await;
    assert_eq!(ask("nobody's").await.0, 401);
    let (status, headers, _) = ask(TOKEN).await;
    assert_eq!(
        (
            status,
            &headers["ratelimit-remaining"],
            &headers["ratelimit-limit"]
        ),
        (200, &"1".parse().unwrap(), &"3600".parse().unwrap())
    );
    assert!(headers.contains_key("x-correlation-id"));
    assert_eq!(ask(TOKEN).await.0, 200);
    let (status, _, body) = ask(TOKEN).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (429, &json!("rate_limit_exceeded"))
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ask(TOKEN).await.0, 200);
    fake.set_token("another", "elsewhere");
    assert_eq!(ask("another").await.2["servers"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn requests_and_actions_fail_as_told() {
    let fake = Fake::default();
    let id = fake.add_load_balancer("web").id;
    fake.fail(Fault::code("GET /locations", "maintenance").times(1));
    assert_eq!(ask(&fake, "GET", "/locations", &Value::Null).await.0, 503);
    assert_eq!(ask(&fake, "GET", "/locations", &Value::Null).await.0, 200);
    let route = "POST /load_balancers/{id}/actions/change_algorithm";
    fake.fail(Fault::ends_in_error(route, "server_error").times(1));
    let path = format!("/load_balancers/{id}/actions/change_algorithm");
    let (status, answer) = ask(&fake, "POST", &path, &json!({"type": "least_connections"})).await;
    assert_eq!(status, 201);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let action =
        get(&fake, &format!("/actions?id={}", answer["action"]["id"])).await["actions"][0].clone();
    assert_eq!(
        (&action["status"], &action["error"]["code"]),
        (&json!("error"), &json!("server_error"))
    );
    assert_eq!(fake.load_balancers()[0].algorithm, "round_robin");
    assert_eq!(fake.bodies(route), [json!({"type": "least_connections"})]);
}

#[tokio::test(start_paused = true)]
async fn robot_has_passwords_limits_and_words_of_its_own() {
    let fake = Fake::default();
    fake.add_robot_server(321, "bm-1");
    let ask = async |authorization: &str, path: &str| {
        let request = Request::builder()
            .uri(path)
            .header("authorization", authorization)
            .body(Body::empty())
            .unwrap();
        let answer = fake.router().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    use base64::Engine;
    let text = format!(
        "{}:{}",
        hetzner_fake::ROBOT_USER,
        hetzner_fake::ROBOT_PASSWORD
    );
    let basic = format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(text)
    );
    assert_eq!(ask("Basic nonsense", "/server").await.0, 401);
    assert_eq!(
        ask(&basic, "/server").await.1[0]["server"]["server_name"],
        "bm-1"
    );
    assert_eq!(
        ask(&basic, "/server/4").await.1["error"]["code"],
        "SERVER_NOT_FOUND"
    );
    assert_eq!(
        ask(&basic, "/reset/321").await.1["reset"]["operating_status"],
        "running"
    );
    fake.limit_robot(Some(1));
    assert_eq!(ask(&basic, "/server").await.0, 200);
    assert_eq!(
        ask(&basic, "/server").await.1["error"]["code"],
        "RATE_LIMIT_EXCEEDED"
    );
}

#[tokio::test(start_paused = true)]
async fn the_metadata_service_names_the_networks() {
    let fake = Fake::default();
    let network = fake.add_network("kubernetes", "10.0.0.0/8");
    fake.run_attached_to(network);
    let request = Request::builder()
        .uri("/hetzner/v1/metadata/private-networks")
        .body(Body::empty())
        .unwrap();
    let body = fake
        .router()
        .oneshot(request)
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    assert!(String::from_utf8_lossy(&body).contains(&format!("network_id: {network}\n")));
}
