//! The life of a Service's address.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cloud_provider::{Goal, LoadBalancerRequest, RemovalOutcome};
use embedded_apiserver::{Action, Matcher};
use serde_json::json;

use crate::harness::{Harness, cluster};

#[tokio::test(start_paused = true)]
async fn address_is_given_shown_and_taken_back() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let web = harness.service("web");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cluster = cluster();
    let before = run.requests.load(Ordering::Relaxed);
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &web,
        nodes: &[],
        callbacks: &(),
    };
    let status = run
        .balancers()
        .ensure(request)
        .await
        .expect("an address")
        .expect("a status");
    let ingress = &status.ingress.expect("an ingress")[0];
    assert_eq!(
        (ingress.ip.as_deref(), ingress.ip_mode.as_deref()),
        (Some("10.0.0.1"), Some("VIP"))
    );
    assert_eq!(
        run.requests.load(Ordering::Relaxed) - before,
        2,
        "one read and the creation of the ConfigMap"
    );
    assert_eq!(
        harness.addresses(),
        [("10.0.0.1".to_owned(), "default/web".to_owned())]
    );
    let version = harness.api.revision();
    let before = run.requests.load(Ordering::Relaxed);
    run.ensure(&web)
        .await
        .expect("an answer")
        .expect("an address");
    assert_eq!(
        (
            harness.api.revision(),
            run.requests.load(Ordering::Relaxed) - before
        ),
        (version, 1),
        "one read, no write"
    );
    assert!(
        run.balancers()
            .plan(request, Goal::Ensured)
            .await
            .expect("a plan")
            .is_empty()
    );
    let plan = run
        .balancers()
        .plan(request, Goal::Deleted)
        .await
        .expect("a plan");
    assert_eq!(
        plan.steps[0].to_string(),
        "delete virtual IP address 10.0.0.1"
    );
    run.delete(&web)
        .await
        .expect("an answer")
        .expect("a deletion");
    assert_eq!(
        (
            harness.addresses(),
            run.balancers().get(request).await.expect("an answer")
        ),
        (vec![], None)
    );
}

#[tokio::test(start_paused = true)]
async fn config_map_of_the_go_program_is_taken_over_without_a_write() {
    let harness = Harness::new("10.210.38.64/26");
    let web = harness.service("web");
    let api = harness.service("api");
    let uid = |service: &cloud_provider::Service| service.metadata.uid.clone().unwrap_or_default();
    let entries = format!(
        r#"{{"services":[{{"uid":"{}","ip":"10.210.38.66","serviceNamespace":"default","serviceName":"web","forwardMethod":"DR"}},{{"uid":"{}","ip":"10.210.38.65","serviceNamespace":"default","serviceName":"api"}}]}}"#,
        uid(&web),
        uid(&api)
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "vip", "namespace": "kube-system", "annotations": {"k8s.co/cloud-provider-config": entries}},
        "data": {"10.210.38.66": "default/web:DR", "10.210.38.65": "default/api"}});
    harness.api.seed(map).expect("a ConfigMap");
    let mut direct = web.clone();
    direct.metadata.annotations = Some(
        [(
            "k8s.co/keepalived-forward-method".to_owned(),
            "DR".to_owned(),
        )]
        .into(),
    );
    let run = harness.start(None).await;
    let before = harness.config_map();
    assert_eq!(
        run.ensure(&direct)
            .await
            .expect("an answer")
            .expect("an address"),
        ["10.210.38.66"]
    );
    assert_eq!(
        run.ensure(&api)
            .await
            .expect("an answer")
            .expect("an address"),
        ["10.210.38.65"]
    );
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(harness.config_map(), before);
}

#[tokio::test(start_paused = true)]
async fn address_of_a_service_that_was_deleted_while_no_program_ran_is_released() {
    let harness = Harness::new("10.0.0.0/24");
    let web = harness.service("web");
    let gone = harness.service("gone");
    let run = harness.start(None).await;
    for service in [&gone, &web] {
        run.ensure(service)
            .await
            .expect("an answer")
            .expect("an address");
    }
    drop(run);
    harness.api.remove("services", Some("default"), "gone");
    let _run = harness.start(None).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        harness.addresses(),
        [("10.0.0.2".to_owned(), "default/web".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn services_that_cannot_be_listed_or_are_all_forgotten_release_nothing() {
    let harness = Harness::new("10.0.0.0/24");
    let services = ["web", "api", "gone"].map(|name| harness.service(name));
    let run = harness.start(None).await;
    for service in &services {
        run.ensure(service)
            .await
            .expect("an answer")
            .expect("an address");
    }
    drop(run);
    harness.api.remove("services", Some("default"), "gone");
    let fault = harness.api.faults().add(
        Matcher::any().verb("list").resource("services"),
        Action::Refused,
    );
    let _run = harness.start(None).await;
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(harness.addresses().len(), 3, "the list failed");
    harness.api.faults().remove(fault);
    harness.api.lose_storage("services");
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(harness.addresses().len(), 3, "the list is empty");
    harness.api.restore_storage("services");
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(harness.addresses().len(), 2, "one of three");
}

#[tokio::test(start_paused = true)]
async fn orphans_are_listed_and_deleted_one_by_one() {
    let harness = Harness::new("10.0.0.0/24");
    let web = harness.service("web");
    let gone = harness.service("gone");
    let run = harness.start(None).await;
    for service in [&gone, &web] {
        run.ensure(service)
            .await
            .expect("an answer")
            .expect("an address");
    }
    let cluster = cluster();
    let services = [Arc::new(web)];
    let owned = run.balancers().owned(&cluster).await.expect("a list");
    assert_eq!(
        owned
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .len(),
        2
    );
    assert!(
        run.balancers()
            .delete_owned(&cluster, &owned[1], &services)
            .await
            .unwrap_err()
            .is_invalid(),
        "its Service exists"
    );
    let outcome = run
        .balancers()
        .delete_owned(&cluster, &owned[0], &services)
        .await
        .expect("a deletion");
    assert_eq!(outcome, RemovalOutcome::Deleted);
    assert_eq!(
        harness.addresses(),
        [("10.0.0.2".to_owned(), "default/web".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_of_the_api_server_is_shown_with_its_message() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let web = harness.service("web");
    let reason = "Invalid".to_owned();
    let message = "data: Too long".to_owned();
    let refused = Action::Status {
        code: 422,
        reason,
        message,
        retry_after_seconds: None,
    };
    harness.api.faults().add(
        Matcher::any().verb("create").resource("configmaps"),
        refused,
    );
    let error = run.ensure(&web).await.expect("an answer").unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("data: Too long"),
        "{error}"
    );
}
