//! Load balancers that the Go cloud-controller-manager left: `go.json` is a recording of version 1.37.0 on this fake, with
//! `DisableSecurityGroupIngress`: 20 classic and 20 network load balancers need more rules for Nodes than a group may have.

use aws_fake::Kind;
use cloud_provider::{CloudProvider, Service};
use serde_json::Value;

use crate::harness::{Harness, PREFIX, cluster, node_of};

const KINDS: [(&str, Kind); 8] = [
    ("instance", Kind::Instance),
    ("subnet", Kind::Subnet),
    ("table", Kind::Table),
    ("group", Kind::Group),
    ("classic", Kind::Classic),
    ("network", Kind::Network),
    ("target-group", Kind::TargetGroup),
    ("listener", Kind::Listener),
];

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap().clone()
}

fn hostnames(service: &Service) -> Vec<Option<String>> {
    let balancer = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    balancer
        .and_then(|balancer| balancer.ingress.as_ref())
        .into_iter()
        .flatten()
        .map(|ingress| ingress.hostname.clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn take_over_from_the_go_program_changes_only_tag_records_and_timeouts() {
    let left = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/scenarios/go.json"
    ))
    .unwrap();
    let left: Value = serde_json::from_slice(&left).unwrap();
    let harness = Harness::empty()
        .without_delays_and_limits()
        .with("DisableSecurityGroupIngress = true");
    for (name, kind) in KINDS {
        *harness.fake.lock().each(kind) = list(&left["cloud"][name]);
    }
    for node in list(&left["nodes"]) {
        let text = |key: &str| node[key].as_str().unwrap();
        harness
            .cluster
            .set_node(node_of(text("name"), text("providerID")));
    }
    let provider = harness.start().await.unwrap();
    assert_eq!(
        provider
            .routes()
            .unwrap()
            .list(&cluster())
            .await
            .unwrap()
            .len(),
        list(&left["nodes"]).len()
    );
    let services = list(&left["services"]);
    for service in &services {
        let service: Service = serde_json::from_value(service.clone()).unwrap();
        let annotations = service.metadata.annotations.clone().unwrap_or_default();
        let status = harness.ensure(&provider, &service).await.unwrap();
        let has = |key: &str| annotations.contains_key(&format!("{PREFIX}{key}"));
        let expected: &[&str] = match (
            has("type"),
            has("additional-resource-tags"),
            has("healthcheck-timeout"),
        ) {
            // Owner tags are written with the first change, then the record of the tags of the annotation.
            (true, true, _) => &["AddTags", "AddTags"],
            (false, true, _) => &["CreateTags", "AddTags", "CreateTags", "AddTags"],
            // The Go program never sends the timeout to a network load balancer.
            (true, _, true) => &["AddTags", "ModifyTargetGroup", "ModifyTargetGroup"],
            _ => &[],
        };
        assert_eq!(harness.changes(), expected, "{annotations:?}");
        let shown: Vec<_> = status
            .ingress
            .into_iter()
            .flatten()
            .map(|ingress| ingress.hostname)
            .collect();
        assert_eq!(shown, hostnames(&service), "the address stays");
    }
    assert_eq!(services.len(), 40);
}
