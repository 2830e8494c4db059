//! An API server that forgets Services (INV-9).

use std::time::Duration;

use embedded_apiserver::{Action, Matcher};
use serde_json::json;

use crate::world::{World, world, world_with};

/// Longer than the delay and everything that follows it.
const LONG: Duration = Duration::from_secs(400);

async fn with_services(count: usize) -> World {
    let world = world().await;
    for n in 0..count {
        world.create(&format!("web-{n}")).await;
    }
    world.settle().await;
    assert_eq!(world.cloud.balancers().len(), count);
    world.clear();
    world
}

fn held(count: usize, of: usize) -> String {
    format!(
        "LoadBalancerDeletionHeld Service vanished from the Kubernetes API without being deleted; its load balancer is kept: \
         {count} of {of} Services with load balancers are missing together; check the API server and its storage. If \
         Services were deleted on purpose, delete their load balancers in the cloud"
    )
}

#[tokio::test(start_paused = true)]
async fn expired_watch_empty_list_and_404s_leave_all_load_balancers_alone() {
    let world = with_services(8).await;
    let before = world.cloud.balancers();
    world.api.lose_storage("services");
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(
        (world.cloud.calls().len(), world.cloud.balancers()),
        (0, before.clone()),
        "{:?}",
        world.cloud.calls()
    );
    assert_eq!(world.take_events("web-3"), [held(8, 8)], "told once");
    world.clear();
    world.api.restore_storage("services");
    tokio::time::sleep(LONG).await;
    assert_eq!(
        (
            world.cloud.changes(),
            world.cloud.balancers(),
            world.writes()
        ),
        (0, before, 0)
    );
    // All is as it was before.
    world.user.delete_service("web-3").await;
    world.settle().await;
    assert_eq!(
        (
            world.cloud.balancers().len(),
            world.cloud.count("delete web-3")
        ),
        (7, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn one_service_that_vanished_keeps_its_load_balancer_for_five_minutes() {
    let world = with_services(4).await;
    world.api.remove("services", Some("default"), "web-2");
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(
        (world.cloud.calls().len(), world.cloud.balancers().len()),
        (0, 4)
    );
    let told = world.take_events("web-2");
    assert!(
        told.len() == 1 && told[0].starts_with("LoadBalancerDeletionHeld"),
        "{told:?}"
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        (
            world.cloud.count("delete web-2"),
            world.cloud.balancers().len()
        ),
        (1, 3)
    );
    assert_eq!(
        world.api.requests().count("get", "services"),
        2,
        "two reads confirm it"
    );
    tokio::time::sleep(LONG).await;
    assert_eq!(
        (
            world.cloud.calls().len(),
            world.api.requests().count("get", "services")
        ),
        (1, 2),
        "it is forgotten"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_shown_again_is_not_touched() {
    let world = with_services(2).await;
    let before = world.cloud.balancers();
    for pause in [1, 60, 290] {
        world.api.lose_storage("services");
        tokio::time::sleep(Duration::from_secs(pause)).await;
        world.api.restore_storage("services");
        tokio::time::sleep(LONG).await;
        assert_eq!(
            (world.cloud.changes(), world.cloud.balancers()),
            (0, before.clone()),
            "after {pause} s"
        );
    }
    assert_eq!(world.writes(), 0);
}

/// The cache never lacks the Service, and no event reports that it was missing when its status was written.
#[tokio::test(start_paused = true)]
async fn a_status_that_met_a_forgotten_service_is_written_when_it_is_there_again() {
    let world = world().await;
    let refused = Action::Status {
        code: 404,
        reason: "NotFound".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    world.cloud.behave(
        "web",
        "ensure",
        crate::cloud::Behaviour::Takes(Duration::from_secs(10)),
    );
    world.create("web").await;
    world.settle().await;
    let rule = world.api.faults().add(
        Matcher::any().verb("patch").resource("services/status"),
        refused,
    );
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.api.faults().remove(rule);
    assert!(world.service("web")["status"]["loadBalancer"]["ingress"].is_null());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        world.service("web")["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
}

#[tokio::test(start_paused = true)]
async fn two_reads_count_only_if_nothing_came_between() {
    let world = with_services(1).await;
    world.api.lose_storage("services");
    tokio::time::sleep(Duration::from_secs(200)).await;
    world.api.restore_storage("services");
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.api.lose_storage("services");
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(
        world.cloud.balancers().len(),
        1,
        "the second absence has a clock of its own"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.cloud.balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namesake_gets_its_own_load_balancer_and_the_old_one_stays_for_five_minutes() {
    let world = with_services(3).await;
    let old = world.service("web-1");
    world.api.remove("services", Some("default"), "web-1");
    world.settle().await;
    let new = world.create("web-1").await;
    assert_ne!(old["metadata"]["uid"], new["metadata"]["uid"]);
    tokio::time::sleep(Duration::from_secs(280)).await;
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.balancers().len()),
        (0, 4),
        "{:?}",
        world.cloud.calls()
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let uids: Vec<String> = world.cloud.balancers().into_keys().collect();
    assert_eq!(uids.len(), 3);
    assert!(
        uids.iter().any(|uid| new["metadata"]["uid"] == **uid),
        "{uids:?}"
    );
    assert!(
        !uids.iter().any(|uid| old["metadata"]["uid"] == **uid),
        "{uids:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn services_made_again_after_a_loss_get_load_balancers_beside_the_old_ones() {
    let world = with_services(4).await;
    let before = world.cloud.balancers();
    world.api.lose_storage("services");
    world.settle().await;
    for n in 0..4 {
        world.create(&format!("web-{n}")).await;
    }
    world.settle().await;
    let after = world.cloud.balancers();
    assert_eq!((after.len(), world.cloud.count("delete")), (8, 0));
    assert!(
        before
            .iter()
            .all(|(uid, balancer)| after.get(uid) == Some(balancer))
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_goes_at_once_while_others_are_forgotten() {
    let world = with_services(3).await;
    world.api.remove("services", Some("default"), "web-0");
    world.settle().await;
    world.user.delete_service("web-1").await;
    world.settle().await;
    assert_eq!(
        (
            world.cloud.count("delete web-1"),
            world.cloud.balancers().len()
        ),
        (1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn another_clusters_api_server_never_deletes_a_load_balancer() {
    let world = with_services(1).await;
    let mut namespace = world.api.get("namespaces", None, "kube-system").unwrap();
    namespace["metadata"]["uid"] = json!("another-cluster");
    world.api.seed(namespace).unwrap();
    // The only Service is deleted in ways that are believed at once, or after five minutes.
    world.api.lose_storage("services");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.balancers().len()),
        (0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn where_the_identity_may_not_be_read_two_reads_are_enough() {
    let world = with_services(1).await;
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    world
        .api
        .faults()
        .add(Matcher::any().verb("get").resource("namespaces"), forbidden);
    world.api.lose_storage("services");
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(world.cloud.balancers().len(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.cloud.balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_the_guard_a_vanished_service_loses_its_load_balancer_at_once() {
    let world = world_with(|options| options.vanished = None).await;
    world.create("web").await;
    world.settle().await;
    world.api.lose_storage("services");
    world.settle().await;
    assert!(world.cloud.balancers().is_empty(), "as the reference");
}
