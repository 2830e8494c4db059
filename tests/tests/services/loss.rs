//! Services that vanish, or seem to.
//!
//! Rules: SVC-17, D-146, D-147.

use std::time::Duration;

use cloud_provider::Error;
use controllers::Options;
use embedded_apiserver::{Action, Matcher};
use serde_json::{Value, json};

use crate::cloud::{Behaviour, FINALIZER};
use crate::world::{World, world};

fn uid(service: &Value) -> &str {
    service["metadata"]["uid"].as_str().unwrap()
}

/// Makes the API server lag: the next list of Services is this one, at this revision, and later events are reported
/// only some seconds later. The controller lists again at once.
fn lag(world: &World, items: &[Value], revision: u64) {
    let faults = world.api.faults();
    let watch = || Matcher::any().verb("watch").resource("services");
    let refused = Action::Status {
        code: 400,
        reason: "BadRequest".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    faults.add(watch().times(1), refused);
    faults.add(watch().times(3), Action::Refused);
    let list = json!({"apiVersion": "v1", "kind": "ServiceList", "items": items,
        "metadata": {"resourceVersion": revision.to_string()}});
    faults.add(
        Matcher::any().verb("list").resource("services").times(1),
        Action::Body {
            code: 200,
            body: list,
        },
    );
    faults.drop_watches();
}

/// Starts the controller over a list that still shows a deleted Service with the program's finalizer: its new load
/// balancer is deleted.
async fn starts_with_a_service_that_is_gone(mut world: World) {
    world.put_node("worker-1", "lbs://worker-1");
    let gone = world.create("web").await;
    let then = world.api.revision();
    world.user.delete_service("web").await;
    let mut held = gone.clone();
    held["metadata"]["finalizers"] = json!([FINALIZER]);
    lag(&world, &[held], then);
    world.start().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (world.cloud.count("ensure"), world.cloud.count("delete")),
        (1, 1),
        "{:?}",
        world.cloud.calls()
    );
    assert!(world.cloud.balancers().is_empty());
    world.cloud.forgive("no finalizer holds");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_a_lagging_list_does_not_show_keeps_its_load_balancer() {
    let world = world().await;
    let before = world.api.revision();
    world.create("web").await;
    world.settle().await;
    world.clear();
    lag(&world, &[], before);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        world.api.requests().count("list", "services"),
        1,
        "it was listed anew"
    );
    assert!(
        world.api.requests().count("get", "services") >= 1,
        "the API is asked whether it is gone"
    );
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.changes()),
        (0, 0),
        "{:?}",
        world.cloud.calls()
    );
    assert_eq!((world.all_events(), world.writes()), (vec![], 0));

    // Afterwards all is as before.
    world.user.set_ports("web", &[81]).await;
    world.settle().await;
    assert_eq!(world.cloud.only().ports, [81]);
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_predecessor_a_lagging_list_shows_keeps_its_load_balancer() {
    let world = world().await;
    let first = world.create("web").await;
    let before = world.api.revision();
    world.settle().await;
    world.user.delete_service("web").await;
    world.settle().await;
    let second = world.create("web").await;
    world.settle().await;
    world.clear();
    lag(&world, std::slice::from_ref(&first), before);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(
        world.api.requests().count("get", "services") >= 1,
        "the API is asked which of them is gone"
    );
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.changes()),
        (0, 0),
        "{:?}",
        world.cloud.calls()
    );
    assert_eq!(
        world.cloud.balancers().into_keys().collect::<Vec<_>>(),
        [uid(&second)]
    );
}

#[tokio::test(start_paused = true)]
async fn as_long_as_the_api_does_not_say_that_a_service_is_gone_its_load_balancer_stays() {
    let world = world().await;
    let before = world.api.revision();
    world.create("web").await;
    world.settle().await;
    world.clear();
    let failing = Action::Status {
        code: 503,
        reason: "".into(),
        message: "".into(),
        retry_after_seconds: None,
    };
    let rule = world
        .api
        .faults()
        .add(Matcher::any().verb("get").resource("services"), failing);
    world.api.remove("services", Some("default"), "web");
    lag(&world, &[], before);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.cloud.balancers().len(), 1);
    world.api.faults().remove(rule);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.cloud.balancers().len(), 1, "it was read once by now");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.cloud.balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_made_for_a_service_that_was_gone_already_goes() {
    starts_with_a_service_that_is_gone(World::stopped(Options::default())).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_goes_while_its_first_sync_is_at_work_leaves_nothing() {
    let world = World::stopped(Options::default());
    world
        .cloud
        .behave("web", "ensure", Behaviour::Takes(Duration::from_secs(30)));
    starts_with_a_service_that_is_gone(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_without_our_finalizer_leaves_nothing() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.clear();
    world
        .user
        .patch_service("web", &json!({"metadata": {"finalizers": null}}))
        .await;
    world.user.delete_service("web").await;
    world.settle().await;
    assert!(world.cloud.balancers().is_empty());
    assert_eq!(
        (
            world.cloud.count("get"),
            world.cloud.count("delete"),
            world.writes()
        ),
        (0, 1, 0)
    );
    let told = world.take_events("web");
    assert_eq!(
        told,
        [
            "DeletingLoadBalancer Deleting load balancer",
            "DeletedLoadBalancer Deleted load balancer"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_leaves_nothing_where_services_may_only_be_listed() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    world
        .api
        .faults()
        .add(Matcher::any().verb("get").resource("services"), forbidden);
    world.clear();
    world
        .user
        .patch_service("web", &json!({"metadata": {"finalizers": null}}))
        .await;
    world.user.delete_service("web").await;
    world.settle().await;
    assert!(world.cloud.balancers().is_empty());
    assert!(world.api.requests().count("list", "services") >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_can_leave_its_load_balancer_behind() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.clear();
    let abandon = json!({"metadata": {"finalizers": null, "annotations": {"ccm-rs/abandon-load-balancer": "true"}}});
    world.user.patch_service("web", &abandon).await;
    world.user.delete_service("web").await;
    world.settle().await;
    assert_eq!(
        (world.cloud.calls().len(), world.cloud.balancers().len()),
        (0, 1)
    );
    let told = world.take_events("web");
    assert!(
        told.len() == 1 && told[0].starts_with("LoadBalancerAbandoned"),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_takes_off_a_living_service_comes_back() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.clear();
    world
        .user
        .patch_service("web", &json!({"metadata": {"finalizers": null}}))
        .await;
    world.settle().await;
    assert_eq!(
        world.service("web")["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    assert_eq!(
        (world.cloud.changes(), world.writes(), world.all_events()),
        (0, 1, vec![])
    );
}

/// Returns a harness with a Service that is being deleted, held by another finalizer, and that lost the program's
/// finalizer before the cloud deleted the load balancer.
async fn stripped_in_deletion(annotations: Value) -> World {
    let world = world().await;
    world.create("web").await;
    world
        .user
        .patch_service(
            "web",
            &json!({"metadata": {"finalizers": ["example.com/other"]}}),
        )
        .await;
    world.settle().await;
    world
        .cloud
        .behave("web", "delete", Behaviour::Fails(Error::other("503")));
    world.user.delete_service("web").await;
    world.settle().await;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER], "annotations": annotations}});
    world.user.patch_service("web", &patch).await;
    world.settle().await;
    world.cloud.heal();
    world.clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let service = world.service("web");
    assert_eq!(
        service["metadata"]["finalizers"],
        json!(["example.com/other"]),
        "nothing is added"
    );
    world
}

#[tokio::test(start_paused = true)]
async fn a_service_that_loses_our_finalizer_while_it_is_deleted_loses_its_load_balancer_too() {
    let world = stripped_in_deletion(json!({})).await;
    assert!(world.cloud.balancers().is_empty());
    assert_eq!(world.condition("web"), None);
    assert_eq!(world.service("web")["status"]["loadBalancer"], json!({}));
    world.clear();
    world
        .user
        .patch_service("web", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    world
        .user
        .patch_service("web", &json!({"metadata": {"finalizers": null}}))
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.service("web").is_null());
    assert_eq!(
        (
            world.cloud.calls().len(),
            world.writes(),
            world.all_events()
        ),
        (0, 0, vec![]),
        "it is forgotten"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_loses_our_finalizer_while_it_is_deleted_can_leave_its_load_balancer_behind()
{
    let world = stripped_in_deletion(json!({"ccm-rs/abandon-load-balancer": "true"})).await;
    assert_eq!(
        (world.cloud.count("delete"), world.cloud.balancers().len()),
        (0, 1)
    );
}
