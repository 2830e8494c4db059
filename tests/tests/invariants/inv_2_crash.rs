//! INV-2: Killed after any single request, a restart converges to the same end state. All scenarios: `crash.rs`.

use ccm_tests::cloud_under_test::simulated_cloud;
use ccm_tests::crash::{SCENARIOS, at_every_request};
use ccm_tests::gate::{Passed, Side};
use http::Method;

use crate::scene;

#[test]
fn inv_2_killed_at_any_request_of_a_services_life_nothing_is_leaked_or_doubled() {
    let names = ["a Service is created", "a Service is deleted"];
    let scenarios: Vec<_> = SCENARIOS.into_iter().filter(|scenario| names.contains(&scenario.name)).collect();
    assert_eq!(scenarios.len(), names.len());
    assert!(at_every_request(simulated_cloud, &scenarios).crash_points() >= 40);
}

#[tokio::test(start_paused = true)]
async fn inv_2_the_finalizer_comes_before_the_first_cloud_write_and_goes_after_the_last() {
    let (stage, _) = scene::stage();
    scene::join(&stage, 1..=2).await;
    let _program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    let before = stage.gate.count();
    stage.user.create_service("web", &[80]).await;
    scene::settle(&stage).await;
    stage.user.delete_service("web").await;
    scene::settle(&stage).await;
    let writes: Vec<_> = stage.gate.passed().into_iter().skip(before).filter(Passed::is_mutation).collect();
    let at = |side, method: &Method| writes.iter().position(|it| it.side == side && it.method == method);
    assert_eq!(at(Side::Kubernetes, &Method::PATCH), Some(0), "{writes:#?}");
    assert!(at(Side::Cloud, &Method::POST) > Some(0), "{writes:#?}");
    let removed = writes.iter().rposition(|it| it.side == Side::Kubernetes);
    assert!(removed > at(Side::Cloud, &Method::DELETE), "{writes:#?}");
    assert_eq!(stage.violations(), [""; 0]);
}
