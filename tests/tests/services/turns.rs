//! INV-6: one Service never delays another, and calls for one never overlap. The cloud notes every overlap, and the world
//! fails for it when it ends.
//!
//! Rules: PROV-36.

use std::time::Duration;

use serde_json::json;

use crate::cloud::Behaviour;
use crate::world::world;

#[tokio::test(start_paused = true)]
async fn a_service_whose_ensure_hangs_delays_no_other() {
    let world = world().await;
    world.cloud.behave("bad", "ensure", Behaviour::Hangs);
    world.create("bad").await;
    for n in 0..40 {
        world.create(&format!("web-{n}")).await;
    }
    world.settle().await;
    assert_eq!(world.cloud.balancers().len(), 40);

    // Neither are their targets delayed, nor those of the next node sync.
    for n in 3..6 {
        world.put_node(&format!("worker-{n}"), &format!("lbs://worker-{n}"));
        world.settle().await;
        assert!(
            world
                .cloud
                .balancers()
                .values()
                .all(|load_balancer| load_balancer.targets.len() == n)
        );
    }
    assert_eq!(world.cloud.count("bad"), 1, "nobody else calls for it");
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_targets_cannot_be_moved_delays_neither_others_nor_the_next_node_sync() {
    let world = world().await;
    for name in ["bad", "good", "fine"] {
        world.create(name).await;
    }
    world.settle().await;
    world.cloud.behave("bad", "update", Behaviour::Hangs);
    for n in 3..6 {
        world.put_node(&format!("worker-{n}"), &format!("lbs://worker-{n}"));
        world.settle().await;
        let moved = world
            .cloud
            .balancers()
            .values()
            .filter(|load_balancer| load_balancer.targets.len() == n)
            .count();
        assert_eq!(moved, 2, "after {n} Nodes");
    }
    world.user.set_ports("good", &[8080]).await;
    world.create("new").await;
    world.settle().await;
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .any(|load_balancer| load_balancer.ports == [8080])
    );
    assert_eq!(world.cloud.balancers().len(), 4);
    assert_eq!(
        (
            world.cloud.count("update bad"),
            world.cloud.count("ensure bad")
        ),
        (1, 1)
    );

    // The own change waits; a call that never ends is given up in the end, and then everything is synced at once.
    world.user.set_ports("bad", &[9090]).await;
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .any(|load_balancer| load_balancer.ports == [9090] && load_balancer.targets.len() == 5)
    );
}

#[tokio::test(start_paused = true)]
async fn targets_that_move_during_an_ensure_arrive_after_it() {
    let world = world().await;
    world
        .cloud
        .behave("slow", "ensure", Behaviour::Takes(Duration::from_secs(60)));
    world.create("slow").await;
    world.settle().await;
    world.put_node("worker-3", "lbs://worker-3");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.cloud.count("update"), 0, "it is being ensured");
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(world.cloud.only().targets.len(), 3);
    assert_eq!(
        (world.cloud.count("ensure"), world.cloud.count("update")),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn calls_for_one_service_never_overlap_whatever_happens() {
    let world = world().await;
    let mut random = fastrand::Rng::with_seed(7);
    for n in 0..6 {
        world.create(&format!("web-{n}")).await;
        for method in ["ensure", "update", "get", "delete"] {
            let time = Duration::from_millis(random.u64(0..3000));
            world
                .cloud
                .behave(&format!("web-{n}"), method, Behaviour::Takes(time));
        }
    }
    for step in 0..300 {
        let name = format!("web-{}", random.u8(0..6));
        match random.u8(0..6) {
            0 => drop(world.user.set_ports(&name, &[random.u16(1..999)]).await),
            1 => drop(
                world
                    .user
                    .patch_service(&name, &json!({"spec": {"type": "ClusterIP"}}))
                    .await,
            ),
            2 => drop(
                world
                    .user
                    .patch_service(&name, &json!({"spec": {"type": "LoadBalancer"}}))
                    .await,
            ),
            3 => world.put_node(
                &format!("extra-{}", random.u8(0..4)),
                &format!("lbs://{step}"),
            ),
            4 => drop(
                world
                    .user
                    .delete_node(&format!("extra-{}", random.u8(0..4)))
                    .await,
            ),
            _ => {
                world.user.delete_service(&name).await;
                tokio::time::sleep(Duration::from_secs(8)).await;
                if world.service(&name).is_null() {
                    world.create(&name).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(random.u64(0..1500))).await;
    }
    world.cloud.heal();
    for n in 0..6 {
        world
            .user
            .patch_service(
                &format!("web-{n}"),
                &json!({"spec": {"type": "LoadBalancer"}}),
            )
            .await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let nodes = world.api.list("nodes").len();
    let balancers = world.cloud.balancers();
    assert_eq!(balancers.len(), 6);
    assert!(
        balancers
            .values()
            .all(|load_balancer| load_balancer.targets.len() == nodes),
        "{nodes} Nodes: {balancers:?}"
    );
    for (uid, balancer) in balancers {
        let services = world.api.list("services");
        let service = services
            .iter()
            .find(|service| service["metadata"]["uid"] == uid.as_str())
            .unwrap();
        assert_eq!(service["spec"]["ports"][0]["port"], balancer.ports[0]);
        assert_eq!(
            service["status"]["loadBalancer"]["ingress"][0]["ip"],
            balancer.address
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_stops_nothing() {
    let world = world().await;
    world.cloud.behave("bad", "ensure", Behaviour::Panics);
    world.create("bad").await;
    world.create("good").await;
    world.settle().await;
    assert_eq!(world.cloud.balancers().len(), 1);
    let told = world.take_events("bad");
    assert_eq!(
        told.last().unwrap(),
        "SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: cloud provider lbs panicked"
    );
    world.cloud.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.cloud.balancers().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_does_not_hold_up_the_end_and_is_no_news() {
    let mut world = world().await;
    world.create("moving").await;
    world.settle().await;
    world.cloud.behave("bad", "ensure", Behaviour::Hangs);
    world.cloud.behave("moving", "update", Behaviour::Hangs);
    world.create("bad").await;
    world.put_node("worker-3", "lbs://worker-3");
    world.settle().await;
    assert_eq!(
        (
            world.cloud.count("ensure bad"),
            world.cloud.count("update moving")
        ),
        (1, 1)
    );
    world.clear();
    assert!(world.stop().await <= Duration::from_secs(6));
    assert_eq!((world.all_events(), world.writes()), (vec![], 0));
}
