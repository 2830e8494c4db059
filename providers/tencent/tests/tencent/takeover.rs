//! Take-over from the vendor's Go program. `go.json` is a recording of the changes that it sent to the fake by API 2.0 for
//! two Nodes and a Service, with placeholders for the IDs of the load balancer and of its listeners; `go_private.json`
//! is one for a private Service.

use axum::body::Body;
use cloud_provider::{AddressType, CloudProvider, Node, NodeAddress, Service};
use http::Request;
use serde_json::{Value, json};
use tencent_fake::router;
use tower::ServiceExt;

use crate::harness::{Harness, cluster, service_of};
use crate::load_balancers::{SUBNET, TYPE};

/// Sends the changes of the Go program, and returns the Service with the address that it has then.
async fn left_by_the_go_program(harness: &Harness) -> Service {
    send(harness, include_str!("go.json")).await;
    let ports = json!([{"name": "t", "port": 80, "nodePort": 30080}, {"name": "u", "port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    with_address(harness, service_of(&[], json!({"ports": ports})))
}

/// Returns a Service that shows the address of the only load balancer.
fn with_address(harness: &Harness, mut service: Service) -> Service {
    let ip = harness.only("balancer")["LoadBalancerVips"][0].clone();
    service.status =
        Some(serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": ip}]}})).unwrap());
    service
}

/// Sends the changes of a recording to the fake, in their order.
async fn send(harness: &Harness, recording: &str) {
    let queries: Vec<String> = serde_json::from_str(recording).unwrap();
    for mut query in queries {
        for (place, kind, id) in [
            ("BALANCER", "balancer", "LoadBalancerId"),
            ("LISTENER", "listener", "ListenerId"),
        ] {
            for (at, id) in harness.texts(kind, &[id]).iter().enumerate() {
                query = query.replace(&format!("{place}{at}"), id);
            }
        }
        let request = Request::get(format!("/v2/index.php?{query}"))
            .body(Body::empty())
            .unwrap();
        let answer = router(&harness.fake).oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20)
            .await
            .unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], 0, "{query}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn private_load_balancer_of_the_go_program_is_taken_over_without_a_change() {
    let harness = Harness::new();
    send(&harness, include_str!("go_private.json")).await;
    let ports = json!({"ports": [{"port": 80, "nodePort": 30082}]});
    let mut service = with_address(
        &harness,
        service_of(&[(TYPE, "private"), (SUBNET, "subnet-1")], ports),
    );
    let before = service.status.clone();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!((harness.changes(), &service.status), (Vec::new(), &before));
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_the_go_program_is_taken_over_without_a_change() {
    let harness = Harness::new();
    let mut service = left_by_the_go_program(&harness).await;
    let provider = harness.started().await;
    let before = service.status.clone();
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!((harness.changes(), &service.status), (Vec::new(), &before));
    service
        .spec
        .as_mut()
        .unwrap()
        .ports
        .as_mut()
        .unwrap()
        .remove(1);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["ModifyResourceTags", "DeleteLoadBalancerListeners"],
        "tags come with the next change"
    );
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().all("balancer").is_empty());
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_the_go_program_is_deleted_with_its_service() {
    let harness = Harness::new();
    let service = left_by_the_go_program(&harness).await;
    harness.cluster.set_services([service.clone()]);
    let provider = harness.started().await;
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().all("balancer").is_empty());
}

#[tokio::test(start_paused = true)]
async fn load_balancer_with_another_name_is_not_taken_for_that_of_the_go_program() {
    let harness = Harness::new();
    let mut service = left_by_the_go_program(&harness).await;
    harness.fake.lock().each("balancer")[0]["LoadBalancerName"] = "mine".into();
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.texts("balancer", &["LoadBalancerName"]),
        ["5c1d_default_web", "mine"]
    );
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.texts("balancer", &["LoadBalancerName"]), ["mine"]);
}

#[tokio::test(start_paused = true)]
async fn routes_and_nodes_of_the_go_program_stay_as_they_are() {
    let harness = Harness::new();
    left_by_the_go_program(&harness).await;
    let provider = harness.started().await;
    let node = Node {
        name: "10.0.0.1".into(),
        provider_id: "tencentcloud:///ap-guangzhou-4/ins-t0000001".into(),
        addresses: [NodeAddress::new(AddressType::InternalIP, "10.0.0.1")].into(),
        pod_cidrs: ["10.244.1.0/24".into()].into(),
        ..Node::default()
    };
    harness.cluster.remove_node("worker-1");
    harness.cluster.set_node(node);
    let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
    assert_eq!(routes.len(), 2);
    let route = routes
        .iter()
        .find(|route| route.target_node == "10.0.0.1")
        .unwrap();
    assert_eq!(&*route.destination_cidr, "10.244.1.0/24");
}
