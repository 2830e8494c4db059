//! INV-9: A Service that the API server forgot keeps its load balancer until its absence is confirmed.

use std::time::Duration;

use ccm_tests::proofs::inv_9;

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_9_a_service_that_the_api_server_forgot_keeps_its_load_balancer() {
    inv_9(&scene::stage_with_routes().0).await;
}

#[tokio::test(start_paused = true)]
async fn inv_9_another_clusters_api_server_changes_nothing() {
    let (stage, _) = scene::stage_with_routes();
    scene::join(&stage, 1..=3).await;
    for name in ["web", "mail"] {
        stage.user.create_service(name, &[80]).await;
    }
    let _program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    let (balancers, mutations) = (stage.cloud.load_balancers(), stage.gate.mutations());
    // The storage is another cluster's: its namespaces, its Services, its Nodes.
    let mut namespace = stage.api.get("namespaces", None, "kube-system").unwrap();
    namespace["metadata"]["uid"] = "another-cluster".into();
    stage.api.seed(namespace).unwrap();
    for kind in ["services", "nodes"] {
        stage.api.forget(kind);
    }
    stage.user.create_service("theirs", &[443]).await;
    scene::join(&stage, 7..=8).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(stage.cloud.load_balancers(), balancers);
    assert_eq!(stage.gate.mutations(), mutations, "{:#?}", stage.gate.last(10));
}

#[tokio::test(start_paused = true)]
async fn inv_9_nodes_of_an_empty_list_stay_targets_for_five_minutes() {
    let (stage, cloud) = scene::stage_with_routes();
    scene::join(&stage, 1..=3).await;
    stage.user.create_service("web", &[80]).await;
    let program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    let routes = cloud.routes().len();
    let targets = || stage.cloud.load_balancers().iter().map(|it| it.targets.len()).collect::<Vec<_>>();
    let reasons = || ccm_tests::scene::event_reasons(&stage);

    stage.api.forget("nodes");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((targets(), cloud.routes().len()), (vec![3], routes), "an empty list is not believed");
    assert!(reasons().contains(&"worker-2 NodeVanished".to_owned()), "{:?}", reasons());
    stage.user.create_service("mail", &[25]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(targets(), [3, 3], "a new Service gets the held Nodes");

    stage.api.remember("nodes");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(reasons().contains(&"worker-2 VanishedNodeReturned".to_owned()), "{:?}", reasons());
    stage.user.delete_node("worker-3").await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(targets(), [2, 2], "a Node that is deleted goes at once");

    stage.api.forget("nodes");
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(targets(), [2, 2]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(targets(), [0, 0], "a second list confirmed it");
    assert!(reasons().contains(&"worker-2 VanishedNodeGone".to_owned()), "{:?}", reasons());
    program.stop().await;
}
