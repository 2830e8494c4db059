//! Failures: load balancers in ERROR, concurrent changes by other programs, lost responses, stale annotations.

use std::time::Duration;

use openstack_fake::Fault;
use serde_json::json;

use super::scene::{CREATE, NAME, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const REMOVE: &str = "DELETE /lbaas/loadbalancers/{id}";

fn internal() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_when_it_was_made_is_made_anew() {
    let mut scene = internal();
    scene.fake.fail(Fault::ends_in_error(CREATE, "").times(1));
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [CREATE, REMOVE, CREATE]);
    assert_eq!(scene.balancer()["provisioning_status"], "ACTIVE");
}

#[tokio::test(start_paused = true)]
async fn error_of_two_failed_creations_advises_no_repair_of_what_is_deleted() {
    let mut scene = internal();
    scene.fake.fail(Fault::ends_in_error(CREATE, "").times(2));
    let error = scene.refused("web").await.to_string();
    assert!(
        error.contains("It is deleted, like the one that was created before it"),
        "{error}"
    );
    assert!(!error.contains("failover"), "{error}");
    assert!(scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn timeout_names_the_load_balancer_and_whole_seconds() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.fake.set_provisioning_status(NAME, "PENDING_UPDATE");
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    let id = scene.balancer()["id"].as_str().unwrap().to_owned();
    let error = scene.refused("web").await.to_string();
    let expected =
        format!("load balancer {NAME:?} ({id}) is not ready after 271s; checking again in 10s");
    assert!(error.contains(&expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_that_worked_and_failed_is_left_to_people() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.fake.set_provisioning_status(NAME, "ERROR");
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    scene.start().await;
    scene.changes();
    let refused = scene.refused("web").await;
    assert!(
        refused
            .to_string()
            .contains("openstack loadbalancer failover"),
        "{refused}"
    );
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_until_octavia_takes_it() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.fake.set_provisioning_status(NAME, "PENDING_UPDATE");
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    scene.start().await;
    let fake = scene.fake.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(40)).await;
        fake.set_provisioning_status(NAME, "ACTIVE");
    });
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["listeners"][0]["protocol_port"], 81);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_who_changes_it_at_the_same_time_is_waited_for() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    scene.fake.set_provisioning_status(NAME, "PENDING_UPDATE");
    let fake = scene.fake.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        fake.set_provisioning_status(NAME, "ACTIVE");
    });
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["listeners"][0]["protocol_port"], 81);
}

#[tokio::test(start_paused = true)]
async fn an_octavia_that_says_when_to_come_back_is_not_asked_before_and_nothing_is_made_twice() {
    let mut scene = internal();
    scene
        .fake
        .fail(Fault::retry_after(CREATE, 503, 40).times(1));
    let refused = scene.refused("web").await;
    assert_eq!(
        refused.retry_after(),
        Some(Duration::from_secs(40)),
        "{refused:?}"
    );
    scene.fake.forget_requests();
    let held = scene.refused("web").await;
    assert!(
        held.retry_after() > Some(Duration::from_secs(30)),
        "{held:?}"
    );
    let sent = scene.fake.requests();
    assert!(
        sent.iter().all(|request| !request.route.contains("lbaas")),
        "{sent:?}"
    );
    tokio::time::sleep(Duration::from_secs(40)).await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [CREATE]);
}

#[tokio::test(start_paused = true)]
async fn one_that_somebody_deleted_is_made_anew_in_spite_of_the_annotation() {
    let mut scene = Scene::new();
    let addresses = scene.ensure("web").await;
    let before = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    scene.fake.remove_load_balancer(NAME);
    scene.start().await;
    assert_eq!(
        scene.ensure("web").await,
        addresses,
        "the floating IP is led to the new one"
    );
    let after = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    assert_eq!(
        (before != after, Some(&*after)),
        (true, scene.balancer()["id"].as_str())
    );
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_names_none_is_a_mistake() {
    let mut scene = internal();
    scene.annotate("web", "load-balancer-id", "no-such-one");
    let refused = scene.refused("web").await;
    assert!(
        refused.is_invalid() && refused.to_string().contains("no-such-one"),
        "{refused}"
    );
    scene.delete("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_going_away_is_waited_for() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.try_delete("web").await.unwrap();
    scene.service("web").metadata.deletion_timestamp = None;
    scene.service("web").status = None;
    scene.forget("web", "load-balancer-id");
    scene.ensure("web").await;
    scene.fake.set_provisioning_status(NAME, "PENDING_DELETE");
    let fake = scene.fake.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        fake.remove_load_balancer(NAME);
    });
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["provisioning_status"], "ACTIVE");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_lost_its_pool_gets_one() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.fake.remove_pool(&format!("pool_0_{NAME}"));
    scene.start().await;
    scene.ensure("web").await;
    let balancer = scene.balancer();
    assert_eq!(
        balancer["listeners"][0]["default_pool_id"],
        balancer["pools"][0]["id"]
    );
    assert_eq!(balancer["pools"][0]["members"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_the_provider_does_not_know_is_told_and_no_reason_to_serve_nobody() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.changes();
    scene
        .fake
        .fail(Fault::refused("PUT /lbaas/pools/{id}", 400).times(1));
    scene.annotate("web", "lb-method", "SOURCE_IP");
    scene.ensure("web").await;
    assert!(
        scene
            .events()
            .iter()
            .any(|event| event.contains("LoadBalancerLbMethodUnknown"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_method_that_the_provider_does_not_know_keeps_nothing_else_from_being_changed() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene
        .fake
        .fail(Fault::refused("PUT /lbaas/pools/{id}", 400).times(1));
    scene.annotate("web", "lb-method", "SOURCE_IP");
    scene
        .service("web")
        .spec
        .get_or_insert_default()
        .session_affinity = Some("ClientIP".to_owned());
    scene.ensure("web").await;
    assert_eq!(
        scene.balancer()["pools"][0]["session_persistence"]["type"],
        "SOURCE_IP"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_pool_that_octavia_refuses_is_no_pool() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.changes();
    scene
        .fake
        .fail(Fault::refused("POST /lbaas/pools", 400).times(1));
    scene.ports(
        "web",
        json!([{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}]),
    );
    let refused = scene.refused("web").await;
    assert!(
        refused.is_invalid() && refused.to_string().contains("POST /lbaas/pools"),
        "{refused}"
    );
    assert_eq!(scene.changes(), ["POST /lbaas/pools"]);
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["pools"].as_array().unwrap().len(), 2);
}
