//! Load balancers of users, which a Service uses with the annotation `tke-existed-lbid`.

use cloud_provider::{Caches, CloudProvider};
use serde_json::json;

use crate::harness::{Harness, UID, annotate, service, service_of};
use crate::load_balancers::{EXISTING, tags};
use crate::profile::add_balancer;

#[tokio::test(start_paused = true)]
async fn load_balancer_of_a_user_gets_listeners_and_loses_only_those() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let id = {
        let mut cloud = harness.fake.lock();
        let id = add_balancer(&mut cloud, "mine");
        cloud.add(
            "listener",
            json!({"ListenerId": "lbl-mine", "_balancer": id, "Protocol": "TCP",
            "Port": 443, "ListenerName": "", "Targets": [], "HealthCheck": {}}),
        );
        id
    };
    let mut service = service(&[(EXISTING, &id)]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.changes(),
        [
            "ModifyResourceTags",
            "CreateListener",
            "BatchRegisterTargets"
        ]
    );
    let balancer = harness.only("balancer");
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        balancer["LoadBalancerVips"][0].as_str()
    );
    assert_eq!(
        tags(&balancer),
        ["tke-clusterId=5c1d", &format!("tke-lb-serviceuuid={UID}")],
        "not created by us"
    );
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
    service.spec = service_of(&[], json!({"ports": [{"port": 443, "nodePort": 30443}]})).spec;
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("443/TCP") && error.contains("not this Service's"),
        "{error}"
    );
    service.spec = service_of(&[], json!({})).spec;
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["DeleteLoadBalancerListeners", "ModifyResourceTags"]
    );
    assert_eq!(
        (
            tags(&harness.only("balancer")).len(),
            &harness.only("listener")["ListenerId"]
        ),
        (0, &json!("lbl-mine"))
    );
}

/// Adds a listener that a user has created.
fn add_listener(harness: &Harness, id: &str, port: u16) {
    let listener = json!({"ListenerId": format!("lbl-mine{port}"), "_balancer": id, "Protocol": "TCP", "Port": port,
        "ListenerName": "", "Targets": [], "HealthCheck": {}});
    harness.fake.lock().add("listener", listener);
}

/// Syncs a Service until it has its load balancer, deletes it in a new process, and checks what stays.
async fn assert_stays(harness: &Harness, service: &mut cloud_provider::Service, id: &str) {
    harness
        .ensure(&harness.started().await, service)
        .await
        .unwrap();
    assert!(
        harness
            .targets()
            .iter()
            .all(|target| target.starts_with("80 ")),
        "{:?}",
        harness.targets()
    );
    let owner = format!("tke-lb-serviceuuid={UID}");
    assert_eq!(
        tags(&harness.only("balancer")),
        ["tke-clusterId=5c1d", &owner],
        "not to be deleted"
    );
    harness.changes();
    harness
        .ensure(&harness.started().await, service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
    harness
        .delete(&harness.started().await, service)
        .await
        .unwrap();
    assert_eq!(
        (
            &harness.only("balancer")["LoadBalancerId"],
            tags(&harness.only("balancer")).len()
        ),
        (&json!(id), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_with_the_flag_of_tke_alone_stays_when_an_annotation_names_it() {
    let harness = Harness::new();
    let id = add_balancer(&mut harness.fake.lock(), "kept");
    harness.fake.lock().each("balancer")[0]["Tags"] =
        json!([{"TagKey": "tke-createdBy-flag", "TagValue": "yes"}]);
    add_listener(&harness, &id, 443);
    assert_stays(&harness, &mut service(&[(EXISTING, &id)]), &id).await;
    assert_eq!(harness.only("listener")["ListenerId"], "lbl-mine443");
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_a_deleted_service_stays_when_an_annotation_names_it() {
    let harness = Harness::new();
    let id = add_balancer(&mut harness.fake.lock(), "left");
    harness.fake.lock().each("balancer")[0]["Tags"] = json!([
        {"TagKey": "tke-createdBy-flag", "TagValue": "yes"}, {"TagKey": "tke-clusterId", "TagValue": "5c1d"},
        {"TagKey": "tke-lb-serviceuuid", "TagValue": "1c0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11"},
    ]);
    add_listener(&harness, &id, 443);
    assert_stays(&harness, &mut service(&[(EXISTING, &id)]), &id).await;
    assert_eq!(harness.only("listener")["ListenerId"], "lbl-mine443");
}

#[tokio::test(start_paused = true)]
async fn own_load_balancer_stays_when_an_annotation_names_it() {
    for is_restarted in [false, true] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        let id = harness.only("balancer")["LoadBalancerId"]
            .as_str()
            .unwrap()
            .to_owned();
        annotate(&mut service, EXISTING, &id);
        if !is_restarted {
            harness.ensure(&provider, &mut service).await.unwrap();
        }
        assert_stays(&harness, &mut service, &id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_another_service_is_not_taken_by_an_annotation() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[]);
    harness.ensure(&provider, &mut web).await.unwrap();
    let before = harness.only("balancer");
    let mut other = service(&[(EXISTING, before["LoadBalancerId"].as_str().unwrap())]);
    other.metadata.uid = Some("1c0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
    other.metadata.name = Some("other".to_owned());
    harness.changes();
    harness.cluster.set_services([web.clone(), other.clone()]);
    let nodes = harness.cluster.nodes();
    let cluster = crate::harness::cluster();
    let request = cloud_provider::LoadBalancerRequest {
        cluster: &cluster,
        service: &other,
        nodes: &nodes,
        callbacks: &(),
    };
    provider
        .load_balancers()
        .unwrap()
        .ensure(request)
        .await
        .unwrap_err();
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    assert!(harness.changes().is_empty() && harness.only("balancer") == before);
}

#[tokio::test(start_paused = true)]
async fn service_leaves_its_load_balancer_for_that_of_a_user_and_comes_back() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let id = add_balancer(&mut harness.fake.lock(), "mine");
    annotate(&mut service, EXISTING, &id);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.only("balancer")["LoadBalancerName"],
        "mine",
        "its own one is deleted"
    );
    service.metadata.annotations = None;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.texts("balancer", &["LoadBalancerName"]),
        ["5c1d_default_web", "mine"]
    );
    assert_eq!(
        harness.fake.lock().all("listener").len(),
        1,
        "the listener of the user's is removed"
    );
    let absent = harness
        .ensure(&provider, &mut self::service(&[(EXISTING, "lb-absent")]))
        .await
        .unwrap_err()
        .to_string();
    assert!(absent.contains("lb-absent"), "{absent}");
}
