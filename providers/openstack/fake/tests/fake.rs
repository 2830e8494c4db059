//! The fake's own answers.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod client;

use std::time::Duration;

use client::Client;
use http::StatusCode;
use openstack_fake::{Fake, Fault, Options};
use serde_json::{Value, json};

fn tree(subnet: &str) -> Value {
    json!({"name": "lb", "provider": "amphora", "tags": ["b", "a"], "vip_subnet_id": subnet, "listeners": [{
    "name": "listener_0", "protocol": "TCP", "protocol_port": 80, "allowed_cidrs": ["10.0.0.0/8"], "default_pool": {
        "name": "pool_0", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
        "members": [{"name": "node-1", "address": "10.6.0.21", "protocol_port": 31177, "subnet_id": subnet}],
        "healthmonitor": {"name": "monitor_0", "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1},
    }}]})
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_made_in_one_request_and_takes_its_time() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let client = Client::new(&fake).await;
    let made = client
        .post(
            "/load-balancer/v2.0/lbaas/loadbalancers",
            json!({"loadbalancer": tree(&network.subnet)}),
        )
        .await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let balancer = &made.body["loadbalancer"];
    assert_eq!(balancer["provisioning_status"], "PENDING_CREATE");
    assert_eq!(balancer["tags"], json!(["a", "b"]));
    assert_eq!(balancer["pools"][0]["members"][0]["name"], "node-1");
    let path = format!(
        "/load-balancer/v2.0/lbaas/loadbalancers/{}",
        balancer["id"].as_str().unwrap()
    );
    let refused = client
        .put(&path, json!({"loadbalancer": {"tags": []}}))
        .await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let read = client.get(&path).await;
    assert_eq!(read.body["loadbalancer"]["provisioning_status"], "ACTIVE");
    assert_eq!(
        read.body["loadbalancer"]["pools"],
        json!([{"id": balancer["pools"][0]["id"]}])
    );
    assert_eq!(
        client.delete(&path).await.status,
        StatusCode::BAD_REQUEST,
        "it has children"
    );
    assert_eq!(
        client.delete(&format!("{path}?cascade=true")).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        client.get(&path).await.body["loadbalancer"]["provisioning_status"],
        "PENDING_DELETE"
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(client.get(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(fake.ports(), [Value::Null; 0], "its port is gone, too");
}

#[tokio::test(start_paused = true)]
async fn a_refused_tree_leaves_nothing() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let client = Client::new(&fake).await;
    let mut tree = tree(&network.subnet);
    let twin = tree["listeners"][0].clone();
    tree["listeners"].as_array_mut().unwrap().push(twin);
    let refused = client
        .post(
            "/load-balancer/v2.0/lbaas/loadbalancers",
            json!({"loadbalancer": tree}),
        )
        .await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    let message =
        "Another Listener on this Load Balancer is already using protocol TCP and protocol_port 80";
    assert_eq!(
        refused.body,
        json!({"faultcode": "Client", "faultstring": message, "debuginfo": null})
    );
    assert_eq!((fake.load_balancers(), fake.ports()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn members_are_replaced_at_once_and_a_listener_loses_a_deleted_pool() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    fake.add_load_balancer(&tree(&network.subnet));
    let client = Client::new(&fake).await;
    let pool = fake.load_balancer("lb").unwrap()["pools"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/load-balancer/v2.0/lbaas/pools/{pool}");
    let members =
        json!({"members": [{"name": "node-2", "address": "10.6.0.22", "protocol_port": 31177}]});
    assert_eq!(
        client
            .put(&format!("{path}/members"), members.clone())
            .await
            .status,
        StatusCode::ACCEPTED
    );
    let refused = client.put(&format!("{path}/members"), members).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(
        refused.body["faultstring"]
            .as_str()
            .unwrap()
            .ends_with("is immutable and cannot be updated.")
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let read = client.get(&format!("{path}/members")).await;
    assert_eq!(read.body["members"].as_array().unwrap().len(), 1);
    assert_eq!(read.body["members"][0]["provisioning_status"], "ACTIVE");
    assert_eq!(client.delete(&path).await.status, StatusCode::NO_CONTENT);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let listener = &fake.load_balancer("lb").unwrap()["listeners"][0];
    assert_eq!(listener["default_pool_id"], Value::Null);
    assert_eq!(
        client.get(&format!("{path}/members")).await.body["title"],
        "Bad Request"
    );
}

#[tokio::test(start_paused = true)]
async fn servers_come_in_pages_the_newest_first() {
    let fake = Fake::new(Options {
        page_size: 2,
        ..Options::default()
    });
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    for number in 1..=5 {
        fake.add_server(&format!("worker-{number}"), &network);
    }
    let client = Client::new(&fake).await;
    let mut names = Vec::new();
    let mut path = "/compute/v2.1/servers/detail".to_owned();
    loop {
        let page = client.get(&path).await.body;
        names.extend(
            page["servers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|server| server["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["servers_links"][0]["href"].as_str() else {
            break;
        };
        path = next.strip_prefix("http://openstack").unwrap().to_owned();
    }
    assert_eq!(
        names,
        ["worker-5", "worker-4", "worker-3", "worker-2", "worker-1"]
    );
    let one = client
        .get("/compute/v2.1/servers/detail?name=%5Eworker-3%24")
        .await
        .body;
    assert_eq!(one["servers"].as_array().unwrap().len(), 1);
    assert_eq!(
        one["servers"][0]["addresses"]["k8s-net"][0]["OS-EXT-IPS:type"],
        "fixed"
    );
    assert_eq!(fake.count("GET /servers/detail"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_and_a_stale_revision_is_refused() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let port = fake.add_server("worker-1", &network).port;
    let client = Client::new(&fake).await;
    let path = format!("/network/v2.0/ports/{port}");
    let pairs = json!({"port": {"allowed_address_pairs": [{"ip_address": "10.244.1.0/24"}]}});
    let stale = client
        .send(
            "PUT",
            &path,
            Some(pairs.clone()),
            &[("if-match", "revision_number=7")],
        )
        .await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    let done = client
        .send(
            "PUT",
            &path,
            Some(pairs),
            &[("if-match", "revision_number=1")],
        )
        .await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
    assert_eq!(done.body["port"]["revision_number"], 2);
    tokio::time::sleep(Duration::from_secs(3601)).await;
    let late = client.get(&path).await;
    assert_eq!(
        (late.status, &late.body["error"]["title"]),
        (StatusCode::UNAUTHORIZED, &json!("Unauthorized"))
    );
}

#[tokio::test(start_paused = true)]
async fn extra_routes_are_added_and_removed_and_a_next_hop_must_be_near() {
    let fake = Fake::default();
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let router = fake.add_router("router", &network.subnet);
    let client = Client::new(&fake).await;
    let path = format!("/network/v2.0/routers/{router}");
    let route = |hop: &str| json!({"router": {"routes": [{"destination": "10.244.1.0/24", "nexthop": hop}]}});
    assert_eq!(
        client
            .put(&format!("{path}/add_extraroutes"), route("192.0.2.1"))
            .await
            .body["NeutronError"]["type"],
        "InvalidRoutes"
    );
    let added = client
        .put(&format!("{path}/add_extraroutes"), route("10.6.0.20"))
        .await;
    assert_eq!(
        added.body["router"]["routes"],
        route("10.6.0.20")["router"]["routes"]
    );
    assert_eq!(
        client
            .put(&format!("{path}/add_extraroutes"), route("10.6.0.20"))
            .await
            .body["router"]["revision_number"],
        4
    );
    let removed = client
        .put(&format!("{path}/remove_extraroutes"), route("10.6.0.20"))
        .await;
    assert_eq!(removed.body["router"]["routes"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn faults_hit_what_they_name_as_often_as_they_say() {
    let fake = Fake::default();
    let client = Client::new(&fake).await;
    fake.fail(Fault::refused("GET /ports", 503).times(1));
    fake.fail(Fault::retry_after("GET /networks", 429, 7));
    assert_eq!(
        client.get("/network/v2.0/ports").await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(
        client.get("/network/v2.0/ports").await.status,
        StatusCode::OK
    );
    assert_eq!(
        client.get("/network/v2.0/networks").await.status,
        StatusCode::TOO_MANY_REQUESTS
    );
}
