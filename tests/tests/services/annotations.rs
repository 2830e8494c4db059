//! Annotations that a provider sets on a Service.

use std::time::Duration;

use cloud_provider::Error;
use serde_json::{Value, json};

use crate::cloud::Behaviour;
use crate::world::{World, world};

const ID: &str = "example.com/load-balancer-id";
const OLD: &str = "example.com/old";

fn annotations(world: &World) -> Value {
    world.service("web")["metadata"]["annotations"].clone()
}

#[tokio::test(start_paused = true)]
async fn they_are_written_with_the_status_and_need_no_other_sync() {
    let world = world().await;
    world.cloud.annotate(ID, Some("lb-1"));
    world.create("web").await;
    world.settle().await;
    assert_eq!(annotations(&world), json!({ID: "lb-1"}));
    assert!(world.service("web")["status"]["loadBalancer"]["ingress"][0]["ip"].is_string());
    assert_eq!(
        (world.writes(), world.cloud.count("ensure web")),
        (2, 1),
        "the finalizer, and all that comes after"
    );
    assert!(
        world
            .api
            .requests()
            .all()
            .iter()
            .all(|request| request.resource != "services"
                || request.verb != "patch"
                || request.subresource == "status")
    );
}

#[tokio::test(start_paused = true)]
async fn they_are_written_when_it_fails_and_do_not_cut_the_pause_short() {
    let world = world().await;
    world.cloud.annotate(ID, Some("lb-1"));
    world.cloud.behave(
        "web",
        "ensure",
        Behaviour::Fails(Error::other("no floating ip")),
    );
    world.create("web").await;
    world.settle().await;
    assert_eq!(annotations(&world), json!({ID: "lb-1"}));
    assert_eq!(
        world.cloud.count("ensure web"),
        1,
        "the first pause is longer"
    );
    world.settle().await;
    assert_eq!(
        (world.cloud.count("ensure web"), world.writes()),
        (2, 3),
        "finalizer, annotation, condition"
    );
}

#[tokio::test(start_paused = true)]
async fn only_what_differs_is_written_and_what_others_wrote_stays() {
    let world = world().await;
    world.cloud.annotate(ID, Some("lb-1"));
    world.cloud.annotate(OLD, None);
    world.create("web").await;
    world.settle().await;
    world.clear();

    world
        .user
        .patch_service(
            "web",
            &json!({"metadata": {"annotations": {"example.com/mine": "x"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(
        (world.writes(), world.cloud.count("ensure web")),
        (0, 1),
        "it is as it was asked for"
    );

    world
        .user
        .patch_service(
            "web",
            &json!({"metadata": {"annotations": {ID: "stale", OLD: "y"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(
        annotations(&world),
        json!({ID: "lb-1", "example.com/mine": "x"})
    );
    assert_eq!((world.writes(), world.cloud.count("ensure web")), (1, 2));

    world.cloud.annotate(ID, Some("lb-2"));
    world.user.set_ports("web", &[81]).await;
    world.settle().await;
    assert_eq!(
        annotations(&world),
        json!({ID: "lb-2", "example.com/mine": "x"})
    );
    assert_eq!((world.writes(), world.cloud.count("ensure web")), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_that_is_there() {
    let mut world = world().await;
    world.cloud.annotate(ID, Some("lb-1"));
    world.create("web").await;
    world.settle().await;
    world.stop().await;
    world.clear();
    world.start().await;
    assert_eq!((world.writes(), world.cloud.count("ensure web")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_a_user_changes_while_it_is_made_is_not_overwritten() {
    let world = world().await;
    world.cloud.annotate(ID, Some("lb-1"));
    world
        .cloud
        .behave("web", "ensure", Behaviour::Takes(Duration::from_secs(20)));
    world.create("web").await;
    world.settle().await;
    world
        .user
        .patch_service(
            "web",
            &json!({"metadata": {"annotations": {ID: "lb-of-mine"}}}),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(
        world.cloud.count("ensure web"),
        2,
        "the change is worked on"
    );
    assert_eq!(annotations(&world), json!({ID: "lb-of-mine"}));
    assert!(world.service("web")["status"]["loadBalancer"]["ingress"][0]["ip"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_provider_may_have_addresses_shown_before_it_goes_on() {
    let world = world().await;
    world.cloud.annotate(ID, Some("lb-1"));
    world.cloud.announce();
    world.create("web").await;
    world.settle().await;
    let shown = world.cloud.announced();
    assert_eq!(
        shown[0]["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
    assert_eq!(shown[0]["metadata"]["annotations"], json!({ID: "lb-1"}));
    assert_eq!((world.cloud.count("ensure web"), shown.len()), (1, 1));
    assert_eq!(
        world.service("web")["status"],
        shown[0]["status"],
        "said once"
    );
    assert_eq!(
        world.writes(),
        2,
        "the finalizer, and what was shown: that is not written again at the end"
    );
}

const OWN: &str = "ccm-rs/load-balancer-id";

#[tokio::test(start_paused = true)]
async fn id_of_a_load_balancer_is_written_with_its_address_and_follows_a_replacement() {
    let world = world().await;
    world.cloud.identify("lb-1");
    world.create("web").await;
    world.settle().await;
    assert_eq!(annotations(&world), json!({OWN: "lb-1"}));
    assert_eq!(
        (world.writes(), world.cloud.count("ensure web")),
        (2, 1),
        "the finalizer, and all that comes after"
    );

    world.clear();
    world.cloud.identify("lb-2");
    world
        .user
        .patch_service(
            "web",
            &json!({"metadata": {"annotations": {"example.com/mine": "x"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(annotations(&world)[OWN], "lb-2");
    assert_eq!((world.writes(), world.cloud.count("ensure web")), (1, 1));

    world.clear();
    world
        .user
        .patch_service("web", &json!({"spec": {"type": "ClusterIP"}}))
        .await;
    world.settle().await;
    assert_eq!(
        annotations(&world),
        json!({"example.com/mine": "x"}),
        "the load balancer is deleted"
    );
    assert_eq!(world.writes(), 1, "with the finalizer");
}

#[tokio::test(start_paused = true)]
async fn upgraded_cluster_gets_ids_with_the_next_change_of_a_load_balancer() {
    let mut world = world().await;
    world.create("web").await;
    world.settle().await;
    world.stop().await;
    world.clear();
    world.cloud.identify("lb-1");
    world.start().await;
    assert_eq!(
        (world.writes(), world.cloud.count("ensure web")),
        (0, 1),
        "the upgrade"
    );
    world.user.set_ports("web", &[81]).await;
    world.settle().await;
    assert_eq!(
        (annotations(&world), world.writes()),
        (json!({OWN: "lb-1"}), 1)
    );
    assert_eq!(
        world.cloud.count("ensure web"),
        2,
        "the annotation needs no sync"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_sync_writes_no_id() {
    let world = world().await;
    world.cloud.identify("lb-1");
    world.cloud.behave(
        "web",
        "ensure",
        Behaviour::Fails(Error::other("no floating ip")),
    );
    world.create("web").await;
    world.settle().await;
    world.settle().await;
    assert_eq!(
        (annotations(&world), world.writes()),
        (Value::Null, 2),
        "the finalizer and the condition"
    );
}
