//! Targets of listeners: Nodes and Pods.

use cloud_provider::Node;
use serde_json::json;

use crate::harness::{Harness, service, service_of};
use crate::load_balancers::DIRECT;

#[tokio::test(start_paused = true)]
async fn changed_node_port_registers_new_targets_before_it_removes_old_ones() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.changes();
    service.spec = service_of(&[], json!({"ports": [{"port": 80, "nodePort": 31111}]})).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["BatchRegisterTargets", "BatchDeregisterTargets"]
    );
    assert_eq!(
        harness.targets(),
        ["80 ins-t0000001 31111 10", "80 ins-t0000002 31111 10"]
    );
    harness.add_node("worker-3");
    harness.update(&provider, &service).await.unwrap();
    assert_eq!(harness.changes(), ["BatchRegisterTargets"]);
}

#[tokio::test(start_paused = true)]
async fn node_without_an_instance_gets_an_event_and_the_others_are_targets() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let odd = Node {
        name: "odd".into(),
        uid: "uid-odd".into(),
        provider_id: "tencentcloud:///x".into(),
        ..Node::default()
    };
    harness.cluster.set_node(odd);
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(harness.targets().len(), 2);
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.contains("NoTarget"))
    );
}

#[tokio::test(start_paused = true)]
async fn node_whose_instance_is_gone_keeps_no_other_node_out() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.lock().remove("instance", |instance| {
        instance["InstanceName"] == "worker-2"
    });
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(harness.targets(), ["80 ins-t0000001 30080 10"]);
}

#[tokio::test(start_paused = true)]
async fn only_new_node_whose_instance_is_gone_fails_no_sync() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.add_node("worker-3");
    harness.fake.lock().remove("instance", |instance| {
        instance["InstanceName"] == "worker-3"
    });
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.update(&provider, &service).await.unwrap();
    harness.changes();
    harness.cluster.remove_node("worker-3");
    harness.update(&provider, &service).await.unwrap();
    assert!(
        harness.changes().is_empty(),
        "a target that was left out is not removed"
    );
    assert_eq!(
        harness.targets(),
        ["80 ins-t0000001 30080 10", "80 ins-t0000002 30080 10"]
    );
}

#[tokio::test(start_paused = true)]
async fn local_policy_checks_the_health_of_nodes_and_its_end_that_of_targets() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000});
    let mut service = service_of(&[], local);
    harness.ensure(&provider, &mut service).await.unwrap();
    let check = harness.only("listener")["HealthCheck"].clone();
    assert_eq!(
        (&check["CheckType"], &check["CheckPort"]),
        (&json!("HTTP"), &json!(32000))
    );
    assert_eq!(
        (&check["HttpCheckPath"], &check["HttpCheckDomain"]),
        (&json!("/healthz"), &json!("web.default"))
    );
    harness.changes();
    service.spec = service_of(&[], json!({})).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), ["ModifyListener"]);
    let check = harness.only("listener")["HealthCheck"].clone();
    assert_eq!(
        (&check["CheckType"], &check["CheckPort"]),
        (&json!("TCP"), &json!(-1))
    );
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn targets_of_direct_access_are_pods_and_follow_them() {
    let harness = Harness::new();
    harness.set_endpoints(&[
        ("10.1.0.1", true, false, "worker-1"),
        ("10.1.0.2", false, true, "worker-2"),
    ]);
    let provider = harness.started().await;
    let mut service = service(&[
        (DIRECT, "true"),
        ("service.cloud.tencent.com/enable-grace-shutdown", "true"),
    ]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.targets(),
        ["80 10.1.0.1 8080 10", "80 10.1.0.2 8080 0"]
    );
    harness.changes();
    harness.set_endpoints(&[
        ("10.1.0.1", false, true, "worker-1"),
        ("10.1.0.3", true, false, "worker-1"),
    ]);
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    let patches = harness.cluster.take_patches();
    assert!(
        patches
            .iter()
            .any(|(path, _)| path.ends_with("/services/web/status")),
        "the Service is synced again: {patches:?}"
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.targets(),
        ["80 10.1.0.1 8080 0", "80 10.1.0.3 8080 10"]
    );
    assert_eq!(
        harness.changes(),
        [
            "BatchRegisterTargets",
            "BatchDeregisterTargets",
            "BatchModifyTargetWeight"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn local_nodes_without_a_pod_are_no_targets_and_weights_count_pods() {
    let harness = Harness::new();
    harness.set_endpoints(&[
        ("10.1.0.1", true, false, "worker-2"),
        ("10.1.0.2", true, false, "worker-2"),
    ]);
    let provider = harness.started().await;
    let annotations = [
        (
            "service.kubernetes.io/local-svc-only-bind-node-with-pod",
            "true",
        ),
        (
            "service.cloud.tencent.com/local-svc-weighted-balance",
            "true",
        ),
    ];
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000});
    harness
        .ensure(&provider, &mut service_of(&annotations, local))
        .await
        .unwrap();
    assert_eq!(harness.targets(), ["80 ins-t0000002 30080 2"]);
}
