//! Nodes come, go and flap.

use std::time::Duration;

use cloud_provider::Error;
use serde_json::json;

use crate::cloud::Behaviour;
use crate::world::{World, world};

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

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_is_one_change_of_each_load_balancer() {
    let world = with_services(10).await;
    // As it happens: the Node registers, then it gets its provider id.
    world.put_node("worker-3", "");
    tokio::time::sleep(Duration::from_millis(400)).await;
    world.user.patch_node("worker-3", &json!({"spec": {"providerID": "lbs://worker-3"}})).await;
    world.settle().await;
    assert_eq!((world.cloud.changes(), world.cloud.calls().len()), (10, 10), "{:?}", world.cloud.calls());
    for balancer in world.cloud.balancers().values() {
        assert_eq!(balancer.targets.last().unwrap(), "worker-3=lbs://worker-3");
    }
    assert_eq!(world.take_events("web-3"), ["UpdatedLoadBalancer Updated load balancer with new hosts"]);
    assert_eq!(world.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flapping_node_moves_nothing() {
    let world = with_services(5).await;
    for _ in 0..10 {
        for is_ready in [false, true] {
            world.user.set_ready("worker-1", is_ready).await;
            let taint = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
            let taints = if is_ready { json!([]) } else { taint };
            world.user.patch_node("worker-1", &json!({"spec": {"taints": taints}})).await;
            tokio::time::sleep(Duration::from_secs(7)).await;
        }
    }
    assert_eq!((world.cloud.calls().len(), world.writes(), world.all_events()), (0, 0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_excluded_or_deleted_leaves_all_load_balancers() {
    let world = with_services(3).await;
    let label = json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}});
    world.user.patch_node("worker-1", &label).await;
    world.settle().await;
    assert!(world.cloud.balancers().values().all(|it| it.targets == ["worker-2=lbs://worker-2"]));
    world.user.delete_node("worker-2").await;
    world.settle().await;
    assert!(world.cloud.balancers().values().all(|it| it.targets.is_empty()));
    let told = world.take_events("web-0");
    assert_eq!(told[1], "UnAvailableLoadBalancer There are no available nodes for LoadBalancer", "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_move_of_targets_is_made_good_by_the_services_own_sync() {
    let world = with_services(2).await;
    world.cloud.behave("web-0", "update", Behaviour::Fails(Error::other("boom")));
    world.put_node("worker-3", "lbs://worker-3");
    world.settle().await;
    assert_eq!((world.cloud.count("update web-0"), world.cloud.count("ensure web-0")), (1, 1));
    assert!(world.cloud.balancers().values().all(|it| it.targets.len() == 3));
    let told = world.take_events("web-0");
    assert_eq!(
        told[0],
        "UpdateLoadBalancerFailed Error updating load balancer with new hosts [worker-1 worker-2 worker-3] \
         [node names limited, total number of nodes: 3], error: boom"
    );
}

#[tokio::test(start_paused = true)]
async fn many_nodes_that_join_together_are_one_change() {
    let world = with_services(3).await;
    for n in 0..50 {
        world.put_node(&format!("new-{n}"), &format!("lbs://new-{n}"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.settle().await;
    assert_eq!(world.cloud.changes(), 3);
    assert!(world.cloud.balancers().values().all(|it| it.targets.len() == 52));
}
