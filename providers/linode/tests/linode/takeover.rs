//! NodeBalancers that the Go cloud controller manager left: `go.json` is a recording of version 0.9.7 on this fake.

use cloud_provider::{Node, Service};
use serde_json::Value;

use crate::harness::Harness;

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap().clone()
}

fn shown(service: &Service) -> Vec<(Option<String>, Option<String>)> {
    let balancer = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer
        .and_then(|balancer| balancer.ingress.as_ref())
        .into_iter()
        .flatten();
    ingress
        .map(|ingress| (ingress.ip.clone(), ingress.hostname.clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_that_the_go_program_left_is_written() {
    let left: Value = serde_json::from_str(include_str!("go.json")).unwrap();
    let harness = Harness::new();
    {
        let mut cloud = harness.fake.lock();
        (cloud.linodes, cloud.nodebalancers) =
            (list(&left["linodes"]), list(&left["nodebalancers"]));
        (cloud.configs, cloud.firewalls) = (list(&left["configs"]), list(&left["firewalls"]));
    }
    let node = |object: &Value| {
        let text = |key: &str| object[key].as_str().unwrap().to_owned();
        let annotations = [(
            "node.k8s.linode.com/private-ip".to_owned(),
            text("privateIP"),
        )]
        .into_iter()
        .collect();
        let name = text("name").into();
        let provider_id = text("providerID").into();
        harness.cluster.set_node(Node {
            name,
            provider_id,
            annotations,
            ..Node::default()
        });
    };
    list(&left["nodes"]).iter().for_each(node);
    harness.set_certificate(left["certificate"].as_str());

    let provider = harness.started().await;
    let services = list(&left["services"]);
    for service in &services {
        let mut service: Service = serde_json::from_value(service.clone()).unwrap();
        let before = shown(&service);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{service:#?}");
        assert_eq!(shown(&service), before, "the addresses stay");
    }
    assert_eq!(services.len(), 10);
}
