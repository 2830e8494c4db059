//! Requests and writes of an undisturbed election.
//!
//! Rules: APP-61, APP-62, APP-66.

use std::time::Duration;

use embedded_apiserver::ApiServer;
use runtime::election::ElectionOutcome;
use serde_json::json;
use tokio::time::sleep;

use crate::candidates::{Candidate, edit, holder, lease, requests};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn the_first_one_creates_the_lease_and_renews_it_without_reading_it() {
    let api = ApiServer::new();
    let candidate = Candidate::new(&api, "a");
    assert!(!candidate.leadership.fence().is_open());
    candidate.leadership.acquired().await;
    assert!(candidate.leadership.fence().is_open());
    let first = lease(&api)["spec"].clone();
    assert_eq!(
        (
            &first["holderIdentity"],
            &first["leaseDurationSeconds"],
            &first["leaseTransitions"]
        ),
        (&json!("a"), &json!(15), &json!(0))
    );
    assert!(
        first["acquireTime"] == first["renewTime"]
            && first["renewTime"].as_str().unwrap().len() == 27
    );

    sleep(seconds(60)).await;
    let asked = requests(&api, "a");
    assert_eq!(
        asked[..4],
        ["get 404", "create 201", "watch 200", "update 200"]
    );
    let renewals = asked.iter().filter(|text| *text == "update 200").count();
    assert!(
        (28..=30).contains(&renewals)
            && asked.iter().filter(|text| text.starts_with("get")).count() == 1,
        "{asked:?}"
    );
    let now = lease(&api)["spec"].clone();
    assert!(now["acquireTime"] == first["acquireTime"] && now["renewTime"] != first["renewTime"]);
    assert_eq!(candidate.leadership.health(), Ok(()));

    assert_eq!(
        candidate.events(),
        ["Lease kube-system/ccm Normal LeaderElection a became leader"]
    );
    assert_eq!(candidate.metrics.all(), ["ccm false", "ccm true"]);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_gives_the_lease_back_and_keeps_everything_else_in_it() {
    let api = ApiServer::new();
    let first = Candidate::new(&api, "a");
    first.leadership.acquired().await;
    edit(&api, |lease| {
        lease["metadata"]["labels"] = json!({"team": "x"});
        lease["metadata"]["annotations"] = json!({"note": "y"});
        lease["spec"]["strategy"] = json!("OldestEmulationVersion");
        lease["spec"]["preferredHolder"] = json!("z");
    });
    let second = Candidate::new(&api, "b");
    sleep(seconds(10)).await;
    let events = first.events();
    let metrics = first.metrics.clone();
    let fence = first.leadership.fence();
    assert_eq!(
        (first.stop().await, fence.is_open(), events.len()),
        (ElectionOutcome::Released, false, 1)
    );
    assert_eq!(metrics.all().last().unwrap(), "ccm false");
    // The other has taken it since.
    let released = api
        .requests()
        .writes()
        .iter()
        .rfind(|request| request.user_agent == "a")
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        (
            &released["spec"]["holderIdentity"],
            &released["spec"]["leaseDurationSeconds"]
        ),
        (&json!(""), &json!(1)),
        "{released}"
    );
    second.leadership.acquired().await;
    let taken = lease(&api);
    assert_eq!(
        (
            &taken["spec"]["holderIdentity"],
            &taken["spec"]["leaseTransitions"]
        ),
        (&json!("b"), &json!(1))
    );
    for lease in [released, taken] {
        assert_eq!(lease["metadata"]["labels"], json!({"team": "x"}));
        assert_eq!(lease["metadata"]["annotations"], json!({"note": "y"}));
        assert_eq!(lease["spec"]["strategy"], json!("OldestEmulationVersion"));
        assert_eq!(lease["spec"]["preferredHolder"], json!("z"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_where_that_is_wanted_and_a_standby_leaves_it_alone() {
    let api = ApiServer::new();
    let mut config = crate::candidates::config("a");
    config.release_on_stop = false;
    let first = Candidate::with(
        &api,
        config,
        std::sync::Arc::new(runtime::clock::SystemClock),
    );
    first.leadership.acquired().await;
    let standby = Candidate::new(&api, "b");
    sleep(seconds(10)).await;
    assert!(
        !standby.leadership.fence().is_open()
            && standby.leadership.lease_was_seen_within(seconds(5))
    );
    assert_eq!(standby.stop().await, ElectionOutcome::Stopped);
    assert_eq!(first.stop().await, ElectionOutcome::Stopped);
    assert_eq!(holder(&api), "a");
    assert!(
        !requests(&api, "b")
            .iter()
            .any(|request| request.starts_with("update")),
        "{:?}",
        requests(&api, "b")
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_waits_without_a_holder_is_taken_at_once() {
    let api = ApiServer::new();
    edit(
        &api,
        |lease| *lease = json!({"metadata": {"name": "ccm", "namespace": "kube-system"}}),
    );
    let candidate = Candidate::new(&api, "a");
    assert!(
        tokio::time::timeout(seconds(1), candidate.leadership.acquired())
            .await
            .is_ok()
    );
    assert_eq!(lease(&api)["spec"]["leaseTransitions"], json!(1));
}
