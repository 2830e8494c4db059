//! Nodes come, go and flap.
//!
//! Rules: SVC-19, SVC-67, SVC-68, SVC-70, P-5, D-121, D-188.

use std::time::Duration;

use cloud_provider::Error;
use controllers::Options;
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
    // In the usual order: the Node registers, then it gets its provider ID.
    world.put_node("worker-3", "");
    tokio::time::sleep(Duration::from_millis(400)).await;
    world
        .user
        .patch_node(
            "worker-3",
            &json!({"spec": {"providerID": "lbs://worker-3"}}),
        )
        .await;
    world.settle().await;
    assert_eq!(
        (world.cloud.changes(), world.cloud.calls().len()),
        (10, 10),
        "{:?}",
        world.cloud.calls()
    );
    for balancer in world.cloud.balancers().values() {
        assert_eq!(balancer.targets.last().unwrap(), "worker-3=lbs://worker-3");
    }
    assert_eq!(
        world.take_events("web-3"),
        ["UpdatedLoadBalancer Updated load balancer with new hosts"]
    );
    assert_eq!(world.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_excluded_or_deleted_leaves_all_load_balancers() {
    let world = with_services(3).await;
    let label = json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}});
    world.user.patch_node("worker-1", &label).await;
    world.settle().await;
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .all(|load_balancer| load_balancer.targets == ["worker-2=lbs://worker-2"])
    );
    world.user.delete_node("worker-2").await;
    world.settle().await;
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .all(|load_balancer| load_balancer.targets.is_empty())
    );
    let told = world.take_events("web-0");
    assert_eq!(
        told[1], "UnAvailableLoadBalancer There are no available nodes for LoadBalancer",
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn service_whose_nodes_the_cloud_cannot_tell_says_what_to_do() {
    const NONE: &str = "UnAvailableLoadBalancer There are no available nodes for LoadBalancer: ";
    for (ids, parts) in [
        (
            ["", ""],
            vec![
                "2 of 2 Nodes have no provider ID",
                "--cloud-provider=external",
                "--adopt-nodes",
            ],
        ),
        (
            ["k3s://a", "k3s://b"],
            vec![
                "2 of 2 Nodes have the provider ID of another cloud",
                "--disable-cloud-controller",
            ],
        ),
        (["lbs://a", "k3s://b"], vec![]),
    ] {
        let mut world = World::stopped(Options::default());
        ids.iter()
            .zip(["worker-1", "worker-2"])
            .for_each(|(id, name)| world.put_node(name, id));
        world.start().await;
        world.create("web").await;
        world.settle().await;
        let told = world.take_events("web");
        let none: Vec<_> = told
            .iter()
            .filter(|event| event.starts_with(NONE))
            .collect();
        assert_eq!(
            none.len(),
            usize::from(!parts.is_empty()),
            "{ids:?}: {told:?}"
        );
        assert!(
            parts.iter().all(|part| none[0].contains(part)),
            "{ids:?}: {none:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn service_whose_last_known_node_is_replaced_by_an_unknown_one_says_so() {
    let world = with_services(1).await;
    world.user.delete_node("worker-1").await;
    world.settle().await;
    world.take_events("web-0");
    world.put_node("worker-3", "");
    world.user.delete_node("worker-2").await;
    world.settle().await;
    let told = world.take_events("web-0");
    assert!(
        told.iter()
            .any(|event| event.contains("1 of 1 Nodes have no provider ID")),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_move_of_targets_is_made_good_by_the_services_own_sync() {
    let world = with_services(2).await;
    world
        .cloud
        .behave("web-0", "update", Behaviour::Fails(Error::other("boom")));
    world.put_node("worker-3", "lbs://worker-3");
    world.settle().await;
    assert_eq!(
        (
            world.cloud.count("update web-0"),
            world.cloud.count("ensure web-0")
        ),
        (1, 1)
    );
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .all(|load_balancer| load_balancer.targets.len() == 3)
    );
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
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .all(|load_balancer| load_balancer.targets.len() == 52)
    );
}

#[tokio::test(start_paused = true)]
async fn labels_of_nodes_concern_only_services_that_select_by_them() {
    let world = world().await;
    for n in 0..4 {
        world.create(&format!("web-{n}")).await;
    }
    world.cloud.select("web-1");
    world.cloud.select("web-2");
    world.settle().await;
    // A change of each Service causes a sync, after which the Service is known to select Nodes.
    for name in ["web-1", "web-2"] {
        world
            .user
            .patch_service(
                name,
                &json!({"metadata": {"annotations": {"selector": "in=yes"}}}),
            )
            .await;
    }
    world.settle().await;
    world.clear();

    let label = |value: &str| json!({"metadata": {"labels": {"in": value}}});
    world.user.patch_node("worker-1", &label("yes")).await;
    world.settle().await;
    let calls: Vec<_> = world
        .cloud
        .calls()
        .into_iter()
        .map(|call| (call.what, call.changed))
        .collect();
    assert_eq!(
        calls,
        [
            ("update web-1".to_owned(), true),
            ("update web-2".to_owned(), true)
        ]
    );
    assert_eq!(
        world.take_events("web-1"),
        ["UpdatedLoadBalancer Updated load balancer with new hosts"]
    );
    let targets = |world: &World| -> Vec<_> {
        world
            .cloud
            .balancers()
            .values()
            .map(|load_balancer| load_balancer.targets.len())
            .collect()
    };
    let mut sizes = targets(&world);
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 2, 2]);

    // A label that selects nothing: the providers are called, and nothing is reported.
    world.clear();
    world
        .user
        .patch_node(
            "worker-2",
            &json!({"metadata": {"labels": {"colour": "red"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(
        (
            world.cloud.calls().len(),
            world.cloud.changes(),
            world.all_events()
        ),
        (2, 0, vec![])
    );
    assert_eq!(world.writes(), 0);

    // A Node that is not a target may have any labels.
    let exclude = json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}});
    world.user.patch_node("worker-2", &exclude).await;
    world.settle().await;
    world.clear();
    world.user.patch_node("worker-2", &label("yes")).await;
    world.settle().await;
    assert_eq!(world.cloud.calls().len(), 0, "{:?}", world.cloud.calls());
}

#[tokio::test(start_paused = true)]
async fn labels_cost_nothing_where_nobody_selects_by_them() {
    let world = with_services(3).await;
    for value in ["a", "b", "c"] {
        world
            .user
            .patch_node("worker-1", &json!({"metadata": {"labels": {"in": value}}}))
            .await;
        world.settle().await;
    }
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
async fn the_first_provider_id_of_a_node_brings_it_into_every_load_balancer_however_late_it_comes()
{
    let world = with_services(3).await;
    world.put_node("worker-3", "");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = world.cloud.calls().len();
    world
        .user
        .patch_node(
            "worker-3",
            &json!({"spec": {"providerID": "lbs://worker-3"}}),
        )
        .await;
    world.settle().await;
    assert_eq!(world.cloud.calls().len(), before + 3);
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .all(|load_balancer| load_balancer.targets.last().unwrap() == "worker-3=lbs://worker-3")
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_id_that_comes_while_the_service_is_synced_is_not_missed() {
    let world = world().await;
    world.put_node("worker-3", "");
    world
        .cloud
        .behave("web-0", "ensure", Behaviour::Takes(Duration::from_secs(20)));
    world.create("web-0").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world
        .user
        .patch_node(
            "worker-3",
            &json!({"spec": {"providerID": "lbs://worker-3"}}),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        world.cloud.only().targets.last().unwrap(),
        "worker-3=lbs://worker-3"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_begins_to_select_is_no_reason_for_another_call() {
    let world = with_services(1).await;
    world.cloud.select("web-0");
    world
        .user
        .patch_service(
            "web-0",
            &json!({"metadata": {"annotations": {"selector": "in=yes"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(
        (
            world.cloud.count("ensure web-0"),
            world.cloud.count("update web-0")
        ),
        (1, 0)
    );
    assert!(world.cloud.only().targets.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_no_load_balancer_takes_is_no_news_of_any() {
    let world = with_services(1).await;
    world.cloud.select("web-0");
    world
        .user
        .patch_service(
            "web-0",
            &json!({"metadata": {"annotations": {"selector": "in=yes"}}}),
        )
        .await;
    world.settle().await;
    world.clear();
    world.put_node("worker-3", "lbs://worker-3");
    world.settle().await;
    assert_eq!(
        (
            world.cloud.count("update web-0"),
            world.cloud.changes(),
            world.all_events()
        ),
        (1, 0, vec![])
    );
}
