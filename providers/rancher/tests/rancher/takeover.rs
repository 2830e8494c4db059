//! Load balancers that the Go cloud controller manager left: `go.json` is a recording of version 0.1.4 on this fake.

use cloud_provider::Service;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::profile::text;

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap().clone()
}

/// Returns the recording, and a harness with its hosts and Nodes.
fn recorded() -> (Value, Harness) {
    let left: Value = serde_json::from_str(include_str!("go.json")).unwrap();
    let harness = Harness::new();
    for name in ["worker-1", "worker-2"] {
        harness.cluster.remove_node(name);
    }
    harness.fake.lock().hosts = list(&left["hosts"]);
    for node in list(&left["nodes"]) {
        let name = text(&node["name"]);
        harness.set_node(
            &name,
            &text(&harness.host(&name)["uuid"]),
            &text(&node["address"]),
        );
    }
    (left, harness)
}

#[tokio::test(start_paused = true)]
async fn nothing_that_the_go_program_left_is_written() {
    let (left, harness) = recorded();
    {
        let mut cloud = harness.fake.lock();
        (cloud.stacks, cloud.services) = (list(&left["stacks"]), list(&left["balancers"]));
    }
    let provider = harness.started().await;
    for service in list(&left["services"]) {
        let mut service: Service = serde_json::from_value(service).unwrap();
        let shown = |service: &Service| {
            serde_json::to_value(service).unwrap()["status"]["loadBalancer"]["ingress"][0].clone()
        };
        let before = shown(&service);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{service:#?}");
        assert_eq!(shown(&service), before, "the address stays");
    }
    assert_eq!(list(&left["services"]).len(), 5);
}

/// Compares load balancers with those of the Go program. `CCM_RANCHER_OURS=FILE` writes our own, for the fake's `load`.
#[tokio::test(start_paused = true)]
async fn load_balancers_are_those_that_the_go_program_would_make() {
    let (left, harness) = recorded();
    let provider = harness.started().await;
    for service in list(&left["services"]) {
        harness
            .ensure(&provider, &mut serde_json::from_value(service).unwrap())
            .await
            .unwrap();
    }
    let key = |object: &Value| (text(&object["type"]), text(&object["name"]));
    let shape = |all: Vec<Value>| {
        let mut all: Vec<_> = all
            .iter()
            .map(|object| {
                (
                    key(object),
                    sorted(&object["launchConfig"]["ports"]),
                    object["externalIpAddresses"].clone(),
                )
            })
            .collect();
        all.sort_by_key(|pair| pair.0.clone());
        all
    };
    let ours = [
        harness.live("loadBalancerService"),
        harness.live("externalService"),
    ]
    .concat();
    assert_eq!(shape(ours.clone()), shape(list(&left["balancers"])));
    if let Some(file) = std::env::var_os("CCM_RANCHER_OURS") {
        let all = json!({"hosts": left["hosts"], "stacks": harness.fake.lock().stacks, "balancers": ours});
        std::fs::write(file, all.to_string()).unwrap();
    }
}

fn sorted(value: &Value) -> Vec<String> {
    let mut all: Vec<_> = value.as_array().into_iter().flatten().map(text).collect();
    all.sort();
    all
}
