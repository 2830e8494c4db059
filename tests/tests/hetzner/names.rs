//! Names of load balancers are the project's, not a Service's: another one may have them.

use std::time::Duration;

use ccm_conformance::Harness;
use ccm_tests::profiles::HetznerCloud;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn inv_7_a_name_that_another_service_has_gives_no_right_to_its_load_balancer() {
    let cloud = HetznerCloud::default();
    let harness = Harness::with_routes(&cloud);
    let fake = &cloud.fake;
    harness.join(1..=3).await;
    let name = json!({"metadata": {"annotations": {"load-balancer.hetzner.cloud/name": "shared"}}});
    harness.user.create_service("owner", &[80]).await;
    harness.user.patch_service("owner", &name).await;
    let program = harness.start().await.unwrap();
    harness.settle().await;
    let before = fake.load_balancer("shared");
    assert!(before.is_some());

    harness.user.create_service("thief", &[80]).await;
    harness.user.patch_service("thief", &name).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(fake.load_balancer("shared"), before);
    let warnings = harness.warnings(50);
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("thief SyncLoadBalancerFailed")),
        "{warnings:?}"
    );
    harness.user.delete_service("thief").await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    program.stop().await;
    assert_eq!(fake.load_balancer("shared"), before);
}
