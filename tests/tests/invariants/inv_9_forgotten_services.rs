//! INV-9: A Service that the API server forgot keeps its load balancer until its absence is confirmed.

use std::time::Duration;

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_9_another_clusters_api_server_changes_nothing() {
    let (harness, _) = scene::harness();
    harness.join(1..=3).await;
    for name in ["web", "mail"] {
        harness.user.create_service(name, &[80]).await;
    }
    let _program = harness.start().await.unwrap();
    harness.settle().await;
    let balancers = harness.cloud.load_balancers();
    let mutations = harness.injector.mutations();
    // The storage is another cluster's: its namespaces, its Services, its Nodes.
    let mut namespace = harness.api.get("namespaces", None, "kube-system").unwrap();
    namespace["metadata"]["uid"] = "another-cluster".into();
    harness.api.seed(namespace).unwrap();
    for kind in ["services", "nodes"] {
        harness.api.lose_storage(kind);
    }
    harness.user.create_service("theirs", &[443]).await;
    harness.join(7..=8).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(harness.cloud.load_balancers(), balancers);
    assert_eq!(
        harness.injector.mutations(),
        mutations,
        "{:#?}",
        harness.injector.last(10)
    );
}

#[tokio::test(start_paused = true)]
async fn inv_9_nodes_of_an_empty_list_stay_targets_for_five_minutes() {
    let (harness, cloud) = scene::harness();
    harness.join(1..=3).await;
    harness.user.create_service("web", &[80]).await;
    let program = harness.start().await.unwrap();
    harness.settle().await;
    let routes = cloud.routes().len();
    let targets = || {
        harness
            .cloud
            .load_balancers()
            .iter()
            .map(|facts| facts.targets.len())
            .collect::<Vec<_>>()
    };
    let reasons = || harness.event_reasons();

    harness.api.lose_storage("nodes");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        (targets(), cloud.routes().len()),
        (vec![3], routes),
        "an empty list is not believed"
    );
    assert!(
        reasons().contains(&"worker-2 NodeVanished".to_owned()),
        "{:?}",
        reasons()
    );
    harness.user.create_service("mail", &[25]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(targets(), [3, 3], "a new Service gets the held Nodes");

    harness.api.restore_storage("nodes");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(
        reasons().contains(&"worker-2 VanishedNodeReturned".to_owned()),
        "{:?}",
        reasons()
    );
    harness.user.delete_node("worker-3").await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(targets(), [2, 2], "a Node that is deleted goes at once");

    harness.api.lose_storage("nodes");
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(targets(), [2, 2]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(targets(), [0, 0], "a second list confirmed it");
    assert!(
        reasons().contains(&"worker-2 VanishedNodeGone".to_owned()),
        "{:?}",
        reasons()
    );
    program.stop().await;
}
