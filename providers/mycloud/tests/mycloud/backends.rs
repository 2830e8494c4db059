//! The Nodes that are backends.

use std::time::Duration;

use cloud_provider::{Caches, CloudProvider, LoadBalancerRequest};

use crate::fake::ACCOUNT;
use crate::harness::{Harness, annotate, cluster, service};

const INGRESS: &str = "node.mycloud.io/ingress";
const WEIGHT: &str = "node.mycloud.io/dlb-weight";

async fn members(annotations: &[(&str, &str)]) -> Vec<String> {
    let harness = Harness::new("").await;
    harness.cloud.add_instance(ACCOUNT, "worker-4");
    harness.set_node("worker-4", &[(INGRESS, "false")], &[("pool", "edge")]);
    harness.ensure(&mut service(annotations)).await.unwrap();
    harness.members()
}

#[tokio::test(start_paused = true)]
async fn annotations_of_service_and_nodes_select_backends() {
    assert_eq!(
        members(&[]).await,
        ["worker-1*100", "worker-2*100", "worker-3*100"]
    );
    assert_eq!(
        members(&[("backend-group", "blue"), ("backend-default-weight", "7")]).await,
        ["worker-1*7"]
    );
    assert_eq!(members(&[("backend-selector", "all")]).await.len(), 4);
    assert_eq!(
        members(&[("backend-selector", "pool=edge")]).await,
        ["worker-4*100"]
    );
}

#[tokio::test(start_paused = true)]
async fn node_that_gains_or_loses_the_annotation_joins_or_leaves_with_one_request_a_port() {
    let harness = Harness::new("").await;
    let mut service = service(&[]);
    harness.ensure(&mut service).await.unwrap();
    let balancers = harness.provider.load_balancers().unwrap();
    assert!(balancers.targets_follow_labels(&service));
    assert_eq!(
        balancers.target_annotations(),
        [INGRESS, WEIGHT],
        "a change of these updates the targets"
    );
    harness.changes();
    let route =
        |action: &str| format!("POST /loadbalancers/{{id}}/groups/{{part}}/members:{action}");
    for (annotations, action, count) in [
        (&[(INGRESS, "false")][..], "batchRemove", 2),
        (&[(INGRESS, "true")][..], "batchAdd", 3),
        (&[(INGRESS, "true"), (WEIGHT, "50")][..], "batchUpdate", 3),
    ] {
        harness.set_node("worker-3", annotations, &[]);
        harness.update_targets(&service).await.unwrap();
        assert_eq!(harness.changes(), [route(action), route(action)]);
        assert_eq!(harness.members().len(), count);
    }
    assert_eq!(harness.members()[2], "worker-3*50");
    harness.set_node("worker-3", &[(INGRESS, "true"), (WEIGHT, "999")], &[]);
    harness.update_targets(&service).await.unwrap();
    assert_eq!(harness.members()[2], "worker-3*100");
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("InvalidWeight") && event.contains("999")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn service_without_selected_nodes_follows_the_configured_policy() {
    for (policy, wanted) in [("keep", 1), ("all", 3), ("none", 0)] {
        let harness = Harness::new(&format!(
            "[LoadBalancer]\nempty-backend-policy = {policy}\n"
        ))
        .await;
        let mut service = service(&[("backend-group", "blue")]);
        harness.ensure(&mut service).await.unwrap();
        harness.events();
        harness.set_node("worker-1", &[], &[]);
        harness.update_targets(&service).await.unwrap();
        assert_eq!(harness.members().len(), wanted, "{policy}");
        let request = LoadBalancerRequest {
            cluster: &cluster(),
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        harness
            .provider
            .load_balancers()
            .unwrap()
            .update_targets(request)
            .await
            .unwrap();
        let left = if policy == "keep" { wanted } else { 0 };
        assert_eq!(harness.members().len(), left, "{policy}, without any Node");
        let events = harness.events();
        assert!(
            events
                .iter()
                .any(|event| event.starts_with("NoIngressNodes")),
            "{policy}: {events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_instance_keeps_no_other_node_from_being_added() {
    let harness = Harness::new("").await;
    harness
        .cloud
        .0
        .lock()
        .instances
        .retain(|instance| instance["hostname"] != "worker-1");
    harness.ensure(&mut service(&[])).await.unwrap();
    assert_eq!(harness.members(), ["worker-2*100", "worker-3*100"]);
}

#[tokio::test(start_paused = true)]
async fn leaving_backend_is_drained_before_it_is_removed() {
    let harness = Harness::new("").await;
    let mut service = service(&[]);
    annotate(&mut service, "drain-timeout", "120");
    harness.ensure(&mut service).await.unwrap();
    harness.set_node("worker-3", &[], &[]);
    let error = harness.update_targets(&service).await.unwrap_err();
    assert!(
        error
            .retry_after()
            .is_some_and(|duration| duration > Duration::from_secs(100)),
        "{error}"
    );
    assert_eq!(harness.members()[2], "worker-3*0");
    harness.changes();
    assert!(
        harness
            .update_targets(&service)
            .await
            .unwrap_err()
            .retry_after()
            .is_some()
    );
    assert_eq!(harness.changes(), [""; 0], "it is drained already");
    tokio::time::sleep(Duration::from_secs(120)).await;
    harness.update_targets(&service).await.unwrap();
    assert_eq!(harness.members(), ["worker-1*100", "worker-2*100"]);

    harness.set_node("worker-3", &[(INGRESS, "true")], &[]);
    harness.update_targets(&service).await.unwrap();
    harness.set_node("worker-3", &[], &[]);
    harness.update_targets(&service).await.unwrap_err();
    assert_eq!(
        harness.members()[2],
        "worker-3*0",
        "it is drained again, from the beginning"
    );
}

#[tokio::test(start_paused = true)]
async fn node_without_address_is_reported_and_no_backend() {
    let harness = Harness::new("").await;
    let mut node = (*harness.cluster.nodes()[0]).clone();
    (node.name, node.uid, node.addresses) = ("bare".into(), "uid-bare".into(), [].into());
    harness.cluster.set_node(node);
    harness.ensure(&mut service(&[])).await.unwrap();
    assert_eq!(
        harness.members(),
        ["worker-1*100", "worker-2*100", "worker-3*100"]
    );
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("NoAddress") && event.contains("InternalIP")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn warning_about_an_annotation_is_an_event() {
    let harness = Harness::new("").await;
    harness
        .ensure(&mut service(&[("lisener-scheduler", "wlc")]))
        .await
        .unwrap();
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("QuestionableAnnotation") && event.contains("lisener")),
        "{events:?}"
    );
}
