//! INV-2: killed after any single request, at any step, a restart converges to the same end state.
//!
//! A [`Scenario`] runs once undisturbed, to count its requests to Kubernetes and to the cloud and to record the end
//! state. Then it runs twice for each of these requests: all state of the process is dropped right before the request,
//! and right after it was carried out but not answered. The program restarts; in the end the state must equal that of
//! the undisturbed run, and the program must be idle.
//!
//! A request that creates a load balancer is also carried out late: after the next run of the program has listed them.

mod deeds;
mod play;
mod report;
mod scenarios;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::fault_injector::{Moment, Passed, Side};
use crate::harness::Harness;
use crate::profile::MakeProfile;
use play::Reference;
pub use report::{Failure, Report, Row};
pub use scenarios::SCENARIOS;

/// An action of users, kubelets or the cloud's machines. It completes before other tasks run.
pub type Action = for<'a> fn(&'a Harness) -> BoxFuture<'a, ()>;

/// A step of a story.
#[derive(Clone, Copy)]
pub enum Step {
    /// Runs the action, and waits until everything has settled.
    Settled(Action),
    /// Runs the action, and the next step after this time, settled or not.
    Then(Action, Duration),
}

/// A scenario with its steps.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Name of the scenario in reports.
    pub name: &'static str,
    /// If set, Pod CIDRs are routed.
    pub routes: bool,
    /// Initial objects, which an undisturbed run of the program settles.
    pub set_up: Option<Action>,
    /// Steps of the scenario.
    pub steps: &'static [Step],
}

impl Scenario {
    /// Returns `true` if the scenario is about routes.
    fn needs_routes(&self) -> bool {
        self.routes && self.name.contains("routes")
    }
}

/// Attempts at a crash point whose request was not sent.
const TRIES: usize = 3;

/// Plays all [`SCENARIOS`], or those whose name contains `CCM_SCENARIO`, as [`proof_of`].
///
/// # Panics
/// Panics like [`proof_of`], and if the scenario does not exist.
pub fn proof(cloud: MakeProfile, every: usize) -> Report {
    let chosen = std::env::var("CCM_SCENARIO").unwrap_or_default();
    let has_routes = cloud().capabilities().routes;
    let can_be = |scenario: &Scenario| {
        scenario.name.contains(&chosen) && (has_routes || !scenario.needs_routes())
    };
    let scenarios: Vec<_> = SCENARIOS.into_iter().filter(can_be).collect();
    assert!(
        !scenarios.is_empty(),
        "no scenario's name contains CCM_SCENARIO={chosen:?}"
    );
    proof_of(cloud, &scenarios, every)
}

/// Runs these scenarios at one crash point of `every`: 1, unless a cloud needs so many requests that all of them would
/// take too long. `CCM_CRASH_EVERY` overrides the number.
///
/// # Panics
/// Panics like [`at_every_request`], and if the variable is invalid.
pub fn proof_of(cloud: MakeProfile, scenarios: &[Scenario], every: usize) -> Report {
    let asked = std::env::var("CCM_CRASH_EVERY").ok();
    let every = asked.map_or(every, |text| {
        text.parse().expect("a number in CCM_CRASH_EVERY")
    });
    assert!(every > 0, "CCM_CRASH_EVERY must be 1 or more");
    if every > 1 {
        println!("(one crash point of {every} is tried)");
    }
    at_requests(cloud, scenarios, every)
}

/// Kills the program at every request of these scenarios, before and after it, and prints scenarios × crash points.
///
/// # Panics
/// If a run does not end like the undisturbed one; the text names the crash point and the differences.
pub fn at_every_request(cloud: MakeProfile, scenarios: &[Scenario]) -> Report {
    at_requests(cloud, scenarios, 1)
}

fn at_requests(cloud: MakeProfile, scenarios: &[Scenario], every: usize) -> Report {
    let report = try_requests(cloud, scenarios, every);
    println!("{report}");
    assert!(report.failures.is_empty(), "{}", report.explain());
    let unreached = report.unreached;
    let all = report.tried;
    assert!(
        unreached * 50 <= all,
        "{unreached} of {all} crash points were not reached: the order of requests is not fixed"
    );
    report
}

/// Crashes the program like [`at_every_request`], without a judgement.
#[must_use]
pub fn try_every_request(cloud: MakeProfile, scenarios: &[Scenario]) -> Report {
    try_requests(cloud, scenarios, 1)
}

fn try_requests(cloud: MakeProfile, scenarios: &[Scenario], every: usize) -> Report {
    let start = std::time::Instant::now();
    let references = Mutex::new(Vec::new());
    let report = Mutex::new(Report::default());
    let lock = || report.lock();
    in_parallel(scenarios.len(), |index| {
        match play::undisturbed(cloud, &scenarios[index]) {
            Ok(reference) => references.lock().push((index, reference)),
            Err(failure) => lock().failures.push(*failure),
        }
    });
    let mut references: Vec<(usize, Reference)> = references.into_inner();
    references.sort_by_key(|(index, _)| *index);
    let create = cloud().api().create;
    let moments = |request: &Passed| {
        let late =
            (request.side == Side::Cloud && request.is_on(create)).then_some(Moment::AfterNextRead);
        [Moment::Before, Moment::After].into_iter().chain(late)
    };
    let points: Vec<(&Scenario, &Reference, usize, Moment)> = references
        .iter()
        .flat_map(|(index, reference)| {
            let requests = (1..).zip(&reference.requests);
            requests.flat_map(move |(number, request)| {
                moments(request).map(move |moment| (&scenarios[*index], reference, number, moment))
            })
        })
        .step_by(every)
        .collect();
    in_parallel(points.len(), |index| {
        let (scenario, reference, number, moment) = points[index];
        let mut is_reached = Ok(false);
        for _ in 0..TRIES {
            is_reached = play::killed(cloud, scenario, reference, number, moment);
            if !matches!(is_reached, Ok(false)) {
                break;
            }
        }
        match is_reached {
            Ok(true) => {}
            Ok(false) => lock().unreached += 1,
            Err(failure) => lock().failures.push(*failure),
        }
    });
    let mut report = report.into_inner();
    let row = |(index, reference): &(usize, Reference)| {
        Row::new(scenarios[*index].name, &reference.requests)
    };
    report.rows = references.iter().map(row).collect();
    report
        .failures
        .sort_by_key(|failure| (failure.scenario, failure.number));
    report.tried = points.len();
    report.took = start.elapsed();
    report
}

/// Runs `count` pieces of work on all cores; each has a thread, and thus a virtual time, of its own.
pub(crate) fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    work(index);
                }
            });
        }
    });
}
