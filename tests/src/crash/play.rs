//! One play of a scenario: undisturbed, or with a crash.

use std::cell::Cell;
use std::time::Duration;

use controllers::Options;

use super::report::Failure;
use super::{MakeCloud, Scenario, Step};
use crate::end_state::EndState;
use crate::gate::{Moment, Passed};
use crate::stage::Stage;
use crate::virtual_time::VirtualTime;

/// How long, in virtual time, things may take to settle after an action, crash and back-off included.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// What is still under way when everything is settled, such as an operation of the cloud, ends in this time.
const LINGER: Duration = Duration::from_secs(6);
/// How long it must stay settled and silent in the end.
const QUIET: Duration = Duration::from_secs(60);
/// Between the start of a life and the next action.
const PAUSE: Duration = Duration::from_secs(1);
/// The order of requests must be the same in each play: so must be every jitter.
const SEED: u64 = 1;

/// What the undisturbed play was like.
pub(super) struct Reference {
    pub(super) requests: Vec<Passed>,
    end: EndState,
}

/// A stage on which one request follows the other: one worker everywhere.
fn stage(cloud: MakeCloud, scenario: &Scenario) -> Stage {
    fastrand::seed(SEED);
    let mut options = Options::default();
    options.node.concurrent_node_syncs = 1;
    options.service.concurrent_syncs = 1;
    options.route.concurrency = 1;
    if scenario.routes {
        options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().expect("a range")];
    }
    Stage::new(cloud(), options, SEED)
}

/// Plays the set-up, in a life of its own.
fn set_up(stage: &Stage, time: &mut VirtualTime, scenario: &Scenario) -> Result<(), Vec<String>> {
    let Some(set_up) = scenario.set_up else { return Ok(()) };
    time.live(async || {
        let program = start(stage).await?;
        set_up(stage).await;
        stage.settle(PATIENCE).await?;
        tokio::time::sleep(LINGER).await;
        program.stop().await;
        Ok(())
    })
}

async fn start(stage: &Stage) -> Result<crate::stage::Program, Vec<String>> {
    stage.start().await.map_err(|error| vec![format!("the program does not start: {error:#}")])
}

/// Plays the steps from `done` on, up to the end or the program's death.
async fn act(stage: &Stage, scenario: &Scenario, done: &Cell<usize>) -> Result<(), Vec<String>> {
    let _program = start(stage).await?;
    tokio::time::sleep(PAUSE).await;
    let before = done.get().checked_sub(1).and_then(|last| scenario.steps.get(last));
    if !matches!(before, Some(Step::Then(..))) {
        stage.settle(PATIENCE).await?;
    }
    while let Some(step) = scenario.steps.get(done.get()) {
        let (Step::Settled(action) | Step::Then(action, _)) = step;
        action(stage).await;
        done.set(done.get() + 1);
        match step {
            Step::Settled(_) => stage.settle(PATIENCE).await?,
            Step::Then(_, pause) => tokio::time::sleep(*pause).await,
        }
    }
    Ok(())
}

async fn act_and_linger(stage: &Stage, scenario: &Scenario, done: &Cell<usize>) -> Result<(), Vec<String>> {
    act(stage, scenario, done).await?;
    tokio::time::sleep(LINGER).await;
    Ok(())
}

pub(super) fn undisturbed(cloud: MakeCloud, scenario: &Scenario) -> Result<Reference, Box<Failure>> {
    let (stage, mut time, done) = (stage(cloud, scenario), VirtualTime::default(), Cell::new(0));
    let mut play = || {
        set_up(&stage, &mut time, scenario)?;
        let before = stage.gate.count();
        time.live(async || {
            act_and_linger(&stage, scenario, &done).await?;
            let requests = stage.gate.passed().split_off(before);
            let (end, mutations) = (EndState::of(&stage), stage.gate.mutations());
            tokio::time::sleep(QUIET).await;
            match silent(&stage, mutations, &end) {
                problems if problems.is_empty() => Ok(Reference { requests, end }),
                problems => Err(problems),
            }
        })
    };
    play().map_err(|problems| Box::new(Failure::undisturbed(scenario.name, problems, &stage)))
}

/// Plays with a crash. Whether the request was made at all: tasks that are ready at the same moment may run in another order
/// than in the undisturbed play, and what they share may then take fewer requests. Such a play ends undisturbed, and well.
pub(super) fn killed(
    cloud: MakeCloud,
    scenario: &Scenario,
    reference: &Reference,
    number: usize,
    moment: Moment,
) -> Result<bool, Box<Failure>> {
    let (stage, mut time, done) = (stage(cloud, scenario), VirtualTime::default(), Cell::new(0));
    let mut play = || {
        set_up(&stage, &mut time, scenario)?;
        stage.gate.kill_at(number, moment);
        let died = time.live(async || {
            tokio::select! {
                biased;
                () = stage.gate.died() => Ok(true),
                outcome = act_and_linger(&stage, scenario, &done) => outcome.map(|()| false),
            }
        })?;
        stage.gate.revive();
        time.live(async || {
            act_and_linger(&stage, scenario, &done).await?;
            equal(&stage, &reference.end).await?;
            let mutations = stage.gate.mutations();
            tokio::time::sleep(QUIET).await;
            let problems = silent(&stage, mutations, &reference.end);
            if problems.is_empty() { Ok(died) } else { Err(problems) }
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
            last: stage.gate.last(12),
            warnings: stage.warnings(5),
        })
    })
}

/// Waits until everything looks as after the undisturbed play.
async fn equal(stage: &Stage, end: &EndState) -> Result<(), Vec<String>> {
    let deadline = tokio::time::Instant::now() + PATIENCE / 3;
    loop {
        let differences = end.differences(&EndState::of(stage));
        if differences.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(differences);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// What was wrong with the time since `mutations` were counted: nothing may have been changed.
fn silent(stage: &Stage, mutations: usize, end: &EndState) -> Vec<String> {
    let mut problems = stage.violations();
    problems.extend(end.differences(&EndState::of(stage)));
    let more = stage.gate.mutations() - mutations;
    // What cannot succeed is tried again and again.
    if more > 0 && !stage.has_hopeless() {
        problems.push(format!("{more} mutating requests although everything is settled (INV-3)"));
    }
    problems
}
