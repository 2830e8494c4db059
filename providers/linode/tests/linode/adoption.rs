//! NodeBalancers that were not created for the Service that names them.

use cloud_provider::{Caches, CloudProvider, Goal, LoadBalancerRequest};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster, service};

const TAG: &str = "ccm-rs-adoptable";

/// Adds a NodeBalancer by hand; its configuration of port 443 has a backend if it is in use.
fn add(harness: &Harness, is_used: bool, tags: &Value) -> String {
    let mut cloud = harness.fake.lock();
    let id = cloud.add_nodebalancer("by-hand");
    cloud
        .nodebalancers
        .iter_mut()
        .filter(|nodebalancer| nodebalancer["id"] == id)
        .for_each(|nodebalancer| nodebalancer["tags"] = tags.clone());
    if is_used {
        let node = json!({"id": 9001, "address": "192.168.0.9:8443", "label": "theirs", "weight": 100, "mode": "accept"});
        cloud
            .configs
            .iter_mut()
            .for_each(|config| config["nodes"] = json!([node.clone()]));
    }
    id.to_string()
}

#[tokio::test(start_paused = true)]
async fn adopted_nodebalancer_is_released_and_never_deleted() {
    let harness = Harness::new();
    let id = add(&harness, false, &json!(["mine"]));
    let mut service = service(&[("nodebalancer-id", &id)]);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    let (adopted, configs) = harness.nodebalancer();
    let tags: Vec<_> = adopted["tags"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        tags.contains(&"ccmrs-adopted") && tags.contains(&"mine"),
        "{tags:?}"
    );
    assert_eq!(configs.len(), 2);
    // After a restart, the tags alone show that it was adopted.
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &service).await.unwrap();
    let (left, configs) = harness.nodebalancer();
    assert_eq!(
        (&left["id"].to_string(), &left["tags"]),
        (&id, &json!(["mine"]))
    );
    assert!(configs.is_empty(), "{configs:?}");
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.contains("LoadBalancerNotDeleted")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodebalancer_in_use_is_not_adopted_without_the_required_tag() {
    for (required, tag, is_adopted) in [
        (None, TAG, false),
        (Some(TAG), "mine", false),
        (Some(TAG), TAG, true),
    ] {
        let harness = Harness::new();
        let harness = if let Some(required) = required {
            harness.requiring(required)
        } else {
            harness
        };
        let id = add(&harness, true, &json!([tag]));
        let before = harness.nodebalancer();
        let mut service = service(&[("nodebalancer-id", &id)]);
        let provider = harness.started().await;
        let outcome = harness.ensure(&provider, &mut service).await;
        assert_eq!(
            outcome.is_ok(),
            is_adopted,
            "{required:?} {tag}: {outcome:?}"
        );
        if let Err(error) = outcome {
            assert!(
                error.is_invalid() && error.to_string().contains("tag"),
                "{error}"
            );
            assert!(harness.update_targets(&provider, &service).await.is_err());
            let _ = harness.delete(&provider, &service).await;
            assert_eq!(harness.nodebalancer(), before);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn plan_says_that_the_named_nodebalancer_does_not_exist() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let service = service(&[("nodebalancer-id", "4711")]);
    harness.cluster.set_services([service.clone()]);
    let nodes = harness.cluster.nodes();
    let cluster = cluster();
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &service,
        nodes: &nodes,
        callbacks: &(),
    };
    let error = provider
        .load_balancers()
        .unwrap()
        .plan(request, Goal::Ensured)
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("there is no NodeBalancer 4711"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodebalancer_with_the_required_tag_is_not_deleted_although_its_other_tags_were_reset() {
    let harness = Harness::new().requiring(TAG);
    let id = add(&harness, false, &json!([TAG]));
    let mut service = service(&[("nodebalancer-id", &id)]);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.fake.lock().nodebalancers[0]["tags"] = json!([TAG]);
    let provider = harness.started().await;
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.nodebalancer().0["id"].to_string(), id);
}
