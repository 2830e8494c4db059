//! A slow cloud delays no other Service: a worker may have any number of load balancers in progress (INV-6).

use std::time::Duration;

use serde_json::json;

use crate::cloud::Behaviour;
use crate::world::{World, world_with};

const MINUTE: Duration = Duration::from_secs(60);

/// Creates a harness with one worker, and Services whose load balancers exist.
async fn with_one_worker(services: usize) -> World {
    let world = world_with(|options| options.concurrent_syncs = 1).await;
    for n in 0..services {
        world.create(&format!("web-{n}")).await;
    }
    world.settle().await;
    assert_eq!(world.cloud.balancers().len(), services);
    world.clear();
    world
}

fn all_wait(world: &World, services: usize, method: &'static str) {
    for n in 0..services {
        world
            .cloud
            .behave(&format!("web-{n}"), method, Behaviour::Waits(MINUTE));
    }
}

#[tokio::test(start_paused = true)]
async fn one_worker_has_fifty_load_balancers_in_the_making_at_the_same_time() {
    let world = with_one_worker(0).await;
    all_wait(&world, 50, "ensure");
    for n in 0..50 {
        world.create(&format!("web-{n}")).await;
    }
    tokio::time::sleep(MINUTE / 2).await;
    assert_eq!(
        (world.cloud.count("ensure"), world.cloud.balancers().len()),
        (50, 0)
    );
    tokio::time::sleep(MINUTE / 2 + Duration::from_secs(2)).await;
    for n in 0..50 {
        let service = world.service(&format!("web-{n}"));
        assert!(
            service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string(),
            "{service}"
        );
    }
    assert_eq!(world.cloud.count("ensure"), 50, "each once");
}

#[tokio::test(start_paused = true)]
async fn one_worker_moves_the_targets_of_fifty_slow_load_balancers_in_a_minute() {
    let world = with_one_worker(50).await;
    all_wait(&world, 50, "update");
    world.put_node("worker-3", "lbs://worker-3");
    tokio::time::sleep(MINUTE + Duration::from_secs(5)).await;
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .all(|load_balancer| load_balancer.targets.len() == 3)
    );
    assert_eq!(world.cloud.count("update"), 50);
}

#[tokio::test(start_paused = true)]
async fn one_worker_removes_fifty_slow_load_balancers_in_a_minute() {
    let world = with_one_worker(50).await;
    all_wait(&world, 50, "delete");
    for n in 0..50 {
        if n % 2 == 0 {
            world.user.delete_service(&format!("web-{n}")).await;
        } else {
            world
                .user
                .patch_service(&format!("web-{n}"), &json!({"spec": {"type": "ClusterIP"}}))
                .await;
        }
    }
    tokio::time::sleep(MINUTE + Duration::from_secs(5)).await;
    assert_eq!(
        (
            world.cloud.balancers().len(),
            world.api.list("services").len()
        ),
        (0, 25)
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_does_not_hold_up_the_end() {
    let mut world = with_one_worker(0).await;
    // More than may be in the making at one place: the others wait in the queue.
    all_wait(&world, 210, "ensure");
    for n in 0..210 {
        world.create(&format!("web-{n}")).await;
    }
    world.settle().await;
    assert_eq!(world.cloud.count("ensure"), 201);
    assert!(world.stop().await <= Duration::from_secs(6));
    assert_eq!(
        (world.cloud.count("ensure"), world.cloud.changes()),
        (201, 0),
        "nothing is begun or goes on after that"
    );
}
