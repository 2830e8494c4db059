//! INV-9: an API server that forgets Services or Nodes.

use std::time::Duration;

use crate::scene;
use crate::stage::Stage;

/// The delay of the guard, as it is by default.
const DELAY: Duration = Duration::from_secs(300);
/// What follows it in this time.
const MARGIN: Duration = Duration::from_secs(90);

/// INV-9: a Service that the API server forgot keeps its load balancer until its absence is confirmed, and Nodes that it
/// forgot stay targets as long. The stage is empty.
///
/// # Panics
/// If it does not hold.
pub async fn inv_9(stage: &Stage) {
    scene::join(stage, 1..=3).await;
    for number in 1..=6 {
        stage.user.create_service(&format!("service-{number}"), &[80]).await;
    }
    let program = stage.start().await.expect("a start");
    scene::settle(stage).await;
    let (balancers, mutations) = (stage.cloud.load_balancers(), stage.gate.mutations());
    assert_eq!(balancers.len(), 6);
    let expect_unchanged = |when: &str| {
        assert_eq!(stage.cloud.load_balancers(), balancers, "{when}");
        assert_eq!(stage.gate.mutations(), mutations, "{when}: {:#?}", stage.gate.last(10));
    };

    // All of them, for a day: an expired watch, an empty list and 404s.
    stage.api.forget("services");
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    expect_unchanged("while all Services are forgotten");
    stage.api.remember("services");
    tokio::time::sleep(DELAY + MARGIN).await;
    expect_unchanged("when they are shown again");

    // The Nodes, for less than the delay.
    stage.api.forget("nodes");
    tokio::time::sleep(DELAY - MARGIN).await;
    expect_unchanged("while all Nodes are forgotten");
    stage.api.remember("nodes");
    tokio::time::sleep(DELAY + MARGIN).await;
    expect_unchanged("when they are shown again, too");

    // One Service, for good.
    assert!(stage.api.remove("services", Some("default"), "service-6"));
    tokio::time::sleep(DELAY - MARGIN).await;
    expect_unchanged("while nothing confirms that the Service is gone");
    tokio::time::sleep(2 * MARGIN).await;
    scene::settle(stage).await;
    assert_eq!(stage.cloud.load_balancers().len(), 5, "its absence was confirmed");
    assert_eq!(stage.violations(), [""; 0]);
    program.stop().await;
}
