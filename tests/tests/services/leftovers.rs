//! Services of another controller's class, on which an earlier life may have left something (INV-2, D-149).

use std::time::Duration;

use cloud_provider::Error;
use controllers::Options;
use serde_json::{Value, json};

use crate::cloud::{Behaviour, FINALIZER};
use crate::world::{World, world};

const OTHER: &str = "example.com/other";

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Returns the parts of a Service that the controller writes: finalizers and status.
fn written(service: &Value) -> Value {
    json!([service["metadata"]["finalizers"], service["status"]])
}

/// Returns a harness whose Service was assigned to another controller while the program was down; its load balancer is
/// left.
async fn left_over() -> World {
    let mut world = world().await;
    world.create("web").await;
    world.settle().await;
    world.stop().await;
    world
        .user
        .patch_service("web", &json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let other = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": OTHER}});
    world.user.patch_service("web", &other).await;
    world.clear();
    world
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_life_left_on_another_controllers_service_is_removed_and_nothing_else_touched()
 {
    let mut world = left_over().await;
    let before = written(&world.service("web"));
    assert_eq!(before[0], json!([FINALIZER]));
    world.start().await;
    sleep(200).await;
    assert_eq!(
        (world.cloud.balancers().len(), world.cloud.count("get")),
        (1, 1),
        "somebody may be about to show it"
    );
    sleep(200).await;
    assert!(world.cloud.balancers().is_empty());
    assert_eq!(
        (world.cloud.count("get"), world.cloud.count("delete")),
        (2, 1)
    );
    let told = world.take_events("web");
    assert_eq!(
        told,
        [
            "DeletingLoadBalancer Deleting load balancer",
            "DeletedLoadBalancer Deleted load balancer"
        ]
    );
    assert_eq!(
        (written(&world.service("web")), world.writes()),
        (before, 0),
        "the other controller relies on it"
    );
    world.clear();
    sleep(7200).await;
    assert_eq!((world.cloud.calls().len(), world.writes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_the_service_shows_is_somebody_elses_business() {
    let mut world = left_over().await;
    let address = world.cloud.only().address;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
    world.start().await;
    // The status shows the load balancer only a while after the start.
    sleep(100).await;
    assert!(
        world
            .user
            .patch("/api/v1/namespaces/default/services/web/status", &status)
            .await
    );
    world.clear();
    sleep(7200).await;
    assert_eq!(
        (
            world.cloud.balancers().len(),
            world.cloud.count("get"),
            world.cloud.count("delete")
        ),
        (1, 1, 0)
    );
    assert_eq!((world.all_events(), world.writes()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn another_controllers_service_costs_one_question_for_each_life() {
    let mut world = World::stopped(Options::default());
    for name in ["web", "mail"] {
        world.create(name).await;
        world
            .user
            .patch_service(name, &json!({"spec": {"type": "ClusterIP"}}))
            .await;
        let other = json!({"metadata": {"finalizers": [FINALIZER]},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": OTHER}});
        world.user.patch_service(name, &other).await;
    }
    world
        .user
        .patch_service("mail", &json!({"metadata": {"finalizers": null}}))
        .await;
    world.clear();
    world.start().await;
    sleep(3600).await;
    world
        .user
        .patch_service("web", &json!({"metadata": {"annotations": {"a": "b"}}}))
        .await;
    world.user.set_ports("web", &[81]).await;
    sleep(3600).await;
    assert_eq!(
        world.cloud.calls().len(),
        1,
        "one without the finalizer none: {:?}",
        world.cloud.calls()
    );
    assert_eq!((world.all_events(), world.writes()), (vec![], 0));
    assert_eq!(
        world.service("web")["metadata"]["finalizers"],
        json!([FINALIZER])
    );
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_does_not_answer_is_asked_again_and_nothing_is_said_on_the_service() {
    let mut world = left_over().await;
    world.cloud.behave(
        "web",
        "get",
        Behaviour::Fails(Error::other("the cloud is down")),
    );
    world.start().await;
    sleep(600).await;
    assert!(
        (5..=12).contains(&world.cloud.count("get")),
        "{}",
        world.cloud.count("get")
    );
    world.cloud.heal();
    world
        .cloud
        .behave("web", "delete", Behaviour::Fails(Error::other("not now")));
    sleep(600).await;
    assert!(
        (2..=12).contains(&world.cloud.count("delete")),
        "{}",
        world.cloud.count("delete")
    );
    assert_eq!((world.cloud.balancers().len(), world.writes()), (1, 0));
    world.cloud.heal();
    sleep(120).await;
    assert!(world.cloud.balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_reference_does_not_look() {
    let mut world = left_over().await;
    world.options.service.leftovers_delay = Options::reference().service.leftovers_delay;
    world.start().await;
    sleep(3600).await;
    assert_eq!(
        (world.cloud.calls().len(), world.cloud.balancers().len()),
        (0, 1)
    );
}
