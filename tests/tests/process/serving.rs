//! Endpoints behind the ports.
//!
//! Rules: APP-99, APP-101, APP-104, APP-156, P-35.

use serde_json::{Value, json};

use crate::world::{World, seconds};

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_wedged_turns_the_health_of_its_controller_red() {
    let world = World::new();
    let process = world.start_with(&[], true).await;
    seconds(50).await;
    assert!(
        process.get("/healthz").await.0.is_success(),
        "work may take a while"
    );
    seconds(20).await;
    let checks = process.checks("healthz").await;
    let red: Vec<_> = checks
        .iter()
        .filter(|(_, well)| !well)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(red, ["service-lb-controller"], "{checks:?}");
    assert!(process.get("/healthz").await.0.is_server_error());
    assert!(
        process
            .get("/healthz/cloud-node-controller")
            .await
            .0
            .is_success()
    );
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_controllers_are_well_for_an_hour() {
    let world = World::new();
    let process = world.start(&[]).await;
    seconds(3600).await;
    for probe in ["/healthz", "/readyz"] {
        let (status, text) = process.get(&format!("{probe}?verbose")).await;
        assert_eq!(status, 200, "{text}");
    }
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_configuration_is_the_effective_one() {
    let world = World::new();
    let process = world
        .start(&[
            "--controllers=*,-service",
            "--leader-elect-lease-duration=20s",
        ])
        .await;
    let (status, text) = process.get("/configz").await;
    assert_eq!(status, 200);
    let configuration: Value = serde_json::from_str(&text).unwrap();
    let generic = &configuration["cloudcontrollermanager.config.k8s.io"]["Generic"];
    assert_eq!(
        generic["Controllers"],
        json!(["*", "-service-lb-controller"])
    );
    assert_eq!(generic["LeaderElection"]["leaseDuration"], "20s");
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_not_found() {
    let world = World::new();
    let process = world.start(&["--profiling=false"]).await;
    for path in [
        "/",
        "/flagz",
        "/statusz",
        "/version",
        "/healthz/nothing",
        "/debug/pprof/",
        "/debug/flags/v",
    ] {
        assert_eq!(process.get(path).await.0, 404, "{path}");
    }
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_which_controllers_run_and_that_this_process_leads() {
    let world = World::new();
    let process = world.start(&[]).await;
    seconds(5).await;
    let (_, text) = process.get("/metrics").await;
    for line in [
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node\"} 1\n",
        "leader_election_master_status{name=\"cloud-controller-manager\"} 1\n",
        "workqueue_depth{name=\"service\"} 0\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_webhook_labels_a_volume_as_it_is_created() {
    let world = World::new();
    world.hold_the_lease();
    let process = world
        .start(&["--webhooks=pvlabel", "--leader-elect=true"])
        .await;
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "PersistentVolume"},
            "object": {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
        },
    });
    let (status, text) = process.review("/pvlabel", &review).await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("u-1"), &json!(true))
    );
    let (_, metrics) = process.get("/metrics").await;
    assert!(
        metrics.contains("apiserver_webhooks") || metrics.contains("webhook"),
        "calls are counted (APP-143)"
    );
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_vendors_webhook_is_served_where_it_is_selected() {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "CREATE", "object": {"kind": "Node"}},
    });
    for (webhooks, acme, own) in [
        ("acme", 200, 404),
        ("pvlabel", 404, 200),
        ("*", 200, 200),
        ("*,-acme", 404, 200),
    ] {
        let world = World::new();
        world.hold_the_lease();
        let process = world.start(&[&format!("--webhooks={webhooks}")]).await;
        assert_eq!(process.review("/acme", &review).await.0, acme, "{webhooks}");
        assert_eq!(
            process.review("/pvlabel", &review).await.0,
            own,
            "{webhooks}"
        );
        process.end().await.unwrap();
    }
}
