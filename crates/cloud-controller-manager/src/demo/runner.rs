//! Runs the scenario: performs the actions of each step and waits until its expectations are fulfilled.

use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

use super::expectation::{ExpectationVerdict, judge};
use super::observed::{Baseline, Observed};
use super::report::{Report, StepCost, peak_memory};
use super::requests::Requests;
use super::scenario::{Action, ScenarioStep};
use super::timeline::Timeline;

/// Minimum time between observations, because each reads all Nodes.
const PAUSE: Duration = Duration::from_millis(20);

/// The environment in which the scenario runs.
pub(super) trait Harness {
    /// Performs an action. An error ends the scenario.
    async fn act(&mut self, action: &Action) -> Result<(), String>;
    /// Returns the current state of the Kubernetes API and the cloud.
    fn observe(&mut self) -> Observed;
    /// Returns when there may be a new state to observe; occasionally also without one.
    async fn changed(&mut self);
    /// Returns the numbers of requests so far.
    fn requests(&self) -> Requests;
    /// Returns the last error of the demo's own components, if any.
    fn last_error(&self) -> Option<String>;
}

/// The progress of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of objects that fulfil the expectation.
    pub(super) done: usize,
    /// Number of objects that must fulfil it.
    pub(super) of: usize,
}

/// The result of a step.
#[derive(Debug)]
pub(super) struct StepOutcome {
    /// Duration of the step.
    pub(super) took: Duration,
    /// Lines that show the success, or the failure.
    pub(super) result: Result<Vec<String>, Failure>,
}

/// A step that was not successful.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Text of the expectation.
    pub(super) expected: String,
    /// Text about the state that was observed instead.
    pub(super) seen: String,
}

/// Runs a scenario of this many Nodes and Services to its end, or to the first step that fails. The error is one line
/// with the step, the expectation and the observed state.
pub(super) async fn run<S: Harness, W: Write>(
    scenario: &[ScenarioStep],
    [nodes, services]: [usize; 2],
    harness: &mut S,
    timeline: &mut Timeline<W>,
) -> Result<(), String> {
    let started = Instant::now();
    let mut steps = Vec::new();
    let mut result = Ok(());
    for step in scenario {
        let outcome = run_step(harness, step, |progress| {
            timeline.progress(started.elapsed(), step, progress);
        })
        .await;
        timeline.step(started.elapsed(), step, &outcome);
        steps.push(StepCost {
            name: step.name,
            took: outcome.took,
            requests: harness.requests(),
        });
        if let Err(Failure { expected, seen }) = outcome.result {
            let last_error = harness
                .last_error()
                .map(|last_error| format!("; {last_error}"))
                .unwrap_or_default();
            result = Err(format!(
                "step {:?} did not happen: expected {expected}; seen: {seen}{last_error}",
                step.name
            ));
            break;
        }
        if let Some(failure) = timeline.failure() {
            result = Err(failure);
            break;
        }
    }
    let ok = result.is_ok();
    let took = started.elapsed();
    timeline.report(&Report {
        nodes,
        services,
        ok,
        steps,
        took,
        peak_memory: peak_memory(),
    });
    result
}

async fn run_step<S: Harness>(
    harness: &mut S,
    step: &ScenarioStep,
    mut progress: impl FnMut(&Progress),
) -> StepOutcome {
    let started = Instant::now();
    let result = step_result(harness, step, started + step.within, &mut progress).await;
    StepOutcome {
        took: started.elapsed(),
        result,
    }
}

async fn step_result<S: Harness>(
    harness: &mut S,
    step: &ScenarioStep,
    deadline: Instant,
    progress: &mut impl FnMut(&Progress),
) -> Result<Vec<String>, Failure> {
    let failure = |expected, seen| Failure { expected, seen };
    let mut before = Baseline::new(&harness.observe());
    for action in &step.actions {
        let late = || format!("that was not done after {} s", step.within.as_secs());
        let done = tokio::time::timeout_at(deadline, harness.act(action)).await;
        done.unwrap_or_else(|_| Err(late()))
            .map_err(|seen| failure(format!("{action:?}"), seen))?;
    }
    before.acted = harness.observe().at;
    loop {
        let (expected, verdict) = judge(&step.expectations, &before, &harness.observe());
        match verdict {
            ExpectationVerdict::Happened(shown) => return Ok(shown),
            ExpectationVerdict::Broken(seen) => return Err(failure(expected, seen)),
            ExpectationVerdict::Waiting { seen, .. } if Instant::now() >= deadline => {
                return Err(failure(
                    expected,
                    format!("{seen}, after {} s", step.within.as_secs()),
                ));
            }
            ExpectationVerdict::Waiting { done, of, .. } => progress(&Progress { done, of }),
        }
        tokio::time::sleep(PAUSE).await;
        _ = tokio::time::timeout_at(deadline, harness.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cloud_provider::names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED};
    use cloud_provider::{Node, Taint};

    use super::*;
    use crate::demo::expectation::Expectation;

    /// A cluster in which one Node after another registers, up to a number.
    struct Script {
        nodes: Vec<Arc<Node>>,
        most: usize,
        refuses: bool,
        acted: Vec<Action>,
    }

    impl Harness for Script {
        async fn act(&mut self, action: &Action) -> Result<(), String> {
            self.acted.push(action.clone());
            if self.refuses {
                Err("the port is taken".to_owned())
            } else {
                Ok(())
            }
        }
        fn observe(&mut self) -> Observed {
            Observed {
                nodes: self.nodes.clone(),
                ..Observed::default()
            }
        }
        fn requests(&self) -> Requests {
            Requests::default()
        }
        fn last_error(&self) -> Option<String> {
            Some("the kubelet of n2: refused".to_owned())
        }
        async fn changed(&mut self) {
            if self.nodes.len() == self.most {
                return std::future::pending().await;
            }
            let name: Box<str> = format!("n{}", self.nodes.len()).into();
            let taints = [Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE)].into();
            self.nodes.push(Arc::new(Node {
                uid: name.clone(),
                name,
                taints,
                ..Node::default()
            }));
        }
    }

    fn script(most: usize) -> Script {
        Script {
            nodes: Vec::new(),
            most,
            refuses: false,
            acted: Vec::new(),
        }
    }

    fn step(nodes: usize) -> ScenarioStep {
        ScenarioStep {
            name: "register",
            title: "Nodes register".to_owned(),
            actions: vec![Action::StartKubelets],
            expectations: vec![Expectation::Registered { nodes }],
            within: Duration::from_secs(30),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_ends_when_the_api_shows_it() {
        let mut harness = script(9);
        let mut reported = Vec::new();
        let outcome = run_step(&mut harness, &step(3), |progress| {
            reported.push(progress.done);
        })
        .await;
        assert_eq!(
            (outcome.result, harness.acted),
            (Ok(vec![]), vec![Action::StartKubelets])
        );
        assert_eq!(reported, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_does_not_happen_says_what_was_expected_and_what_was_seen() {
        let outcome = run_step(&mut script(2), &step(3), |_| {}).await;
        let failure = outcome.result.unwrap_err();
        assert_eq!(failure.expected, "3 Nodes with the uninitialized taint");
        assert_eq!(failure.seen, "2 of 2 Nodes are so, after 30 s");
        assert_eq!(outcome.took.as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_that_fails_ends_the_step_at_once() {
        let mut harness = Script {
            refuses: true,
            ..script(9)
        };
        let outcome = run_step(&mut harness, &step(3), |_| {}).await;
        assert_eq!(outcome.result.unwrap_err().seen, "the port is taken");
        assert!(outcome.took.is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_step_that_does_not_happen_ends_the_story_in_one_line() {
        use crate::demo::timeline::{Style, Width};

        let mut out = Vec::new();
        let mut timeline = Timeline::new(
            &mut out,
            Style {
                colour: false,
                live: false,
                json: true,
            },
            Width::of_terminal(),
        );
        let scenario = [
            step(2),
            ScenarioStep {
                name: "impossible",
                ..step(3)
            },
            ScenarioStep {
                name: "never",
                ..step(2)
            },
        ];
        let error = run(&scenario, [3, 0], &mut script(2), &mut timeline)
            .await
            .unwrap_err();
        assert_eq!(
            error,
            "step \"impossible\" did not happen: expected 3 Nodes with the uninitialized taint; seen: 2 of 2 Nodes \
             are so, after 30 s; the kubelet of n2: refused"
        );
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(
            (&lines[0]["ok"], &lines[1]["ok"]),
            (&true.into(), &false.into())
        );
        assert_eq!(lines[2]["summary"]["ok"], false);
    }
}
