//! Services come, change and go.
//!
//! Rules: SVC-5, SVC-16, SVC-22, SVC-54, SVC-69, SVC-99, P-20, P-29, D-116.

use std::time::Duration;

use cloud_provider::Error;
use controllers::Options;
use embedded_apiserver::{Action, Matcher};
use serde_json::json;

use crate::cloud::{Behaviour, LbCloud};
use crate::world::{World, world, world_with};

#[tokio::test(start_paused = true)]
async fn a_load_balancer_costs_two_writes_and_two_events_to_come_and_to_go() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    assert_eq!(world.cloud.only().ports, [80]);
    assert_eq!(
        world.cloud.only().targets,
        ["worker-1=lbs://worker-1", "worker-2=lbs://worker-2"]
    );
    assert_eq!(
        world.service("web")["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
    assert_eq!(world.writes(), 2);
    let told = world.take_events("web");
    assert_eq!(
        told,
        [
            "EnsuringLoadBalancer Ensuring load balancer",
            "EnsuredLoadBalancer Ensured load balancer"
        ]
    );
    assert_eq!(
        world.condition("web"),
        None,
        "a Service that is well gets no condition"
    );

    world.clear();
    world.user.delete_service("web").await;
    world.settle().await;
    assert!(world.cloud.balancers().is_empty() && world.service("web").is_null());
    assert!(world.writes() <= 2, "{}", world.writes());
    let told = world.take_events("web");
    assert_eq!(
        told,
        [
            "DeletingLoadBalancer Deleting load balancer",
            "DeletedLoadBalancer Deleted load balancer"
        ]
    );
    assert_eq!(
        (world.cloud.count("get"), world.cloud.count("delete")),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn all_writes_go_to_the_status_of_services() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world
        .user
        .patch_service("web", &json!({"spec": {"type": "ClusterIP"}}))
        .await;
    world.settle().await;
    let requests = world.api.requests().all();
    let written: Vec<_> = requests
        .iter()
        .filter(|request| request.is_write() && request.user_agent.is_empty())
        .collect();
    let main = written
        .iter()
        .filter(|request| request.subresource != "status" && request.resource == "services");
    let by_the_user = ["create", "patch"];
    assert_eq!(
        main.map(|request| request.verb).collect::<Vec<_>>(),
        by_the_user,
        "nothing but what the user did"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_plans_is_told_of_always() {
    let mut world = World::stopped(Options::default());
    world.cloud = LbCloud::new(&world.api).without_plans();
    world.put_node("worker-1", "lbs://worker-1");
    world.create("web").await;
    for _ in 0..2 {
        world.start().await;
        assert_eq!(world.take_events("web").len(), 2);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_port_is_one_change_and_a_label_none() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.clear();
    world
        .user
        .patch_service("web", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    world.settle().await;
    assert_eq!((world.cloud.calls().len(), world.writes()), (0, 0));
    world.user.set_ports("web", &[81]).await;
    world.settle().await;
    assert_eq!(world.cloud.only().ports, [81]);
    assert_eq!((world.cloud.changes(), world.writes()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_type_that_flips_away_and_back_leaves_a_held_load_balancer() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    let flip = async |kind: &str| {
        world
            .user
            .patch_service("web", &json!({"spec": {"type": kind}}))
            .await
    };
    flip("ClusterIP").await;
    world.settle().await;
    assert!(world.cloud.balancers().is_empty());
    assert_eq!(world.service("web")["metadata"].get("finalizers"), None);
    flip("LoadBalancer").await;
    world.settle().await;
    assert_eq!(world.cloud.balancers().len(), 1);

    // Faster than the cloud, and than the watch delivers our own writes; the cloud checks the finalizer at each call.
    world.cloud.behave(
        "web",
        "delete",
        Behaviour::Takes(Duration::from_millis(300)),
    );
    for round in 0..20u64 {
        flip("ClusterIP").await;
        tokio::time::sleep(Duration::from_millis(37 * (round % 11))).await;
        flip("LoadBalancer").await;
        tokio::time::sleep(Duration::from_millis(53 * (round % 7))).await;
    }
    world.settle().await;
    assert_eq!(world.cloud.balancers().len(), 1);
    let service = world.service("web");
    assert_eq!(
        service["metadata"]["finalizers"],
        json!(["service.kubernetes.io/load-balancer-cleanup"])
    );
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"][0]["ip"],
        world.cloud.only().address
    );
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_was_just_removed_is_not_believed_from_a_late_cache() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world
        .cloud
        .behave("web", "delete", Behaviour::Takes(Duration::from_secs(1)));
    world
        .user
        .patch_service("web", &json!({"spec": {"type": "ClusterIP"}}))
        .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    world
        .user
        .patch_service("web", &json!({"spec": {"type": "LoadBalancer"}}))
        .await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    // The watch breaks just before the finalizer is removed: the cache still shows it.
    world.api.faults().add(
        Matcher::any().verb("watch").resource("services").times(3),
        Action::Refused,
    );
    world.api.faults().drop_watches();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.cloud.balancers().len(), 1);
    let finalizers = &world.service("web")["metadata"]["finalizers"];
    assert_eq!(
        *finalizers,
        json!(["service.kubernetes.io/load-balancer-cleanup"])
    );
    assert!(
        world.api.requests().count("get", "services") >= 1,
        "the API is asked"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_made_anew_gets_another_load_balancer_and_the_old_one_goes() {
    let world = world().await;
    let first = world.create("web").await;
    world.settle().await;
    world.user.delete_service("web").await;
    world.settle().await;
    let second = world.create("web").await;
    world.settle().await;
    let uid = |service: &serde_json::Value| service["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_ne!(uid(&first), uid(&second));
    assert_eq!(
        world.cloud.balancers().into_keys().collect::<Vec<_>>(),
        [uid(&second)]
    );
}

/// Replaced Services keep no load balancer (SVC-36).
#[tokio::test(start_paused = true)]
async fn the_load_balancer_of_a_service_that_was_replaced_unseen_goes_once_that_is_confirmed() {
    let world = world().await;
    let first = world.create("web").await;
    world.settle().await;
    world.clear();
    // The watch breaks off, and the API server forgets what happened meanwhile: the next list shows another UID.
    world.api.faults().add(
        Matcher::any().verb("watch").resource("services").times(2),
        Action::Refused,
    );
    world.api.faults().drop_watches();
    world.api.remove("services", Some("default"), "web");
    let second = world.create("web").await;
    world.api.compact();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.balancers().len()),
        (0, 2),
        "nobody deleted the first one"
    );
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.changes()),
        (1, 2),
        "{:?}",
        world.cloud.calls()
    );
    let reasons: Vec<_> = world
        .take_events("web")
        .iter()
        .map(|told| told.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        reasons,
        [
            "LoadBalancerDeletionHeld",
            "EnsuringLoadBalancer",
            "EnsuredLoadBalancer",
            "DeletingLoadBalancer",
            "DeletedLoadBalancer"
        ]
    );
    let uid = |service: &serde_json::Value| service["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_ne!(uid(&first), uid(&second));
    assert_eq!(
        world.cloud.balancers().into_keys().collect::<Vec<_>>(),
        [uid(&second)]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_for_a_service_whose_finalizer_met_its_successor() {
    let world = world().await;
    world.api.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("services/status")
            .times(1),
        Action::Latency { millis: 2000 },
    );
    let first = world.create("web").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.user.delete_service("web").await;
    let second = world.create("web").await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        world.cloud.changes(),
        1,
        "nothing but the second one's was ever made: {:?}",
        world.cloud.calls()
    );
    let uid = second["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        world.cloud.balancers().into_keys().collect::<Vec<_>>(),
        [uid]
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_deleted_without_our_finalizer_is_left_alone() {
    let world = world().await;
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/other"],
            "deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "u-held"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    world.api.seed(service).unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        (
            world.cloud.calls().len(),
            world.writes(),
            world.all_events()
        ),
        (0, 0, vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn classes_of_the_options_are_ours() {
    let world = world_with(|options| {
        options.classes = vec!["ours".to_owned()];
        options.is_default = false;
    })
    .await;
    for (name, class) in [
        ("none", None),
        ("ours", Some("ours")),
        ("other", Some("other")),
    ] {
        let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
        if let Some(class) = class {
            service["spec"]["loadBalancerClass"] = json!(class);
        }
        world
            .user
            .create("/api/v1/namespaces/default/services", &service)
            .await;
    }
    world.settle().await;
    assert_eq!(
        (world.cloud.count("ensure ours"), world.cloud.calls().len()),
        (1, 1)
    );
    world.user.delete_service("ours").await;
    world.settle().await;
    assert!(world.cloud.balancers().is_empty() && world.service("ours").is_null());

    // The Service of another controller has the common finalizer: its load balancer must not be deleted.
    world
        .user
        .patch_service(
            "other",
            &json!({"metadata": {"finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}}),
        )
        .await;
    world.user.delete_service("other").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.service("other")["metadata"]["finalizers"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(world.cloud.count("delete other"), 0);
    assert_eq!(world.take_events("other"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_can_be_left_behind() {
    let world = world().await;
    let service = world.create("web").await;
    world.settle().await;
    let abandon = json!({"metadata": {"annotations": {"ccm-rs/abandon-load-balancer": "true"}}});
    world.user.patch_service("web", &abandon).await;
    world.settle().await;
    assert_eq!(
        world.cloud.balancers().len(),
        1,
        "on a living Service the annotation means nothing"
    );
    world.clear();
    world.user.delete_service("web").await;
    world.settle().await;
    assert!(world.service("web").is_null());
    assert_eq!(
        (world.cloud.calls().len(), world.cloud.balancers().len()),
        (0, 1),
        "the cloud is not even asked"
    );
    let told = world.take_events("web");
    let uid = service["metadata"]["uid"]
        .as_str()
        .unwrap()
        .replace('-', "");
    let name = format!("a{}", &uid[..31]);
    assert!(
        told.len() == 1 && told[0].starts_with("LoadBalancerAbandoned") && told[0].contains(&name),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stuck_service_is_let_go_as_soon_as_somebody_asks() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.cloud.behave(
        "web",
        "delete",
        Behaviour::Fails(Error::protected("it is locked")),
    );
    world.user.delete_service("web").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!world.service("web").is_null());
    let abandon = json!({"metadata": {"annotations": {"ccm-rs/abandon-load-balancer": "true"}}});
    world.user.patch_service("web", &abandon).await;
    world.settle().await;
    assert!(
        world.service("web").is_null(),
        "the back-off of minutes is not waited for"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_told_is_not_the_last_that_is_said() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.clear();
    world.take_events("web");
    world.cloud.behave(
        "web",
        "ensure",
        Behaviour::Fails(Error::other("the answer was lost")),
    );
    world
        .user
        .patch_service("web", &json!({"metadata": {"annotations": {"a": "b"}}}))
        .await;
    world.settle().await;
    assert!(
        world
            .take_events("web")
            .iter()
            .any(|told| told.starts_with("SyncLoadBalancerFailed"))
    );
    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.take_events("web"),
        ["EnsuredLoadBalancer Ensured load balancer"],
        "said once, though nothing was to do"
    );
}
