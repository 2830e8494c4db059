//! Load balancers that were not created for the Service that names them.

use cloud_provider::{Caches, CloudProvider, Goal, LoadBalancerRequest, Service};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster, service, set};

const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";
const TAG: &str = "ccm-rs-adoptable";

fn tags(load_balancer: &Value) -> Vec<&str> {
    load_balancer["tags"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// Adds a load balancer by hand, with these droplets, and returns its ID.
fn add(harness: &Harness, droplets: &Value) -> String {
    let id = harness.fake.add_load_balancer("by-hand")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    harness
        .fake
        .change_load_balancer("by-hand", |load_balancer| {
            load_balancer["droplet_ids"] = droplets.clone();
        });
    id
}

/// Returns Services that name the load balancer, by its ID and by its name.
fn naming(id: &str) -> [Service; 2] {
    [
        service(&[("type", "REGIONAL"), (ID, id)]),
        service(&[("type", "REGIONAL"), ("name", "by-hand")]),
    ]
}

#[tokio::test(start_paused = true)]
async fn adopted_load_balancer_is_released_and_never_deleted() {
    for by_name in [0, 1] {
        let harness = Harness::new();
        let id = add(&harness, &json!([]));
        let mut service = naming(&id)[by_name].clone();
        let provider = harness.started().await;
        harness.ensure(&provider, &mut service).await.unwrap();
        let adopted = harness.load_balancer();
        assert_eq!(
            (
                adopted["id"].as_str(),
                adopted["droplet_ids"].as_array().unwrap().len()
            ),
            (Some(&*id), 2)
        );
        assert!(
            tags(&adopted).contains(&"ccmrs-adopted"),
            "{:?}",
            tags(&adopted)
        );
        // After a restart, the tags alone show that it was adopted.
        let provider = harness.started().await;
        harness.delete(&provider, &service).await.unwrap();
        let left = harness.load_balancer();
        assert_eq!(
            (left["id"].as_str(), &left["droplet_ids"], &left["tags"]),
            (Some(&*id), &json!([]), &json!([]))
        );
        let events = harness.events();
        assert!(
            events
                .iter()
                .any(|event| event.contains("LoadBalancerNotDeleted")),
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_in_use_is_not_adopted() {
    for by_name in [0, 1] {
        let harness = Harness::new();
        let droplet = harness.fake.add_droplet("database").id;
        let id = add(&harness, &json!([droplet]));
        let before = harness.load_balancer();
        let mut service = naming(&id)[by_name].clone();
        let provider = harness.started().await;
        let error = harness.ensure(&provider, &mut service).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("is in use: it has targets"),
            "{error}"
        );
        let error = harness
            .update_targets(&provider, &service)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("is in use"), "{error}");
        harness.delete(&provider, &service).await.unwrap();
        assert_eq!(harness.load_balancer(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn required_tag_decides_who_is_adopted() {
    for (tag, is_adopted) in [("mine", false), (TAG, true)] {
        for by_name in [0, 1] {
            let harness = Harness::new().requiring(TAG);
            let droplet = harness.fake.add_droplet("database").id;
            let id = add(&harness, &json!([droplet]));
            harness
                .fake
                .change_load_balancer("by-hand", |load_balancer| {
                    load_balancer["tags"] = json!([tag]);
                });
            let before = harness.load_balancer();
            let mut service = naming(&id)[by_name].clone();
            let provider = harness.started().await;
            let outcome = harness.ensure(&provider, &mut service).await;
            assert_eq!(outcome.is_ok(), is_adopted, "{tag}: {outcome:?}");
            if is_adopted {
                harness.delete(&provider, &service).await.unwrap();
                assert_eq!(tags(&harness.load_balancer()), [TAG]);
                continue;
            }
            let text = outcome.unwrap_err().to_string();
            assert!(
                text.contains(
                    "give it the tag ccm-rs-adoptable, which --adoptable-load-balancer-tag requires"
                ),
                "{text}"
            );
            assert_eq!(harness.load_balancer(), before);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn adopted_load_balancer_is_not_replaced_whatever_the_annotations_allow() {
    let harness = Harness::new();
    let id = add(&harness, &json!([]));
    let [mut service, _] = naming(&id);
    let provider = harness.started().await;
    for key in ["allow-recreate", "allow-interruption"] {
        set(&mut service, key, "true");
    }
    // Neither before its adoption nor after it.
    for kind in ["REGIONAL_NETWORK", "REGIONAL", "REGIONAL_NETWORK"] {
        set(&mut service, "type", kind);
        let outcome = harness.ensure(&provider, &mut service).await;
        assert_eq!(outcome.is_ok(), kind == "REGIONAL", "{kind}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error.to_string().contains("so it is not replaced: set"),
                "{error}"
            );
        }
        assert_eq!(harness.load_balancer()["id"], id.as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_the_go_program_is_the_services_own() {
    let harness = Harness::new();
    let mut service = service(&[("type", "REGIONAL"), ("name", "chosen")]);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    // The Go program writes no owner tags; its ID and the status are on the Service.
    harness
        .fake
        .change_load_balancer("chosen", |load_balancer| load_balancer["tags"] = json!([]));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn plan_says_that_the_named_load_balancer_does_not_exist() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let service = service(&[(ID, "5c2b8a1e-0000-4000-8000-000000000000")]);
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
        error.is_invalid()
            && error
                .to_string()
                .contains("there is no load balancer 5c2b8a1e"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_a_service_left_and_adopted_again_is_not_deleted() {
    for by_name in [0, 1] {
        let harness = Harness::new();
        let id = add(&harness, &json!([]));
        let mut service = naming(&id)[by_name].clone();
        for _ in 0..2 {
            let provider = harness.started().await;
            harness.ensure(&provider, &mut service).await.unwrap();
            let adopted = harness.load_balancer();
            assert_eq!(
                adopted["name"], "by-hand",
                "another name would prove too much later"
            );
            assert!(
                tags(&adopted).contains(&"ccmrs-adopted"),
                "{:?}",
                tags(&adopted)
            );
            // As if the Service had become a ClusterIP.
            harness.delete(&provider, &service).await.unwrap();
            service.status = None;
        }
        assert_eq!(harness.load_balancer()["id"], id.as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_with_the_required_tag_is_not_deleted_although_its_other_tags_were_reset() {
    let harness = Harness::new().requiring(TAG);
    let id = add(&harness, &json!([]));
    harness
        .fake
        .change_load_balancer("by-hand", |load_balancer| {
            load_balancer["tags"] = json!([TAG]);
        });
    let [mut service, _] = naming(&id);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    harness
        .fake
        .change_load_balancer("by-hand", |load_balancer| {
            load_balancer["tags"] = json!([TAG]);
        });
    let provider = harness.started().await;
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.load_balancer()["id"], id.as_str());
}
