//! Load balancers of the kind `classic`, which the Go program created for Services with the annotation.

use cloud_provider::{CloudProvider, Service};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, service_of};
use crate::load_balancers::{BANDWIDTH, EXISTING, KIND};
use crate::profile::add_balancer;

/// Adds a load balancer of the kind `classic` with a listener, and returns a Service that shows its address.
fn left(harness: &Harness) -> Service {
    let mut cloud = harness.fake.lock();
    let id = add_balancer(&mut cloud, "kubernetes-loadbalancer");
    let instances: Vec<_> = cloud
        .all("instance")
        .iter()
        .map(|object| object["InstanceId"].clone())
        .collect();
    let balancer = &mut cloud.each("balancer")[0];
    (balancer["Forward"], balancer["_instances"]) = (json!(0), json!(instances));
    let ip = balancer["LoadBalancerVips"][0].clone();
    let listener = json!({"ListenerId": "lbl-1", "_balancer": id, "Protocol": "TCP", "Port": 80, "_instance_port": 30080});
    cloud.add("listener", listener);
    let mut service = service_of(&[(KIND, "classic")], json!({}));
    service.status =
        Some(serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": ip}]}})).unwrap());
    service
}

#[tokio::test(start_paused = true)]
async fn classic_load_balancer_is_taken_over_without_a_change_and_its_targets_follow_nodes() {
    let harness = Harness::new();
    let mut service = left(&harness);
    let provider = harness.started().await;
    let before = service.status.clone();
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!((harness.changes(), &service.status), (Vec::new(), &before));
    harness.add_node("worker-3");
    harness.cluster.remove_node("worker-1");
    harness.ensure(&provider, &mut service).await.unwrap();
    let expected = [
        "ModifyResourceTags",
        "RegisterTargetsWithClassicalLB",
        "DeregisterTargetsFromClassicalLB",
    ];
    assert_eq!(harness.changes(), expected);
    let names = ["worker-2", "worker-3"].map(|name| harness.instance(name)["InstanceId"].clone());
    assert_eq!(harness.only("balancer")["_instances"], json!(names));
    harness.cluster.remove_node("worker-3");
    harness.update(&provider, &service).await.unwrap();
    assert_eq!(harness.changes(), ["DeregisterTargetsFromClassicalLB"]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().all("balancer").is_empty());
}

#[tokio::test(start_paused = true)]
async fn instance_that_no_longer_exists_keeps_no_other_one_from_a_classic_load_balancer() {
    let harness = Harness::new();
    let mut service = left(&harness);
    ["worker-3", "worker-4"]
        .into_iter()
        .for_each(|name| harness.add_node(name));
    harness.fake.lock().remove("instance", |instance| {
        instance["InstanceName"] == "worker-3"
    });
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let fourth = harness.instance("worker-4")["InstanceId"].clone();
    assert!(
        harness.only("balancer")["_instances"]
            .as_array()
            .unwrap()
            .contains(&fourth)
    );
}

#[tokio::test(start_paused = true)]
async fn other_changes_of_a_classic_load_balancer_are_refused_or_reported() {
    let harness = Harness::new();
    let mut service = left(&harness);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    let spec = service.spec.clone();
    let ports = |ports: Value| service_of(&[], json!({"ports": ports})).spec;
    for (other, expected) in [
        (
            ports(json!([{"port": 81, "nodePort": 30080}])),
            "it has no listener for port 81/TCP",
        ),
        (
            ports(json!([{"port": 80, "nodePort": 31111}])),
            "leads to port 30080 of instances, not to port 31111",
        ),
    ] {
        service.spec = other;
        let error = harness
            .ensure(&provider, &mut service)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("is of the kind classic") && error.contains(expected),
            "{error}"
        );
    }
    service.spec = spec;
    annotate(&mut service, BANDWIDTH, "20");
    service.spec.as_mut().unwrap().load_balancer_source_ranges =
        Some(vec!["192.0.2.0/24".to_owned()]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let events = harness.events().join("\n");
    assert!(
        events.contains("SourceRangesIgnored") && events.contains(BANDWIDTH),
        "{events}"
    );
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn classic_load_balancer_of_a_user_is_refused_and_stays() {
    let harness = Harness::new();
    let _ = left(&harness);
    harness.fake.lock().each("balancer")[0]["LoadBalancerName"] = "mine".into();
    let id = harness.only("balancer")["LoadBalancerId"]
        .as_str()
        .unwrap()
        .to_owned();
    let provider = harness.started().await;
    let mut service = service_of(&[(EXISTING, &id)], json!({}));
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("is of the kind classic"), "{error}");
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.only("listener")["ListenerId"], "lbl-1");
    assert!(provider.load_balancers().is_some());
}
