//! INV-4: After leadership is lost no mutating request leaves the process.
//!
//! The controllers are in the middle of their work and are not stopped: only the fence prevents their writes.

use std::sync::Arc;
use std::time::Duration;

use ccm_conformance::Harness;
use kube::Client;
use runtime::client::{Limits, NoRequestMetrics, wrap};
use runtime::clock::SystemClock;
use runtime::election::{ElectionConfig, Elector, Leadership, NoElectionMetrics};
use runtime::events::EventRecorder;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::scene;

/// Returns a harness whose program needs the Lease, and the handle of its leadership. The election has its own client
/// of the API.
fn harness() -> (Harness, Leadership) {
    let (mut harness, _) = scene::harness();
    let config = ElectionConfig::new("kube-system", "cloud-controller-manager");
    let limits = Limits {
        request_timeout: Some(Duration::from_secs(5)),
        single_attempt: true,
        ..Limits::default()
    };
    let below = Client::new(harness.api.service(), "default");
    let client = wrap(
        &below,
        "embedded",
        "election",
        &limits,
        Arc::new(NoRequestMetrics),
    );
    let (events, _) = EventRecorder::to_memory("cloud-controller-manager", Arc::new(SystemClock));
    let elector = Elector::new(client, config, events, Arc::new(NoElectionMetrics));
    let leadership = elector.leadership();
    harness.fence = leadership.fence();
    tokio::spawn(elector.run(CancellationToken::new()));
    (harness, leadership)
}

/// Gives every controller something to change, all the time.
async fn make_work(harness: &Harness, round: usize) {
    harness.join(100 + round..=100 + round).await;
    harness
        .user
        .create_service(&format!("web-{round}"), &[80])
        .await;
    if round > 2 {
        harness
            .user
            .delete_service(&format!("web-{}", round - 2))
            .await;
        harness.cloud.terminate(&format!("worker-{}", 98 + round));
        harness
            .user
            .set_ready(&format!("worker-{}", 98 + round), false)
            .await;
    }
}

/// Mutations that passed the gate so far.
async fn mutations_during(
    harness: &Harness,
    time: Duration,
    rounds: std::ops::Range<usize>,
) -> usize {
    let before = harness.injector.mutations();
    for round in rounds {
        make_work(harness, round).await;
        tokio::time::sleep(time / 8).await;
    }
    tokio::time::sleep(time).await;
    harness.injector.mutations() - before
}

#[tokio::test(start_paused = true)]
async fn inv_4_a_leader_that_was_deposed_changes_nothing_any_more() {
    let (harness, leadership) = harness();
    leadership.acquired().await;
    harness.join(1..=5).await;
    let _program = harness.start().await.unwrap();
    assert!(
        mutations_during(&harness, Duration::from_secs(120), 0..6).await > 40,
        "it works"
    );

    // In the middle of more of it.
    for round in 6..9 {
        make_work(&harness, round).await;
    }
    let mut lease = harness
        .api
        .get("leases", Some("kube-system"), "cloud-controller-manager")
        .unwrap();
    lease["spec"]["holderIdentity"] = json!("another");
    harness.api.seed(lease).unwrap();
    leadership.lost().await;
    let passed = mutations_during(&harness, Duration::from_secs(1200), 9..20).await;
    assert_eq!(passed, 0, "{:#?}", harness.injector.last(10));
}

#[tokio::test(start_paused = true)]
async fn inv_4_a_leader_that_cannot_renew_its_lease_stops_writing_at_the_deadline() {
    let (harness, leadership) = harness();
    leadership.acquired().await;
    harness.join(1..=5).await;
    let _program = harness.start().await.unwrap();
    harness.settle().await;
    let trouble = embedded_apiserver::Action::Hang;
    harness.api.faults().add(
        embedded_apiserver::Matcher::any().resource("leases"),
        trouble,
    );
    let fence = leadership.fence();
    let began = harness.injector.mutations();
    let mut round = 20;
    while fence.is_open() {
        make_work(&harness, round).await;
        round += 1;
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if !fence.is_open() {
                break;
            }
        }
    }
    let before = harness.injector.mutations();
    let passed = mutations_during(&harness, Duration::from_secs(1200), round..round + 10).await;
    assert_eq!(
        (harness.injector.mutations() - before, passed),
        (0, 0),
        "{:#?}",
        harness.injector.last(10)
    );
    assert!(
        before - began > 20 && round > 30,
        "it wrote until then: {began}, {before}, {round}"
    );
}
