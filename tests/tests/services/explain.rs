//! Events and conditions on a Service that waits or fails.
//!
//! Rules: SVC-57, P-24, D-3, D-119.

use std::time::Duration;

use cloud_provider::Error;
use embedded_apiserver::{Action, Matcher};

use crate::cloud::Behaviour;
use crate::world::{World, world};

fn reason(world: &World, name: &str) -> Option<(String, String)> {
    world
        .condition(name)
        .map(|(status, reason, _)| (status, reason))
}

fn said(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_condition_comes_with_the_trouble_changes_with_its_reason_and_ends_well() {
    let world = world().await;
    world.cloud.behave(
        "web",
        "ensure",
        Behaviour::Fails(Error::quota("10 of 10 load balancers")),
    );
    world.create("web").await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(reason(&world, "web"), said("False", "QuotaExceeded"));
    let (_, _, message) = world.condition("web").unwrap();
    assert!(
        message.contains("10 of 10")
            && message.contains("quota raised")
            && !message.contains("retried"),
        "{message}"
    );
    assert_eq!(
        world.writes(),
        2,
        "the finalizer, and once the condition, however often it fails"
    );

    world
        .cloud
        .behave("web", "ensure", Behaviour::Fails(Error::other("503")));
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(reason(&world, "web"), said("False", "EnsureFailed"));
    assert_eq!(world.writes(), 3);

    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(reason(&world, "web"), said("True", "Ensured"));
    assert_eq!(
        world.writes(),
        4,
        "the condition goes along with the addresses"
    );

    world.user.set_ports("web", &[81]).await;
    world.settle().await;
    assert_eq!(
        world.writes(),
        4,
        "a Service that is well is not written to"
    );
}

#[tokio::test(start_paused = true)]
async fn condition_follows_the_latest_cause_and_costs_a_write_a_minute() {
    let world = world().await;
    let fails = |text: &str| {
        world.cloud.behave(
            "web",
            "ensure",
            Behaviour::Fails(Error::other(text.to_owned())),
        );
    };
    fails("POST /lbs answered 500");
    world.create("web").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(world.condition("web").unwrap().2.contains("answered 500"));
    let writes = world.writes();
    for seconds in 0..600 {
        fails(&format!("GET /lbs answered 502, request {seconds}"));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (_, reason, message) = world.condition("web").unwrap();
    assert!(
        reason == "EnsureFailed" && message.contains("answered 502"),
        "{message}"
    );
    let writes = world.writes() - writes;
    assert!((1..=10).contains(&writes), "{writes} writes in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn other_conditions_are_left_alone() {
    let world = world().await;
    world
        .cloud
        .behave("web", "ensure", Behaviour::Fails(Error::other("503")));
    let mut service = world.create("web").await;
    service["status"]["conditions"] = serde_json::json!([{"type": "example.com/Other", "status": "True", "reason": "Fine",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let mut fresh = world.service("web");
    fresh["status"]["conditions"] = service["status"]["conditions"].clone();
    world.api.seed(fresh).unwrap();
    world.settle().await;
    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let conditions = world.service("web")["status"]["conditions"].clone();
    let reasons: Vec<_> = conditions
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["reason"].as_str().unwrap())
        .collect();
    assert!(
        reasons.contains(&"Fine") && reasons.contains(&"Ensured") && reasons.len() == 2,
        "{conditions}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_leaves_with_the_load_balancer() {
    let world = world().await;
    world
        .cloud
        .behave("web", "ensure", Behaviour::Fails(Error::other("503")));
    world.create("web").await;
    world.settle().await;
    assert!(world.condition("web").is_some());
    world
        .user
        .patch_service("web", &serde_json::json!({"spec": {"type": "ClusterIP"}}))
        .await;
    world.settle().await;
    assert_eq!(world.condition("web"), None);
    assert_eq!(world.service("web")["metadata"].get("finalizers"), None);
}

#[tokio::test(start_paused = true)]
async fn a_condition_leaves_a_deleted_service_that_somebody_else_still_holds() {
    let world = world().await;
    world.create("web").await;
    world
        .user
        .patch_service(
            "web",
            &serde_json::json!({"metadata": {"finalizers": ["example.com/other"]}}),
        )
        .await;
    world.settle().await;
    world
        .cloud
        .behave("web", "delete", Behaviour::Fails(Error::other("503")));
    world.user.delete_service("web").await;
    world.settle().await;
    assert_eq!(reason(&world, "web"), said("False", "DeletionFailed"));
    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.condition("web"), None);
    assert_eq!(
        world.service("web")["metadata"]["finalizers"],
        serde_json::json!(["example.com/other"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_does_not_heal_by_itself_says_what_to_do_and_keeps_its_back_off() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.clear();
    world.cloud.behave(
        "web",
        "delete",
        Behaviour::Fails(Error::protected("load balancer lb-1 is locked")),
    );
    world.user.delete_service("web").await;
    tokio::time::sleep(Duration::from_secs(620)).await;
    assert_eq!(reason(&world, "web"), said("False", "DeletionBlocked"));
    let (_, _, message) = world.condition("web").unwrap();
    assert!(
        message.contains("lb-1 is locked") && message.contains("ccm-rs/abandon-load-balancer=true"),
        "{message}"
    );
    let told = world.take_events("web");
    let failed = "SyncLoadBalancerFailed Error syncing load balancer: failed to delete load balancer: load balancer lb-1 is locked";
    assert!(told.iter().any(|event| event == failed), "{told:?}");
    // At 0, 5, 15, 35, 75, 155, 315 and 615 seconds: neither the condition nor a resync hurries it.
    assert_eq!(world.cloud.count("delete web"), 8);
    assert_eq!(world.writes(), 1);

    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert!(world.service("web").is_null() && world.cloud.balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_says_when_to_come_again_is_asked_then() {
    let world = world().await;
    let wait = |seconds| {
        Behaviour::Fails(Error::retry_in(
            "still at work",
            Duration::from_secs(seconds),
        ))
    };
    world.cloud.behave("web", "ensure", wait(42));
    world.create("web").await;
    tokio::time::sleep(Duration::from_secs(430)).await;
    let gaps = |what: &str| -> Vec<u64> {
        let calls = world.cloud.calls();
        let at: Vec<_> = calls
            .iter()
            .filter(|call| call.what.starts_with(what))
            .map(|call| call.at)
            .collect();
        at.windows(2)
            .map(|pair| (pair[1] - pair[0]).as_millis() as u64)
            .collect()
    };
    let ensures = gaps("ensure web");
    assert!(
        ensures.len() == 10 && ensures.iter().all(|gap| (42_000..42_020).contains(gap)),
        "{ensures:?}"
    );
    assert_eq!(reason(&world, "web"), said("False", "Waiting"));
    assert_eq!(world.writes(), 2);

    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(
        (reason(&world, "web"), world.writes()),
        (said("True", "Ensured"), 3),
        "three writes at most to create"
    );
    world.cloud.behave("web", "delete", wait(9));
    world.user.delete_service("web").await;
    tokio::time::sleep(Duration::from_secs(95)).await;
    let deletes = gaps("delete web");
    assert!(
        deletes.len() == 10 && deletes.iter().all(|gap| (9_000..9_020).contains(gap)),
        "{deletes:?}"
    );
    assert_eq!(reason(&world, "web"), said("False", "Deleting"));
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_write_the_status_nothing_is_made() {
    let world = world().await;
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "services \"web\" is forbidden".into(),
        retry_after_seconds: None,
    };
    world.api.faults().add(
        Matcher::any().verb("patch").resource("services/status"),
        forbidden,
    );
    world.create("web").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.cloud.calls().is_empty());
    let told = world.take_events("web");
    let failed = "SyncLoadBalancerFailed Error syncing load balancer: failed to add load balancer cleanup finalizer: services \"web\" is forbidden";
    assert!(
        told.len() >= 4 && told.iter().all(|event| event == failed),
        "{told:?}"
    );
}
