//! Scenarios of the tagging controller on the fake.

use std::time::Duration;

use aws_fake::Fault;
use cloud_provider::Node;
use serde_json::{Value, json};

use crate::harness::{Harness, node, tags};

const FLAGS: [(&str, &str); 3] = [
    ("--controllers", "*,tagging"),
    ("--tags", "team=web,cost=7"),
    ("--resources", "instance"),
];

/// Waits, in virtual time, until something holds.
async fn until(holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("it does not hold after ten minutes");
}

fn has_tags(harness: &Harness, id: &str) -> bool {
    let cloud = harness.fake.lock();
    let instance = cloud
        .all("instance")
        .iter()
        .find(|object| object["instanceId"] == id)
        .unwrap();
    let tags = tags(instance);
    tags.get("team").is_some_and(|text| text == "web")
        && tags.get("cost").is_some_and(|cost| cost == "7")
}

#[tokio::test(start_paused = true)]
async fn instances_of_nodes_get_the_tags_and_lose_them_with_their_node() {
    let harness = Harness::new().flags(&FLAGS);
    let provider = harness.start().await.unwrap();
    let id = harness.add_node("late");
    harness
        .cluster
        .set_node(node("fargate", "fargate-10.0.0.77"));
    until(|| has_tags(&harness, &id)).await;
    let patches = harness.cluster.take_patches();
    let (path, patch) = patches
        .iter()
        .find(|(path, _)| path.ends_with("/late"))
        .unwrap();
    let patch: Value = serde_json::from_slice(patch).unwrap();
    let label = patch["metadata"]["labels"]["k8s.io/cloud-provider-aws"]
        .as_str()
        .unwrap();
    assert_eq!((&**path, label.len()), ("/api/v1/nodes/late", 32));
    let labels = [("k8s.io/cloud-provider-aws".to_owned(), label.to_owned())]
        .into_iter()
        .collect();
    harness.cluster.set_node(Node {
        labels,
        ..node("late", &id)
    });
    harness.fake.fault_injector().forget_requests();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let sent = harness.fake.fault_injector().bodies("POST /ec2/CreateTags");
    assert!(
        !sent.iter().any(|object| object.to_string().contains(&id)),
        "tags are written once: {sent:?}"
    );
    harness.cluster.remove_node("late");
    until(|| !has_tags(&harness, &id)).await;
    let all = harness.fake.fault_injector().changes();
    assert!(
        !all.iter()
            .any(|(_, body)| body.to_string().contains("fargate")),
        "{all:?}"
    );
    drop(provider);
}

#[tokio::test(start_paused = true)]
async fn instance_that_ec2_refuses_keeps_no_other_one_from_its_tags() {
    let harness = Harness::new().flags(&FLAGS);
    let id = harness.add_node("good");
    harness
        .cluster
        .set_node(node("gone", "i-00000000000000000"));
    let provider = harness.start().await.unwrap();
    until(|| has_tags(&harness, &id)).await;
    // An old Node without an instance is left alone.
    harness.fake.fault_injector().forget_requests();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let sent = harness.fake.fault_injector().bodies("POST /ec2/CreateTags");
    let alone = sent
        .iter()
        .filter(|object| object["ResourceId"] == json!(["i-00000000000000000"]))
        .count();
    assert!(alone <= 1, "{alone} requests");
    drop(provider);
}

#[tokio::test(start_paused = true)]
async fn refused_tags_are_tried_again_ten_times_and_ids_of_simulators_once() {
    for (code, most) in [("InternalError", 10), ("InvalidID", 1)] {
        let harness = Harness::new().flags(&FLAGS);
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.cluster.remove_node(name));
        harness
            .fake
            .fault_injector()
            .fail(Fault::code("POST /ec2/CreateTags", code));
        let provider = harness.start().await.unwrap();
        harness.add_node("one");
        tokio::time::sleep(Duration::from_secs(7200)).await;
        // The transport repeats what was not answered rightly.
        let tries = harness.fake.fault_injector().count("POST /ec2/CreateTags");
        assert!(
            tries >= most && tries <= most * 6,
            "{code}: {tries} requests"
        );
        drop(provider);
    }
}
