//! An execution of a scenario: undisturbed, or with a crash.

use std::cell::Cell;
use std::time::Duration;

use controllers::Options;

use super::report::Failure;
use super::{Scenario, Step};
use crate::end_state::EndState;
use crate::fault_injector::{Moment, Passed};
use crate::harness::Harness;
use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;

/// Time-out for everything to settle after an action, crash and back-off included, in virtual time.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Time in which operations that are in progress when everything has settled, such as those of the cloud, end.
const LINGER: Duration = Duration::from_secs(6);
/// Time for which everything must stay settled and idle at the end.
const QUIET: Duration = Duration::from_secs(60);
/// Time between the start of a run and the next action.
const PAUSE: Duration = Duration::from_secs(1);
/// The order of requests must be the same in each play: so must be every jitter.
const SEED: u64 = 1;

/// Requests and end state of the undisturbed execution.
pub(super) struct Reference {
    pub(super) requests: Vec<Passed>,
    end: EndState,
}

/// Returns a harness on which one request follows the other: one worker everywhere.
fn harness(cloud: MakeProfile, scenario: &Scenario) -> Harness {
    fastrand::seed(SEED);
    let mut options = Options::default();
    options.node.concurrent_node_syncs = 1;
    options.service.concurrent_syncs = 1;
    options.route.concurrency = 1;
    let builder = Harness::boxed(cloud()).options(options).seed(SEED);
    if scenario.routes {
        builder.routes().build()
    } else {
        builder.build()
    }
}

/// Runs the set-up in a run of its own.
fn set_up(
    harness: &Harness,
    time: &mut VirtualTime,
    scenario: &Scenario,
) -> Result<(), Vec<String>> {
    let Some(set_up) = scenario.set_up else {
        return Ok(());
    };
    time.live(async || {
        let program = start(harness).await?;
        set_up(harness).await;
        harness.settle_within(PATIENCE).await?;
        tokio::time::sleep(LINGER).await;
        program.stop().await;
        Ok(())
    })
}

async fn start(harness: &Harness) -> Result<crate::harness::Program, Vec<String>> {
    harness
        .start()
        .await
        .map_err(|error| vec![format!("the program does not start: {error:#}")])
}

/// Plays the steps from `done` on, up to the end or the program's death.
async fn act(
    harness: &Harness,
    scenario: &Scenario,
    done: &Cell<usize>,
) -> Result<(), Vec<String>> {
    let _program = start(harness).await?;
    tokio::time::sleep(PAUSE).await;
    let before = done
        .get()
        .checked_sub(1)
        .and_then(|last| scenario.steps.get(last));
    if !matches!(before, Some(Step::Then(..))) {
        harness.settle_within(PATIENCE).await?;
    }
    while let Some(step) = scenario.steps.get(done.get()) {
        let (Step::Settled(action) | Step::Then(action, _)) = step;
        action(harness).await;
        done.set(done.get() + 1);
        match step {
            Step::Settled(_) => harness.settle_within(PATIENCE).await?,
            Step::Then(_, pause) => tokio::time::sleep(*pause).await,
        }
    }
    Ok(())
}

async fn act_and_linger(
    harness: &Harness,
    scenario: &Scenario,
    done: &Cell<usize>,
) -> Result<(), Vec<String>> {
    act(harness, scenario, done).await?;
    tokio::time::sleep(LINGER).await;
    Ok(())
}

pub(super) fn undisturbed(
    cloud: MakeProfile,
    scenario: &Scenario,
) -> Result<Reference, Box<Failure>> {
    let harness = harness(cloud, scenario);
    let mut time = VirtualTime::default();
    let done = Cell::new(0);
    let mut play = || {
        set_up(&harness, &mut time, scenario)?;
        let before = harness.injector.count();
        time.live(async || {
            act_and_linger(&harness, scenario, &done).await?;
            let requests = harness.injector.passed().split_off(before);
            let end = EndState::of(&harness);
            let mutations = harness.injector.mutations();
            tokio::time::sleep(QUIET).await;
            match silent(&harness, mutations, &end) {
                problems if problems.is_empty() => Ok(Reference { requests, end }),
                problems => Err(problems),
            }
        })
    };
    play().map_err(|problems| Box::new(Failure::undisturbed(scenario.name, problems, &harness)))
}

/// Runs the scenario with a crash. Returns whether the request was sent at all: tasks that are ready at the same moment
/// may run in another order than in the undisturbed run, and shared work may then take fewer requests. Such a run ends
/// undisturbed, and counts as a success.
pub(super) fn killed(
    cloud: MakeProfile,
    scenario: &Scenario,
    reference: &Reference,
    number: usize,
    moment: Moment,
) -> Result<bool, Box<Failure>> {
    let harness = harness(cloud, scenario);
    let mut time = VirtualTime::default();
    let done = Cell::new(0);
    let mut play = || {
        set_up(&harness, &mut time, scenario)?;
        harness.injector.kill_at(number, moment);
        let died = time.live(async || {
            tokio::select! {
                biased;
                () = harness.injector.died() => Ok(true),
                outcome = act_and_linger(&harness, scenario, &done) => outcome.map(|()| false),
            }
        })?;
        harness.injector.revive();
        time.live(async || {
            act_and_linger(&harness, scenario, &done).await?;
            equal(&harness, &reference.end).await?;
            let mutations = harness.injector.mutations();
            tokio::time::sleep(QUIET).await;
            let problems = silent(&harness, mutations, &reference.end);
            if problems.is_empty() {
                Ok(died)
            } else {
                Err(problems)
            }
        })
    };
    let request = reference.requests.get(number - 1).cloned();
    play().map_err(|problems| {
        Box::new(Failure {
            scenario: scenario.name,
            number,
            moment: Some(moment),
            request,
            problems,
            last: harness.injector.last(12),
            warnings: harness.warnings(5),
        })
    })
}

/// Waits until the state equals that after the undisturbed run.
async fn equal(harness: &Harness, end: &EndState) -> Result<(), Vec<String>> {
    let deadline = tokio::time::Instant::now() + PATIENCE / 3;
    loop {
        let differences = end.differences(&EndState::of(harness));
        if differences.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(differences);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// Returns the problems since `mutations` were counted: nothing may have been changed.
fn silent(harness: &Harness, mutations: usize, end: &EndState) -> Vec<String> {
    let mut problems = harness.violations();
    problems.extend(end.differences(&EndState::of(harness)));
    let more = harness.injector.mutations() - mutations;
    // Hopeless changes are retried forever.
    if more > 0 && !harness.has_hopeless() {
        problems.push(format!(
            "{more} mutating requests although everything is settled (INV-3)"
        ));
    }
    problems
}
