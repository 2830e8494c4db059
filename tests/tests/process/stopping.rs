//! From work to the end.
//!
//! Rules: APP-65, APP-67, APP-162.

use manager::{Failure, LostLease};

use crate::world::{World, lease, seconds};

#[tokio::test(start_paused = true)]
async fn a_stop_lets_work_end_shows_that_it_is_not_ready_and_then_releases_the_lease() {
    let world = World::new();
    world.slow_down(3_000);
    let process = world.start(&[]).await;
    seconds(1).await;
    assert!(world.is_initialised());
    let before = tokio::time::Instant::now();
    process.stop.cancel();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let checks = process.checks("readyz").await;
    assert!(
        checks.contains(&("shutdown".to_owned(), false)),
        "{checks:?}"
    );
    assert!(
        process.get("/healthz").await.0.is_success(),
        "it is alive all the same"
    );
    assert!(!world.holder().is_empty(), "not before the work has ended");
    process.end().await.unwrap();
    assert!(before.elapsed().as_secs() <= 10, "{:?}", before.elapsed());
    assert_eq!(world.holder(), "", "released");
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_left_after_ten_seconds() {
    let world = World::new();
    let process = world.start_with(&[], true).await;
    seconds(5).await;
    let before = tokio::time::Instant::now();
    process.end().await.unwrap();
    assert!(before.elapsed().as_secs() <= 11, "{:?}", before.elapsed());
    // The cloud may still carry out the change: the next leader waits until the Lease expires (INV-6).
    assert!(!world.holder().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_gate_keeps_the_lease_at_a_stop() {
    let world = World::new();
    let gate = "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=false";
    let process = world.start(&[gate]).await;
    seconds(3).await;
    let holder = world.holder();
    assert!(!holder.is_empty());
    process.end().await.unwrap();
    assert_eq!(world.holder(), holder);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_takes_ends_the_process_with_1_and_nothing_is_written_any_more()
{
    let world = World::new();
    let process = world.start(&[]).await;
    seconds(5).await;
    world.api.seed(lease("somebody-else")).unwrap();
    let failure = process.task.await.unwrap().unwrap_err();
    assert!(
        matches!(failure, Failure::LostLease(LostLease::Main)),
        "{failure}"
    );
    assert_eq!(
        (failure.code(), failure.to_string().as_str()),
        (1, "leaderelection lost")
    );
    // There is work, and no leader.
    world.cloud.create_machines("late-", 1);
    let node = serde_json::json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "late-1"},
        "spec": {"taints": [ccm_tests::in_process::start_up_taint()]},
    });
    world.api.seed(node).unwrap();
    seconds(60).await;
    assert!(world.api.get("nodes", None, "late-1").unwrap()["spec"]["providerID"].is_null());
    assert_eq!(world.holder(), "somebody-else");
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_standing_by_ends_at_once() {
    let world = World::new();
    world.hold_the_lease();
    let process = world.start(&[]).await;
    seconds(3).await;
    let before = tokio::time::Instant::now();
    process.end().await.unwrap();
    assert!(before.elapsed().as_secs() < 1, "{:?}", before.elapsed());
}
