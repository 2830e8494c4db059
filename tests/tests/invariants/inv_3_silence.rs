//! INV-3: In a steady state there is no mutating request, to the cloud or to Kubernetes.

use crate::scene;

#[tokio::test(start_paused = true)]
async fn inv_3_a_steady_cluster_hears_nothing_nor_does_a_restart_or_a_flapping_node() {
    ccm_tests::proofs::inv_3(&scene::stage_with_routes().0).await;
}
