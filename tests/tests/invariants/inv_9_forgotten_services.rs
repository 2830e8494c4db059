//! INV-9: A Service that the API server forgot keeps its load balancer until its absence is confirmed.

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
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(stage.cloud.load_balancers(), balancers);
    assert_eq!(stage.gate.mutations(), mutations, "{:#?}", stage.gate.last(10));
}
