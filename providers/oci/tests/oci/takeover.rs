//! Load balancers that the Go cloud controller manager left: `go.json` is a recording of v1.35.0 on this fake.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{AddressType, Node, NodeAddress, Service};
use serde_json::{Value, json};

use crate::harness::Harness;

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap().clone()
}

fn shown(service: &Service) -> Vec<Option<String>> {
    let balancer = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    balancer
        .and_then(|balancer| balancer.ingress.as_ref())
        .into_iter()
        .flatten()
        .map(|ingress| ingress.ip.clone())
        .collect()
}

/// Returns a cluster and its cloud as they were recorded, and the Services.
fn recorded(left: &Value) -> (Harness, Vec<Service>) {
    let harness = Harness::new();
    harness.fake.lock().objects = serde_json::from_value(left["objects"].clone()).unwrap();
    for name in ["worker-1", "worker-2"] {
        harness.cluster.remove_node(name);
    }
    for node in list(&left["nodes"]) {
        let text = |key: &str| node[key].as_str().unwrap().to_owned();
        let addresses = [NodeAddress::new(
            AddressType::InternalIP,
            node["address"][0].as_str().unwrap(),
        )]
        .into();
        let name = text("name").into();
        let provider_id = text("providerID").into();
        harness.cluster.set_node(Node {
            name,
            provider_id,
            addresses,
            ..Node::default()
        });
    }
    let certificate = STANDARD.encode(left["certificate"].as_str().unwrap());
    let key = STANDARD.encode("-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n");
    let secret = json!({"data": {"tls.crt": certificate, "tls.key": key}});
    harness.cluster.set_document(
        "/api/v1/namespaces/default/secrets/web-tls",
        secret.to_string(),
    );
    let services = list(&left["services"])
        .into_iter()
        .map(|service| serde_json::from_value(service).unwrap())
        .collect();
    (harness, services)
}

#[tokio::test(start_paused = true)]
async fn nothing_that_the_go_program_left_is_written() {
    let (harness, services) = recorded(&serde_json::from_str(include_str!("go.json")).unwrap());
    let provider = harness.started().await;
    // The Go program opens UDP ports in groups for TCP alone: they are corrected.
    let corrected = [
        "PUT /networkLoadBalancers/{id}",
        "POST /networkSecurityGroups/{id}/actions/addSecurityRules",
        "POST /networkSecurityGroups/{id}/actions/removeSecurityRules",
    ];
    for service in &services {
        let mut now = service.clone();
        harness
            .ensure_beside(&provider, &mut now, &services)
            .await
            .unwrap();
        let has_udp_in_group = service.metadata.name.as_deref() == Some("nlb-group");
        assert_eq!(
            harness.changes(),
            if has_udp_in_group {
                &corrected[..]
            } else {
                &[]
            },
            "{service:#?}"
        );
        harness.fake.fault_injector().forget_requests();
        assert_eq!(shown(&now), shown(service), "the addresses stay");
    }
    assert_eq!(services.len(), 16);
}

#[tokio::test(start_paused = true)]
async fn backends_that_the_go_program_left_out_are_added_with_one_write_of_the_tags() {
    let mut left: Value = serde_json::from_str(include_str!("go.json")).unwrap();
    let is_sought = |service: &Value| service["metadata"]["name"] == "two-ports";
    let service = list(&left["services"]).into_iter().find(is_sought).unwrap();
    let is_its_object = |object: &&mut Value| {
        object["displayName"] == service["metadata"]["uid"] && object["backendSets"].is_object()
    };
    let balancer = left["objects"]
        .as_object_mut()
        .unwrap()
        .values_mut()
        .find(is_its_object)
        .unwrap();
    for (_, set) in balancer["backendSets"].as_object_mut().unwrap() {
        set["backends"].as_array_mut().unwrap().pop();
    }
    let (harness, services) = recorded(&left);
    let provider = harness.started().await;
    let mut service = serde_json::from_value(service).unwrap();
    harness
        .ensure_beside(&provider, &mut service, &services)
        .await
        .unwrap();
    let set = "PUT /loadBalancers/{id}/{part}/{name}";
    assert_eq!(harness.changes(), ["PUT /loadBalancers/{id}", set, set]);
}

/// Creates load balancers for a recorded cluster, which the Go program then takes over: `CCM_TEST_OCI_LEFT` is a file
/// like `go.json` without load balancers, and `CCM_TEST_OCI_OURS` is written, for `load` of the fake.
#[tokio::test(start_paused = true)]
#[ignore = "needs a recording"]
async fn load_balancers_for_the_go_program() {
    let path = |name: &str| {
        std::env::var(format!("CCM_TEST_OCI_{name}")).expect("the variables of this test")
    };
    let (harness, services) =
        recorded(&serde_json::from_slice(&std::fs::read(path("LEFT")).unwrap()).unwrap());
    let provider = harness.started().await;
    for service in &services {
        harness
            .ensure_beside(&provider, &mut service.clone(), &services)
            .await
            .unwrap();
    }
    std::fs::write(path("OURS"), json!(harness.fake.lock().objects).to_string()).unwrap();
}
