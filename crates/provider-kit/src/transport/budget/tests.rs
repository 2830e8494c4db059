use proptest::prelude::*;

use super::*;

const HOUR: Refill = Refill::Evenly(Duration::from_secs(3600));

fn told(limit: u64, remaining: u64, reset: Option<u64>) -> RateLimitReport {
    RateLimitReport {
        limit: Some(limit),
        remaining: Some(remaining),
        reset: reset.map(Duration::from_secs),
    }
}

/// Returns an allowance that knows the report of an answer at `now`.
fn knowing(budget: Budget, report: RateLimitReport, now: Instant) -> Allowance {
    let mut allowance = Allowance::new(budget, false);
    let ticket = allowance.enter(Priority::Urgent);
    let number = allowance.take(ticket, now).unwrap();
    allowance.finish(number, Outcome::Answered(report), now);
    allowance
}

/// Adds a call and returns its number, or the seconds to wait.
fn turn(allowance: &mut Allowance, priority: Priority, now: Instant) -> Result<Number, u64> {
    let ticket = allowance.enter(priority);
    let turn = allowance.take(ticket, now);
    allowance.leave(ticket);
    turn.map_err(|wait| wait.as_secs_f64().round() as u64)
}

#[test]
fn each_priority_leaves_more_than_the_one_above_it() {
    let now = Instant::now();
    let budget = Budget {
        refill: HOUR,
        ..Budget::default()
    };
    // Of 3,600: 360 are for others, then 162 for urgent calls only, then 648 more for ordinary ones.
    let table = [
        (1172, [true, true, true]),
        (1170, [false, true, true]),
        (524, [false, true, true]),
        (522, [false, false, true]),
        (361, [false, false, true]),
        (360, [false, false, false]),
    ];
    for (left, expected) in table {
        for (priority, expected) in [Priority::Refresh, Priority::Ordinary, Priority::Urgent]
            .into_iter()
            .zip(expected)
        {
            let mut allowance = knowing(budget, told(3600, left, None), now);
            assert_eq!(
                turn(&mut allowance, priority, now).is_ok(),
                expected,
                "{priority:?} at {left}"
            );
        }
    }
}

#[test]
fn without_headers_there_is_no_limit_and_a_single_request_goes_ahead() {
    let now = Instant::now();
    let mut allowance = Allowance::new(Budget::default(), false);
    let first = turn(&mut allowance, Priority::Refresh, now).unwrap();
    assert_eq!(
        turn(&mut allowance, Priority::Urgent, now),
        Err(1),
        "the first answer may say something"
    );
    allowance.finish(first, Outcome::Answered(RateLimitReport::default()), now);
    for _ in 0..10_000 {
        turn(&mut allowance, Priority::Refresh, now).unwrap();
    }
}

#[test]
fn a_stated_limit_holds_from_the_first_request_on_whatever_the_cloud_says() {
    let begun = Instant::now();
    let budget = Budget {
        share_left_to_others: 0.0,
        refill: Refill::per_second(10, 20),
    };
    let mut allowance = knowing(budget, told(3600, 3600, None), begun);
    let mut sent = 1;
    let mut now = begun;
    while now < begun + Duration::from_secs(5) {
        match turn(&mut allowance, Priority::Urgent, now) {
            Ok(number) => {
                allowance.finish(number, Outcome::Answered(told(3600, 3600, None)), now);
                sent += 1;
            }
            Err(_) => now += Duration::from_millis(100),
        }
    }
    assert!(
        (68..=71).contains(&sent),
        "20 at once, and 10 each second: {sent}"
    );
}

#[test]
fn a_first_request_without_an_answer_holds_up_the_others_for_a_second_only() {
    let now = Instant::now();
    let mut allowance = Allowance::new(Budget::default(), false);
    turn(&mut allowance, Priority::Ordinary, now).unwrap();
    turn(&mut allowance, Priority::Ordinary, now + PROBE_ALONE).unwrap();
}

#[test]
fn requests_in_flight_are_counted() {
    let now = Instant::now();
    let budget = Budget {
        share_left_to_others: 0.5,
        refill: HOUR,
    };
    let mut allowance = knowing(budget, told(100, 53, None), now);
    let mut number = 0;
    for _ in 0..3 {
        number = turn(&mut allowance, Priority::Urgent, now).unwrap();
    }
    assert!(turn(&mut allowance, Priority::Urgent, now).is_err());
    allowance.finish(number, Outcome::NotSent, now);
    number = turn(&mut allowance, Priority::Urgent, now).unwrap();
    allowance.finish(number, Outcome::Unknown, now);
    assert!(
        turn(&mut allowance, Priority::Urgent, now).is_err(),
        "it may have been counted"
    );
}

#[test]
fn overtaken_answer_is_ignored() {
    let now = Instant::now();
    let mut allowance = knowing(
        Budget {
            refill: HOUR,
            ..Budget::default()
        },
        told(3600, 3000, None),
        now,
    );
    let first = turn(&mut allowance, Priority::Urgent, now).unwrap();
    let second = turn(&mut allowance, Priority::Urgent, now).unwrap();
    allowance.finish(second, Outcome::Answered(told(3600, 0, None)), now);
    allowance.finish(first, Outcome::Answered(told(3600, 2999, None)), now);
    assert!(turn(&mut allowance, Priority::Urgent, now).is_err());
}

#[test]
fn calls_below_their_reserve_share_the_returning_requests() {
    let now = Instant::now();
    let budget = Budget {
        share_left_to_others: 0.2,
        refill: HOUR,
    };
    // A request comes back each second; four fifths of them are ours.
    for (priority, milliseconds) in [
        (Priority::Urgent, 1250),
        (Priority::Ordinary, 2500),
        (Priority::Refresh, 5000),
    ] {
        let mut allowance = knowing(budget, told(3600, 5, None), now);
        let after = |milliseconds| now + Duration::from_millis(milliseconds);
        assert!(
            turn(&mut allowance, priority, after(milliseconds - 1)).is_err(),
            "{priority:?}"
        );
        turn(&mut allowance, priority, after(milliseconds + 1)).unwrap();
    }
}

#[test]
fn calls_wait_for_the_reset_where_requests_return_together() {
    let now = Instant::now();
    let mut allowance = knowing(Budget::default(), told(100, 10, Some(30)), now);
    assert_eq!(turn(&mut allowance, Priority::Urgent, now), Err(30));
    for _ in 0..5 {
        turn(
            &mut allowance,
            Priority::Urgent,
            now + Duration::from_secs(30),
        )
        .unwrap();
    }
}

#[test]
fn single_request_goes_ahead_after_the_pause_of_a_429() {
    let now = Instant::now();
    let mut allowance = Allowance::new(Budget::default(), false);
    let number = turn(&mut allowance, Priority::Urgent, now).unwrap();
    allowance.finish(
        number,
        Outcome::Refused(RateLimitReport::default(), Some(Duration::from_secs(5))),
        now,
    );
    assert_eq!(turn(&mut allowance, Priority::Urgent, now), Err(5));
    let later = now + Duration::from_secs(5);
    let number = turn(&mut allowance, Priority::Urgent, later).unwrap();
    assert!(turn(&mut allowance, Priority::Urgent, later).is_err());
    allowance.finish(number, Outcome::Answered(RateLimitReport::default()), later);
    assert!(turn(&mut allowance, Priority::Urgent, later).is_ok());
}

/// A cloud with a bucket that fills evenly, and callers that arrive, wait, send and get their answers.
struct World {
    limit: f64,
    left: f64,
    allowance: Allowance,
    began: Instant,
    now: Instant,
    waiting: Vec<Ticket>,
    under_way: Vec<(Instant, Number, Outcome)>,
    lowest: f64,
    refused: usize,
}

const STEP: Duration = Duration::from_millis(200);
const LIMIT: f64 = 720.0;

impl World {
    fn new(share: f64, level: f64) -> Self {
        let now = Instant::now();
        let allowance = Allowance::new(
            Budget {
                share_left_to_others: share,
                refill: HOUR,
            },
            false,
        );
        let limit = LIMIT;
        let left = level * LIMIT;
        let waiting = Vec::new();
        let under_way = Vec::new();
        Self {
            limit,
            left,
            allowance,
            began: now,
            now,
            waiting,
            under_way,
            lowest: f64::INFINITY,
            refused: 0,
        }
    }

    /// Simulates a step of time: other users send `others` requests, the calls in `come` arrive, answers take
    /// `latency`.
    fn step(
        &mut self,
        come: &[Priority],
        others: f64,
        latency: Duration,
    ) -> Result<(), TestCaseError> {
        self.now += STEP;
        self.left = (self.left + self.limit * STEP.as_secs_f64() / 3600.0).min(self.limit);
        self.left = (self.left - others).max(0.0);
        let (done, under_way): (Vec<_>, _) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|(at, ..)| *at <= self.now);
        self.under_way = under_way;
        for (_, number, outcome) in done {
            self.allowance.finish(number, outcome, self.now);
        }
        for priority in come {
            self.waiting.push(self.allowance.enter(*priority));
        }
        // The worst order of calls.
        self.waiting.sort_by(|a, b| b.cmp(a));
        let mut at = 0;
        while at < self.waiting.len() {
            let ticket = self.waiting[at];
            let Ok(number) = self.allowance.take(ticket, self.now) else {
                at += 1;
                continue;
            };
            self.waiting.remove(at);
            prop_assert!(
                self.waiting.iter().all(|other| *other > ticket),
                "{ticket:?} before {:?}",
                self.waiting
            );
            at = 0;
            self.serve(number, latency);
        }
        Ok(())
    }

    fn serve(&mut self, number: Number, latency: Duration) {
        let outcome = if self.left >= 1.0 {
            self.left -= 1.0;
            self.lowest = self.lowest.min(self.left);
            Outcome::Answered(told(self.limit as u64, self.left as u64, None))
        } else {
            self.refused += 1;
            Outcome::Refused(told(self.limit as u64, 0, None), None)
        };
        self.under_way.push((self.now + latency, number, outcome));
    }
}

fn priorities() -> impl Strategy<Value = Vec<Priority>> {
    let one = prop_oneof![
        Just(Priority::Refresh),
        Just(Priority::Ordinary),
        Just(Priority::Urgent)
    ];
    proptest::collection::vec(one, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn share_of_others_and_order_of_priorities_are_kept(
        share in 0.0..0.6_f64, above in 0.0..0.4_f64, latency in 0..2000_u64,
        arrivals in proptest::collection::vec(priorities(), 1..120),
    ) {
        let mut world = World::new(share, share + above + 0.01);
        for come in &arrivals {
            world.step(come, 0.0, Duration::from_millis(latency))?;
        }
        for _ in 0..2000 {
            world.step(&[], 0.0, Duration::from_millis(latency))?;
        }
        prop_assert!(world.lowest >= (share * LIMIT).floor() - 1e-6, "{} of {}", world.lowest, share * LIMIT);
        prop_assert_eq!(world.refused, 0);
    }

    #[test]
    fn every_call_is_served_even_if_others_use_up_the_limit(
        share in 0.0..0.6_f64, level in 0.0..1.0_f64, latency in 0..2000_u64,
        arrivals in proptest::collection::vec(priorities(), 1..10), greedy in any::<bool>(),
    ) {
        let mut world = World::new(share, level);
        let latency = Duration::from_millis(latency); let others = if greedy { 0.03 } else { 0.0 };
        for come in &arrivals {
            world.step(come, others, latency)?;
        }
        // A refresh gets a quarter of the share of one request in 5 seconds.
        let most = arrivals.iter().map(Vec::len).sum::<usize>(); let slowest = 5.0 / (0.25 * (1.0 - share));
        let enough = (most as f64 + 2.0) * slowest / STEP.as_secs_f64();
        for _ in 0..enough as usize {
            world.step(&[], others, latency)?;
        }
        prop_assert!(world.waiting.is_empty(), "{:?} after {:?}", world.waiting, world.now - world.began);
    }
}

#[test]
fn single_request_goes_ahead_after_five_idle_minutes() {
    let now = Instant::now();
    let lies = [
        (HOUR, told(1, 0, None), None),
        (Refill::AtReset, told(5000, 0, Some(3600)), None),
        (
            HOUR,
            RateLimitReport::default(),
            Some(Duration::from_secs(86_400)),
        ),
    ];
    for (refill, report, pause) in lies {
        let budget = Budget {
            refill,
            ..Budget::default()
        };
        let mut allowance = knowing(budget, report, now);
        if pause.is_some() {
            let number = turn(&mut allowance, Priority::Urgent, now).unwrap();
            allowance.finish(number, Outcome::Refused(report, pause), now);
        }
        for minutes in [5, 10] {
            let later = now + Duration::from_secs(60 * minutes);
            assert!(
                turn(
                    &mut allowance,
                    Priority::Refresh,
                    later - Duration::from_secs(1)
                )
                .is_err(),
                "{report:?}"
            );
            let probe = turn(&mut allowance, Priority::Refresh, later).unwrap();
            assert!(
                turn(&mut allowance, Priority::Urgent, later).is_err(),
                "{report:?}: one only"
            );
            allowance.finish(probe, Outcome::Refused(report, pause), later);
        }
    }
}

#[test]
fn adaptive_limit_shrinks_after_refusals_and_grows_after_answers() {
    let mut now = Instant::now();
    let mut allowance = Allowance::new(
        Budget {
            share_left_to_others: 0.0,
            refill: Refill::adaptive(10, 10),
        },
        false,
    );
    let send = |allowance: &mut Allowance, now| {
        (0..)
            .map_while(|_| turn(allowance, Priority::Urgent, now).ok())
            .collect::<Vec<_>>()
    };
    let first = turn(&mut allowance, Priority::Urgent, now).unwrap();
    allowance.finish(first, Outcome::Answered(RateLimitReport::default()), now);
    let burst = send(&mut allowance, now);
    assert_eq!(burst.len(), 9);
    for number in burst {
        allowance.finish(
            number,
            Outcome::Refused(RateLimitReport::default(), None),
            now,
        );
    }
    assert_eq!(
        allowance.slowdown.0, 2.0,
        "requests that were under way count once"
    );
    now += Duration::from_secs(1);
    let probe = turn(&mut allowance, Priority::Urgent, now).unwrap();
    allowance.finish(probe, Outcome::Answered(RateLimitReport::default()), now);
    assert_eq!(
        send(&mut allowance, now).len(),
        4,
        "half of ten came back in a second"
    );
    for number in 100..120 {
        allowance.finish(number, Outcome::Answered(RateLimitReport::default()), now);
    }
    assert_eq!(allowance.slowdown.0, 1.0);
}

#[test]
fn declared_report_lowers_a_stated_limit_and_spreads_what_is_left_of_a_window() {
    let now = Instant::now();
    let budget = Budget {
        share_left_to_others: 0.0,
        refill: Refill::per_second(10, 200),
    };
    let window = Some(Duration::from_secs(180));
    for (is_declared, left, reset, priority, expected) in [
        (true, 100, window, Priority::Ordinary, Ok(2)),
        (true, 5, window, Priority::Ordinary, Err(60)),
        (true, 5, None, Priority::Ordinary, Err(0)),
        (true, 5, window, Priority::Urgent, Ok(2)),
        (true, 0, window, Priority::Urgent, Err(180)),
        (true, 5000, window, Priority::Refresh, Ok(2)),
        (false, 0, window, Priority::Refresh, Ok(2)),
    ] {
        let mut allowance = Allowance::new(budget, is_declared);
        let number = turn(&mut allowance, Priority::Urgent, now).unwrap();
        let report = RateLimitReport {
            remaining: Some(left),
            reset,
            ..RateLimitReport::default()
        };
        allowance.finish(number, Outcome::Answered(report), now);
        assert_eq!(
            turn(&mut allowance, priority, now),
            expected,
            "{is_declared} {left} {reset:?} {priority:?}"
        );
    }
}

#[test]
fn stated_limit_is_whole_again_when_reports_no_longer_lower_it() {
    let mut now = Instant::now();
    let budget = Budget {
        share_left_to_others: 0.0,
        refill: Refill::per_second(10, 200),
    };
    let mut allowance = Allowance::new(budget, true);
    let window = Some(Duration::from_secs(180));
    for (left, pause) in [(1, 300), (1000, 20)] {
        let number = turn(&mut allowance, Priority::Urgent, now).unwrap();
        let report = RateLimitReport {
            remaining: Some(left),
            reset: window,
            ..RateLimitReport::default()
        };
        allowance.finish(number, Outcome::Answered(report), now);
        now += Duration::from_secs(pause);
    }
    let burst = (0..)
        .map_while(|_| turn(&mut allowance, Priority::Urgent, now).ok())
        .count();
    assert_eq!(burst, 200);
}
