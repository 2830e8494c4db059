//! Behaviour of the fake that its clients depend on.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

use std::time::Duration;

use digitalocean_fake::{Fake, Fault, FaultKind, TOKEN};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

async fn send(fake: &Fake, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {TOKEN}"));
    let answer = fake
        .router()
        .oneshot(request.body(axum::body::Body::from(body)).unwrap())
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn body(fake: &Fake) -> Value {
    let rule = json!({"entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 80});
    let droplet = fake.add_droplet("worker-1").id;
    json!({"name": "web", "region": "fra1", "forwarding_rules": [rule], "droplet_ids": [droplet], "tags": ["k8s:a"]})
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_new_until_it_has_an_address_and_refuses_changes() {
    let fake = Fake::default();
    let wanted = body(&fake);
    let (status, made) = send(&fake, "POST", "/v2/load_balancers", wanted.clone()).await;
    assert_eq!(
        (
            status,
            &made["load_balancer"]["status"],
            &made["load_balancer"]["ip"]
        ),
        (202, &json!("new"), &json!(""))
    );
    let path = format!(
        "/v2/load_balancers/{}",
        made["load_balancer"]["id"].as_str().unwrap()
    );
    let (status, refused) = send(&fake, "PUT", &path, wanted.clone()).await;
    assert_eq!(
        (status, &refused["id"]),
        (422, &json!("unprocessable_entity"))
    );
    tokio::time::sleep(Duration::from_secs(31)).await;
    let (status, shown) = send(
        &fake,
        "PUT",
        &path,
        json!({"name": "renamed", "forwarding_rules": wanted["forwarding_rules"]}),
    )
    .await;
    assert_eq!(
        (status, &shown["load_balancer"]["status"]),
        (200, &json!("active")),
        "{shown}"
    );
    assert_eq!(
        shown["load_balancer"]["droplet_ids"],
        json!([]),
        "the whole state is replaced"
    );
    assert_eq!(
        shown["load_balancer"]["tags"],
        json!(["k8s:a"]),
        "but for tags"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (status, refused) = send(
        &fake,
        "PUT",
        &path,
        json!({"name": "web", "type": "REGIONAL_NETWORK", "forwarding_rules": wanted["forwarding_rules"]}),
    )
    .await;
    assert_eq!(
        (status, &refused["message"]),
        (422, &json!("type cannot be changed"))
    );
    assert_eq!(send(&fake, "DELETE", &path, Value::Null).await.0, 204);
    assert_eq!(send(&fake, "DELETE", &path, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_does_not_accept_is_refused() {
    let fake = Fake::default();
    let wanted = body(&fake);
    for (pointer, value) in [
        ("/name", json!("-web")),
        ("/region", json!("moon1")),
        ("/droplet_ids", json!([7])),
        ("/forwarding_rules", json!([])),
        ("/forwarding_rules/0/entry_protocol", json!("https")),
        ("/colour", json!("red")),
        ("/size_unit", json!(0)),
        ("/http_idle_timeout_seconds", json!(5)),
        ("/tags", json!(["a b"])),
    ] {
        let mut wanted = wanted.clone();
        match wanted.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => wanted[&pointer[1..]] = value,
        }
        assert_eq!(
            send(&fake, "POST", "/v2/load_balancers", wanted).await.0,
            422,
            "{pointer}"
        );
    }
    assert!(fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_linked_pages() {
    let fake = Fake::default();
    (0..3).for_each(|number| drop(fake.add_droplet(&format!("worker-{number}"))));
    let (_, first) = send(&fake, "GET", "/v2/droplets?page=1&per_page=2", Value::Null).await;
    assert_eq!(
        (
            first["droplets"].as_array().unwrap().len(),
            &first["meta"]["total"]
        ),
        (2, &json!(3))
    );
    assert!(
        first["links"]["pages"]["next"]
            .as_str()
            .unwrap()
            .ends_with("/v2/droplets?page=2&per_page=2")
    );
    let (_, last) = send(&fake, "GET", "/v2/droplets?page=2&per_page=2", Value::Null).await;
    assert!(last["links"]["pages"]["next"].is_null());
    assert_eq!(
        send(&fake, "GET", "/v2/droplets?per_page=201", Value::Null)
            .await
            .0,
        422
    );
    fake.fail(Fault::new("GET /droplets", FaultKind::EmptyList));
    assert_eq!(
        send(&fake, "GET", "/v2/droplets", Value::Null).await.1["droplets"],
        json!([])
    );
}
