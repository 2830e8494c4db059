//! Time without a leader.
//!
//! Rules: APP-63, APP-67.

use std::time::Duration;

use embedded_apiserver::{Action, ApiServer, Matcher};
use runtime::election::ElectionOutcome;
use tokio::time::{Instant, sleep};

use crate::candidates::{Candidate, holder, requests};

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Stop,
    Kill,
}

fn forbid_watching(api: &ApiServer) {
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "leases is forbidden".into(),
        retry_after_seconds: None,
    };
    api.faults()
        .add(Matcher::any().verb("watch").resource("leases"), forbidden);
}

/// Returns the time from the end of the leader, `after` so many milliseconds, until one of two standbys leads.
async fn gap(end: End, may_watch: bool, after: u64) -> Duration {
    let api = ApiServer::new();
    if !may_watch {
        forbid_watching(&api);
    }
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let standbys = [Candidate::new(&api, "b"), Candidate::new(&api, "c")];
    sleep(Duration::from_millis(after)).await;
    let began = Instant::now();
    match end {
        End::Stop => assert_eq!(leader.stop().await, ElectionOutcome::Released),
        End::Kill => leader.kill().await,
    }
    tokio::select! {
        () = standbys[0].leadership.acquired() => {}
        () = standbys[1].leadership.acquired() => {}
    }
    let took = began.elapsed();
    sleep(Duration::from_secs(30)).await;
    let open = standbys
        .iter()
        .filter(|candidate| candidate.leadership.fence().is_open())
        .count();
    assert!(open == 1 && ["b", "c"].contains(&holder(&api).as_str()));
    for standby in standbys {
        standby.kill().await;
    }
    took
}

async fn gaps(end: End, may_watch: bool) -> (f64, f64) {
    let mut least = f64::MAX;
    let mut most = 0.0_f64;
    for after in [20_000, 20_300, 20_900, 21_500, 23_100, 24_700, 27_900] {
        let took = gap(end, may_watch, after).await.as_secs_f64();
        (least, most) = (least.min(took), most.max(took));
    }
    println!(
        "{end:?}, {}: {least:.3} to {most:.3} s",
        if may_watch { "watching" } else { "polling" }
    );
    (least, most)
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_within_a_second_by_who_may_watch() {
    assert!(gaps(End::Stop, true).await.1 < 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_within_five_seconds_by_who_may_only_poll() {
    assert!(gaps(End::Stop, false).await.1 < 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_replaced_when_its_lease_has_expired() {
    // Counted from its death, which is up to 2 s after its last renewal.
    let (least, most) = gaps(End::Kill, true).await;
    assert!(least >= 12.9 && most <= 15.1, "watching: {least} to {most}");
    let (least, most) = gaps(End::Kill, false).await;
    assert!(least >= 12.9 && most <= 19.5, "polling: {least} to {most}");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_watch_asks_for_that_hardly_ever() {
    let api = ApiServer::new();
    forbid_watching(&api);
    let leader = Candidate::new(&api, "a");
    leader.leadership.acquired().await;
    let standby = Candidate::new(&api, "b");
    sleep(Duration::from_secs(300)).await;
    let asked = requests(&api, "b");
    let count = |verb: &str| asked.iter().filter(|text| text.starts_with(verb)).count();
    assert!(
        count("watch") == 1 && (68..=150).contains(&count("get")),
        "{asked:?}"
    );
    assert!(
        standby
            .leadership
            .lease_was_seen_within(Duration::from_secs(5))
    );
    // Permissions may come later.
    api.faults().clear();
    sleep(Duration::from_secs(600)).await;
    let polls = requests(&api, "b").len();
    sleep(Duration::from_secs(60)).await;
    assert!(
        requests(&api, "b").len() - polls <= 3,
        "a watch that shows a living holder replaces polling"
    );
}
