//! Stories, step by step; the property test is in `tests/elections.rs`.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::*;

const EPOCH: &str = "2026-01-01T00:00:00Z";

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// An election under test, with times in seconds since its start.
struct Scenario {
    election: Election,
    begin: Instant,
    version: u64,
}

impl Scenario {
    fn begin() -> Self {
        let begin = Instant::now();
        let config = ElectionConfig {
            identity: "me".into(),
            ..ElectionConfig::new("ns", "ccm")
        };
        Self {
            election: Election::new(config, begin),
            begin,
            version: 0,
        }
    }

    fn step(&mut self, at: f64, input: Input) -> String {
        self.step_with(at, input, 0.5)
    }

    fn step_with(&mut self, at: f64, input: Input, jitter: f64) -> String {
        let now = self.begin + seconds(at);
        let time: Timestamp = EPOCH.parse().unwrap();
        let time = time.checked_add(seconds(at)).unwrap();
        match self.election.step(input, now, time, jitter) {
            Action::Read => "read".into(),
            Action::Create(lease) => format!("create {}", show(&lease)),
            Action::Update(lease) => format!("update {}", show(&lease)),
            Action::Wait(until) => format!("wait {:.1}", (until - self.begin).as_secs_f64()),
            Action::End(outcome) => format!("end {outcome:?}"),
        }
    }

    /// Acquires the Lease at that time.
    fn lead(&mut self, at: f64) {
        self.step(at, Input::Due);
        self.step(at, Input::Read(Ok(None)));
        let mine = self.lease("me", 15, at);
        self.step(at, Input::Written(Ok(mine)));
        assert!(self.leads_until() == Some(at + 10.0), "{:?}", self.election);
    }

    fn leads_until(&self) -> Option<f64> {
        self.election
            .deadline()
            .map(|deadline| (deadline - self.begin).as_secs_f64())
    }

    /// Returns a Lease as a server has it, renewed at that time.
    fn lease(&mut self, holder: &str, duration: i64, at: f64) -> Lease {
        self.version += 1;
        let time: Timestamp = EPOCH.parse().unwrap();
        let time = api_time(time.checked_add(seconds(at)).unwrap());
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "ccm", "resourceVersion": self.version.to_string()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration, "acquireTime": time, "renewTime": time,
                "leaseTransitions": 3},
        }))
        .unwrap()
    }
}

/// Formats a Lease as `holder/duration/acquired/renewed/transitions`, times as `minute:second` of the first hour.
fn show(lease: &Lease) -> String {
    let record = lease.record();
    let time = |text: &str| text.get(14..21).unwrap_or_default().to_owned();
    let acquired = time(&record.acquired);
    let renewed = time(&record.renewed);
    format!(
        "{}/{}/{acquired}/{renewed}/{}",
        record.holder, record.duration_seconds, record.transitions
    )
}

#[test]
fn the_first_one_creates_the_lease_and_renews_it_directly() {
    let mut scenario = Scenario::begin();
    assert_eq!(scenario.step(0.0, Input::Due), "read");
    assert_eq!(
        scenario.step(0.1, Input::Read(Ok(None))),
        "create me/15/00:00.1/00:00.1/0"
    );
    assert_eq!(scenario.leads_until(), None, "not before it is written");
    let mine = scenario.lease("me", 15, 0.1);
    assert_eq!(scenario.step(0.3, Input::Written(Ok(mine))), "wait 2.3");
    assert_eq!(
        scenario.leads_until(),
        Some(10.1),
        "from when it was sent, not from when it was answered"
    );
    assert_eq!(
        scenario.step(2.3, Input::Due),
        "update me/15/00:00.1/00:02.3/3"
    );
    let mine = scenario.lease("me", 15, 2.3);
    assert_eq!(scenario.step(2.4, Input::Written(Ok(mine))), "wait 4.4");
    assert_eq!(scenario.leads_until(), Some(12.3));
}

#[test]
fn a_living_holder_is_waited_for_and_a_dead_one_replaced() {
    let mut scenario = Scenario::begin();
    scenario.step(0.0, Input::Due);
    // The holder's clock is a year behind: only that the record changes counts.
    let alive = scenario.lease("other", 15, 0.0);
    assert_eq!(
        scenario.step_with(0.0, Input::Read(Ok(Some(alive))), 0.0),
        "wait 2.0"
    );
    let alive = scenario.lease("other", 15, 2.0);
    assert_eq!(
        scenario.step_with(2.0, Input::Read(Ok(Some(alive.clone()))), 1.0),
        "wait 6.4"
    );
    for at in [6.4, 10.0, 14.0] {
        assert_eq!(
            scenario.step_with(at, Input::Read(Ok(Some(alive.clone()))), 0.0),
            format!("wait {:.1}", at + 2.0)
        );
    }
    assert_eq!(
        scenario.step_with(16.0, Input::Read(Ok(Some(alive.clone()))), 1.0),
        "wait 17.0",
        "its end is not slept through"
    );
    assert_eq!(
        scenario.step(16.9, Input::Read(Ok(Some(alive.clone())))),
        "wait 17.0"
    );
    assert_eq!(
        scenario.step(17.0, Input::Read(Ok(Some(alive)))),
        "update me/15/00:17.0/00:17.0/4"
    );
}

#[test]
fn the_holders_own_lease_duration_is_what_it_is_waited_for() {
    let mut scenario = Scenario::begin();
    let slow = scenario.lease("other", 60, 0.0);
    scenario.step(0.0, Input::Read(Ok(Some(slow.clone()))));
    assert!(
        scenario
            .step(59.9, Input::Read(Ok(Some(slow.clone()))))
            .starts_with("wait")
    );
    assert!(
        scenario
            .step(60.0, Input::Read(Ok(Some(slow))))
            .starts_with("update me/15")
    );
}

#[test]
fn a_lease_that_was_given_back_or_is_ones_own_is_taken_at_once() {
    let mut scenario = Scenario::begin();
    let alive = scenario.lease("other", 15, 0.0);
    scenario.step(0.0, Input::Read(Ok(Some(alive))));
    let free = scenario.lease("", 1, 1.0);
    assert_eq!(
        scenario.step(1.0, Input::Seen(Some(free.clone()))),
        "read",
        "a watch lags, so it is read"
    );
    assert_eq!(
        scenario.step(1.0, Input::Read(Ok(Some(free)))),
        "update me/15/00:01.0/00:01.0/4"
    );
    // The answer is lost, but it was done.
    assert_eq!(
        scenario.step(6.0, Input::Written(Err(Failure::Unknown))),
        "wait 9.2"
    );
    let mine = scenario.lease("me", 15, 1.0);
    assert_eq!(
        scenario.step(9.2, Input::Read(Ok(Some(mine)))),
        "update me/15/00:01.0/00:09.2/3"
    );
}

#[test]
fn a_lease_that_vanished_is_not_free_while_its_holder_may_live() {
    let mut scenario = Scenario::begin();
    let alive = scenario.lease("other", 15, 0.0);
    scenario.step(0.0, Input::Read(Ok(Some(alive))));
    assert_eq!(scenario.step(3.0, Input::Seen(None)), "read");
    assert_eq!(scenario.step(3.0, Input::Read(Ok(None))), "wait 6.2");
    assert_eq!(
        scenario.step(17.0, Input::Read(Ok(None))),
        "wait 18.0",
        "it may have been renewed just before it vanished"
    );
    assert_eq!(
        scenario.step(18.0, Input::Read(Ok(None))),
        "create me/15/00:18.0/00:18.0/0"
    );
    // Nor one that another created first, and that this process never saw.
    let mut scenario = Scenario::begin();
    assert!(
        scenario
            .step(0.0, Input::Read(Ok(None)))
            .starts_with("create")
    );
    scenario.step(0.1, Input::Written(Err(Failure::Conflict)));
    assert!(
        scenario
            .step(4.0, Input::Read(Ok(None)))
            .starts_with("wait")
    );
    assert!(
        scenario
            .step(19.0, Input::Read(Ok(None)))
            .starts_with("create")
    );
}

#[test]
fn the_holder_of_a_lease_that_vanished_makes_it_anew_and_goes_on() {
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    assert!(
        scenario.step(1.0, Input::Seen(None)).starts_with("update"),
        "the watch may lag: first as always"
    );
    assert_eq!(
        scenario.step(1.1, Input::Written(Err(Failure::Refused))),
        "read"
    );
    assert!(scenario.election.on_slow_path());
    assert_eq!(
        scenario.step(1.2, Input::Read(Ok(None))),
        "create me/15/00:01.2/00:01.2/0"
    );
    let mine = scenario.lease("me", 15, 1.2);
    assert_eq!(scenario.step(1.3, Input::Written(Ok(mine))), "wait 3.3");
    assert_eq!(scenario.leads_until(), Some(11.2));
}

#[test]
fn a_renewal_that_fails_is_made_slowly_until_the_deadline() {
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    assert!(scenario.step(2.0, Input::Due).starts_with("update"));
    assert_eq!(
        scenario.step(2.1, Input::Written(Err(Failure::Unknown))),
        "read"
    );
    assert!(scenario.election.on_slow_path());
    let mine = scenario.lease("me", 15, 0.0);
    assert!(
        scenario
            .step(2.2, Input::Read(Ok(Some(mine))))
            .starts_with("update")
    );
    assert_eq!(
        scenario.step(2.3, Input::Written(Err(Failure::Refused))),
        "wait 4.3",
        "not at once again"
    );
    assert!(
        scenario.step(4.3, Input::Due).starts_with("update") && !scenario.election.on_slow_path()
    );
    assert_eq!(
        scenario.step(9.0, Input::Written(Err(Failure::Unknown))),
        "read"
    );
    assert_eq!(
        scenario.step(9.5, Input::Read(Err(Failure::Unknown))),
        "wait 10.0",
        "and not longer than it leads"
    );
    assert_eq!(
        scenario.step(10.0, Input::Due),
        r#"end Lost("it could not be renewed for 10s")"#
    );
    assert_eq!(scenario.leads_until(), None);
}

#[test]
fn an_answer_after_the_deadline_does_not_help() {
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    scenario.step(2.0, Input::Due);
    let mine = scenario.lease("me", 15, 2.0);
    assert!(
        scenario
            .step(30.0, Input::Written(Ok(mine)))
            .starts_with("end Lost"),
        "it was frozen meanwhile"
    );
    // Nor does one by which a candidate would lead.
    let mut scenario = Scenario::begin();
    scenario.step(0.0, Input::Read(Ok(None)));
    let mine = scenario.lease("me", 15, 0.0);
    assert!(
        scenario
            .step(10.0, Input::Written(Ok(mine.clone())))
            .starts_with("wait")
    );
    assert_eq!(scenario.leads_until(), None);
    assert!(
        scenario
            .step(12.0, Input::Read(Ok(Some(mine))))
            .starts_with("update me/15/00:00.0/00:12.0"),
        "but it is its own"
    );
}

#[test]
fn leader_that_reads_another_holder_has_lost_the_lease() {
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    let others = scenario.lease("other", 15, 1.0);
    assert!(
        scenario
            .step(1.0, Input::Seen(Some(others.clone())))
            .starts_with("update"),
        "a watch alone proves nothing"
    );
    assert_eq!(
        scenario.step(1.1, Input::Written(Err(Failure::Refused))),
        "read"
    );
    assert_eq!(
        scenario.step(1.2, Input::Read(Ok(Some(others)))),
        r#"end Lost("other holds it")"#
    );
    assert_eq!(
        scenario.step(1.3, Input::Due),
        "end Stopped",
        "and nothing more comes of it"
    );
}

#[test]
fn elector_that_finds_its_own_name_remembers_the_other_holder() {
    let mut scenario = Scenario::begin();
    let others = scenario.lease("other", 15, 0.0);
    let mine = scenario.lease("me", 15, 1.0);
    scenario.step(0.0, Input::Read(Ok(Some(others))));
    // A person deleted the Lease, and then an old request of this process arrived.
    assert!(
        scenario
            .step(2.0, Input::Read(Ok(Some(mine.clone()))))
            .starts_with("wait")
    );
    assert!(
        scenario
            .step(15.0, Input::Read(Ok(Some(mine))))
            .starts_with("update me")
    );
}

#[test]
fn candidate_waits_for_the_holder_that_may_lead_longest() {
    let mut scenario = Scenario::begin();
    let slow = scenario.lease("slow", 60, 0.0);
    let fast = scenario.lease("fast", 15, 1.0);
    scenario.step(0.0, Input::Read(Ok(Some(slow))));
    scenario.step(1.0, Input::Read(Ok(Some(fast.clone()))));
    assert!(
        scenario
            .step(59.0, Input::Read(Ok(Some(fast.clone()))))
            .starts_with("wait")
    );
    assert!(
        scenario
            .step(60.0, Input::Read(Ok(Some(fast))))
            .starts_with("update me")
    );
}

#[test]
fn a_candidate_never_gives_up() {
    let mut scenario = Scenario::begin();
    for at in 0..1_000 {
        assert_eq!(scenario.step(f64::from(at), Input::Due), "read");
        assert!(
            scenario
                .step(f64::from(at), Input::Read(Err(Failure::Refused)))
                .starts_with("wait")
        );
    }
}

#[test]
fn watch_of_a_living_holder_replaces_polling() {
    let mut scenario = Scenario::begin();
    for at in [0.0, 2.0, 4.0] {
        let alive = scenario.lease("other", 15, at);
        assert_eq!(
            scenario.step(at, Input::Seen(Some(alive))),
            format!("wait {:.1}", at + 4.4)
        );
    }
    assert_eq!(scenario.step(8.4, Input::Due), "read");
    let mine = Scenario::begin().lease("me", 15, 0.0);
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    assert_eq!(
        scenario.step(1.0, Input::Seen(Some(mine))),
        "wait 2.0",
        "its own renewals are no news"
    );
}

#[test]
fn a_graceful_stop_gives_the_lease_back() {
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    assert_eq!(
        scenario.step(5.0, Input::Stop),
        "update /1/00:05.0/00:05.0/3"
    );
    assert_eq!(scenario.leads_until(), None, "before it is free for others");
    let free = scenario.lease("", 1, 5.0);
    assert_eq!(scenario.step(5.1, Input::Written(Ok(free))), "end Released");
}

#[test]
fn a_release_that_meets_an_own_renewal_is_made_again_and_another_holder_is_left_alone() {
    let mine = Scenario::begin().lease("me", 15, 0.0);
    let others = Scenario::begin().lease("other", 15, 0.0);
    let table: [(Result<Option<Lease>, Failure>, &str); 4] = [
        (Ok(Some(mine)), "update /1"),
        (Ok(Some(others)), "end Stopped"),
        (Ok(None), "end Stopped"),
        (Err(Failure::Unknown), "end Stopped"),
    ];
    for (answer, expected) in table {
        let mut scenario = Scenario::begin();
        scenario.lead(0.0);
        scenario.step(5.0, Input::Stop);
        assert_eq!(
            scenario.step(5.1, Input::Written(Err(Failure::Refused))),
            "read"
        );
        let action = scenario.step(5.2, Input::Read(answer));
        assert!(action.starts_with(expected), "{action}");
        if expected == "update /1" {
            assert_eq!(
                scenario.step(5.3, Input::Written(Err(Failure::Unknown))),
                "end Stopped"
            );
        }
    }
}

#[test]
fn candidate_releases_only_a_lease_that_it_may_have_acquired() {
    let mut scenario = Scenario::begin();
    assert_eq!(scenario.step(0.0, Input::Stop), "end Stopped");
    for is_answered in [false, true] {
        let mut scenario = Scenario::begin();
        scenario.step(0.0, Input::Read(Ok(None)));
        if is_answered {
            scenario.step(5.0, Input::Written(Err(Failure::Unknown)));
        }
        assert_eq!(scenario.step(5.0, Input::Stop), "read");
        let mine = scenario.lease("me", 15, 0.0);
        assert!(
            scenario
                .step(5.0, Input::Read(Ok(Some(mine))))
                .starts_with("update /1")
        );
    }
    let mut scenario = Scenario::begin();
    scenario.step(0.0, Input::Read(Ok(None)));
    scenario.step(0.0, Input::Written(Err(Failure::Refused)));
    assert_eq!(
        scenario.step(5.0, Input::Stop),
        "end Stopped",
        "refused is refused"
    );
}

#[test]
fn a_lease_is_kept_where_that_is_wanted() {
    let mut scenario = Scenario::begin();
    scenario.election.config.release_on_stop = false;
    scenario.lead(0.0);
    assert_eq!(scenario.step(5.0, Input::Stop), "end Stopped");
}

#[test]
fn a_holder_whose_clock_stands_still_does_not_look_dead() {
    let mut scenario = Scenario::begin();
    scenario.lead(0.0);
    let now = scenario.begin;
    let time: Timestamp = EPOCH.parse().unwrap();
    let mut renewed = vec![scenario.election.lease.clone().unwrap().record().renewed];
    for at in 1..4 {
        let Action::Update(lease) =
            scenario
                .election
                .step(Input::Due, now + seconds(f64::from(at)), time, 0.0)
        else {
            panic!("no renewal")
        };
        renewed.push(lease.record().renewed);
        scenario.election.step(
            Input::Written(Ok(lease)),
            now + seconds(f64::from(at)),
            time,
            0.0,
        );
    }
    assert!(
        renewed.windows(2).all(|pair| pair[0] != pair[1]),
        "{renewed:?}"
    );
}
