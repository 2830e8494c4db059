//! Failures, and their effect on leadership.
//!
//! Rules: APP-64, APP-65, APP-70, D-161, D-162.

use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, ApiServer, Matcher};
use kube::Client;
use kube::client::Body;
use runtime::clock::ManualClock;
use runtime::election::ElectionOutcome;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::candidates::{Candidate, config, edit, holder, lease, requests, until};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn status(code: u16, reason: &str) -> Action {
    Action::Status {
        code,
        reason: reason.into(),
        message: "no".into(),
        retry_after_seconds: None,
    }
}

fn leases() -> Matcher {
    Matcher::any().resource("leases")
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_may_do_nothing_keeps_trying_for_ever() {
    for verb in ["get", "create", "write"] {
        let api = ApiServer::new();
        api.faults()
            .add(leases().verb(verb), status(403, "Forbidden"));
        let candidate = Candidate::new(&api, "a");
        sleep(seconds(3600)).await;
        assert!(!candidate.leadership.fence().is_open() && candidate.leadership.health().is_ok());
        let tried = requests(&api, "a")
            .iter()
            .filter(|request| request.ends_with("403"))
            .count();
        assert!(tried > 800, "{verb}: {tried}");
        assert_eq!(
            candidate.leadership.lease_was_seen_within(seconds(60)),
            verb != "get"
        );
        api.faults().clear();
        assert!(
            timeout(seconds(5), candidate.leadership.acquired())
                .await
                .is_ok(),
            "{verb}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_the_fence_closes_at_the_deadline_and_the_lease_is_lost() {
    for trouble in [
        Action::Refused,
        Action::Hang,
        Action::AnswerLost,
        status(500, ""),
        status(503, ""),
        status(429, ""),
    ] {
        let api = ApiServer::new();
        let mut leader = Candidate::new(&api, "a");
        leader.leadership.acquired().await;
        sleep(Duration::from_millis(20_500)).await;
        api.faults().add(leases(), trouble.clone());
        let fence = leader.leadership.fence();
        let leadership = leader.leadership.clone();
        let began = Instant::now();
        let watch = async {
            until("the fence closes", || !fence.is_open()).await;
            began.elapsed()
        };
        let lost = async {
            let reason = leadership.lost().await;
            assert!(!leadership.fence().is_open(), "first the fence");
            (began.elapsed(), reason)
        };
        let (closed, (lost, reason)) = tokio::join!(watch, lost);
        let range = Duration::from_millis(7_900)..Duration::from_millis(10_001);
        assert!(
            range.contains(&closed) && range.contains(&lost),
            "{trouble:?}: {closed:?} {lost:?}"
        );
        assert_eq!(reason, "it could not be renewed for 10s");
        assert_eq!(leader.outcome().await, ElectionOutcome::Lost(reason));
        api.faults().clear();
        sleep(seconds(60)).await;
        assert!(!fence.is_open(), "for good");
        assert_eq!(
            leader.events()[1..],
            ["Lease kube-system/ccm Normal LeaderElection a stopped leading"]
        );
        assert_eq!(leader.metrics.all().last().unwrap(), "ccm false");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nothing_but_slow_renewals() {
    let api = ApiServer::new();
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let rule = api.faults().add(leases(), Action::Refused);
    sleep(seconds(7)).await;
    api.faults().remove(rule);
    sleep(seconds(60)).await;
    assert!(leader.leadership.fence().is_open());
    let told = leader.metrics.all();
    assert_eq!(told[..3], ["ccm false", "ccm true", "ccm slow"]);
    assert_eq!(lease(&api)["spec"]["leaseTransitions"], json!(0));
}

#[tokio::test(start_paused = true)]
async fn clocks_that_jump_change_nothing() {
    let api = ApiServer::new();
    let clocks = [
        ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()),
        ManualClock::default(),
    ];
    let leader = Candidate::with(&api, config("a"), Arc::new(clocks[0].clone()));
    leader.leadership.acquired().await;
    let standby = Candidate::with(&api, config("b"), Arc::new(clocks[1].clone()));
    for jump in [
        "2027-01-01T00:00:00Z",
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00Z",
        "2099-01-01T00:00:00Z",
    ] {
        sleep(seconds(7)).await;
        clocks[0].set(jump.parse().unwrap());
        sleep(seconds(40)).await;
        clocks[1].set(jump.parse().unwrap());
        assert!(leader.leadership.fence().is_open() && !standby.leadership.fence().is_open());
    }
    assert_eq!(lease(&api)["spec"]["leaseTransitions"], json!(0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_person_deletes_is_made_anew_by_its_holder() {
    for may_watch in [true, false] {
        let api = ApiServer::new();
        if !may_watch {
            api.faults()
                .add(leases().verb("watch"), status(403, "Forbidden"));
        }
        let leader = Candidate::new(&api, "a");
        leader.leadership.acquired().await;
        let standby = Candidate::new(&api, "b");
        for _ in 0..5 {
            sleep(Duration::from_millis(30_700)).await;
            assert!(api.remove("leases", Some("kube-system"), "ccm"));
            let back = until("it is back", || !holder(&api).is_empty()).await;
            assert!(
                back < Duration::from_millis(if may_watch { 100 } else { 2_100 }),
                "{back:?}"
            );
            assert_eq!(holder(&api), "a");
        }
        assert!(leader.leadership.fence().is_open() && !standby.leadership.fence().is_open());
        assert_eq!(leader.events().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_when_its_holder_is_dead_is_taken_when_it_can_be() {
    let api = ApiServer::new();
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let standby = Candidate::new(&api, "b");
    sleep(seconds(20)).await;
    leader.kill().await;
    assert!(api.remove("leases", Some("kube-system"), "ccm"));
    let began = Instant::now();
    standby.leadership.acquired().await;
    let took = began.elapsed().as_secs_f64();
    assert!(
        (14.9..15.5).contains(&took),
        "nobody can know that it is dead: {took}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_deposed_by_a_person_loses_at_once() {
    let api = ApiServer::new();
    let mut leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    sleep(seconds(20)).await;
    edit(&api, |lease| lease["spec"]["holderIdentity"] = json!("z"));
    let lost = timeout(Duration::from_millis(100), leader.leadership.lost())
        .await
        .unwrap();
    assert_eq!(
        (lost.as_str(), leader.leadership.fence().is_open()),
        ("z holds it", false)
    );
    assert_eq!(leader.outcome().await, ElectionOutcome::Lost(lost));
    assert_eq!(holder(&api), "z");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_taken_its_election_has_lost() {
    let api = ApiServer::new();
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let leadership = leader.leadership.clone();
    leader.kill().await;
    assert!(!leadership.fence().is_open());
    assert_eq!(
        timeout(seconds(1), leadership.lost()).await.unwrap(),
        "the election was broken off"
    );
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_taken_its_election_knows_that_it_will_never_lead() {
    let api = ApiServer::new();
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let candidate = Candidate::new(&api, "b");
    sleep(seconds(1)).await;
    let leadership = candidate.leadership.clone();
    candidate.kill().await;
    assert_eq!(
        timeout(seconds(1), leadership.lost()).await.unwrap(),
        "the election was broken off"
    );
    assert!(leader.leadership.fence().is_open());
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_something_that_is_no_api_server_says_nothing_about_the_lease() {
    for answer in [
        json!([]),
        json!("ok"),
        json!({}),
        json!({"kind": "Status", "metadata": {}}),
    ] {
        let stranger = move |_: http::Request<Body>| {
            let answer = http::Response::new(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer) }
        };
        let candidate = Candidate::of(
            &Client::new(tower::service_fn(stranger), "default"),
            config("a"),
        );
        sleep(seconds(60)).await;
        assert!(
            !candidate.leadership.fence().is_open()
                && !candidate.leadership.lease_was_seen_within(seconds(60))
        );
        assert_eq!(candidate.stop().await, ElectionOutcome::Stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_api_server_is_silent_ends_in_bounded_time() {
    let api = ApiServer::new();
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    api.faults().add(leases(), Action::Hang);
    sleep(seconds(1)).await;
    let began = Instant::now();
    assert_eq!(leader.stop().await, ElectionOutcome::Stopped);
    assert!(
        began.elapsed() <= Duration::from_millis(5_010),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_acquisition_was_never_answered_is_given_back_too() {
    let api = ApiServer::new();
    api.faults()
        .add(leases().verb("create").times(1), Action::AnswerLost);
    // Without the watch, the process would not see its own name at once.
    api.faults()
        .add(leases().verb("watch"), status(403, "Forbidden"));
    let candidate = Candidate::new(&api, "a");
    until("it is written", || holder(&api) == "a").await;
    assert!(!candidate.leadership.fence().is_open(), "nobody said so");
    assert_eq!(candidate.stop().await, ElectionOutcome::Released);
    assert_eq!(holder(&api), "");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_frozen_finds_the_fence_closed_before_anything_else() {
    let api = ApiServer::new();
    let mut leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let standby = Candidate::new(&api, "b");
    sleep(Duration::from_millis(20_100)).await;
    let fence = leader.leadership.fence();
    assert!(fence.is_open());
    // Time passes and no task runs: the fence is checked first.
    let frozen = tokio::time::advance(seconds(30));
    let mut frozen = std::pin::pin!(frozen);
    std::future::poll_fn(|context| {
        _ = frozen.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    assert!(!fence.is_open());
    frozen.await;
    assert!(matches!(leader.outcome().await, ElectionOutcome::Lost(_)));
    standby.leadership.acquired().await;
    assert_eq!(holder(&api), "b");
    assert!(!fence.is_open());
}
