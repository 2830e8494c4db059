//! INV-7: What we do not own (no ownership mark, or another's) is never changed or deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_provider::default_load_balancer_name;
use provider_simulated::cloud::{Cloud, CloudRoute, Listener, LoadBalancer, LoadBalancerSpec, NewRoute};
use serde_json::json;

use crate::scene;

fn labels(cluster: &str, service: &str) -> BTreeMap<String, String> {
    let pairs = [("ccm-rs/cluster", cluster), ("ccm-rs/service", service)];
    pairs.into_iter().filter(|(_, value)| !value.is_empty()).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn theirs(cloud: &Cloud, known: &[String]) -> (Vec<LoadBalancer>, Vec<CloudRoute>) {
    let balancers = cloud.load_balancers().into_iter().filter(|it| known.contains(&it.id));
    let routes = cloud.routes().into_iter().filter(|it| known.contains(&it.id));
    (balancers.collect(), routes.collect())
}

#[tokio::test(start_paused = true)]
async fn inv_7_what_is_not_ours_stays_as_it_is_through_a_whole_life() {
    let (harness, cloud) = scene::harness();
    harness.join(1..=3).await;
    let machine = cloud.machines()[0].id.clone();
    // Services whose name in the cloud is taken: by another cluster's, by nobody's, by a copy's.
    let mut known = Vec::new();
    for service in ["one", "two", "three"] {
        let object = harness.user.create_service(service, &[80]).await;
        let object: cloud_provider::Service = serde_json::from_value(object).unwrap();
        let labels = match service {
            "one" => labels("another cluster", ""),
            "two" => labels("", ""),
            // A cluster that was restored from a backup of this one.
            _ => labels("another cluster", object.metadata.uid.as_deref().unwrap()),
        };
        let listener = Listener { port: 9, protocol: "TCP".into(), target_port: 9 };
        let spec = LoadBalancerSpec {
            name: default_load_balancer_name(&object),
            labels,
            listeners: [listener].into(),
            targets: [machine.clone()].into(),
            ..LoadBalancerSpec::default()
        };
        known.push(cloud.add_load_balancer(spec).id);
    }
    // Routes within and outside of the cluster's range, one of them for the range of a Node.
    for (destination, cluster) in [("10.244.0.32/28", ""), ("10.244.9.0/24", "another cluster"), ("192.0.2.0/24", "")] {
        let route = NewRoute {
            destination: destination.into(),
            machine: machine.clone(),
            next_hop: vec![],
            labels: labels(cluster, ""),
        };
        known.push(cloud.add_route(route).id);
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"},
        "spec": {"providerID": "other://elsewhere"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let node = harness.api.seed(node).unwrap();
    // The cloud makes them in a while.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = theirs(&cloud, &known);

    let program = harness.start().await.unwrap();
    harness.user.create_service("ours", &[80]).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(theirs(&cloud, &known), before, "while it cannot make what it wants");
    assert!(harness.warnings(50).iter().any(|it| it.contains("SyncLoadBalancerFailed")), "{:?}", harness.warnings(50));
    assert!(cloud.load_balancers().iter().any(|it| !known.contains(&it.id)), "what is ours is made");

    for service in ["one", "two", "three", "ours"] {
        harness.user.set_ports(service, &[443]).await;
    }
    harness.cloud.terminate("worker-3");
    harness.user.set_ready("worker-3", false).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(theirs(&cloud, &known), before, "while Services and Nodes change");

    for service in ["one", "two", "three", "ours"] {
        harness.user.delete_service(service).await;
    }
    tokio::time::sleep(Duration::from_secs(900)).await;
    program.stop().await;
    assert_eq!(theirs(&cloud, &known), before, "while Services are deleted");
    assert_eq!(cloud.load_balancers().len(), 3, "what was ours is gone");
    assert!(harness.api.list("services").is_empty(), "nobody waits for what is not ours");
    assert_eq!(harness.api.get("nodes", None, "elsewhere").unwrap(), node, "a Node of another cloud");
}
