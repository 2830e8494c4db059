//! Three replicas of the binary against a real kube-apiserver: changes of the leader, the time without one, and work
//! that continues with nothing doubled and nothing lost.
//!
//! The environment variables are those of the suite `kube_apiserver`; without them each scenario is ignored, with the
//! reason. The last lines are the measured gaps, with their requirements.
//!
//! A test cannot change the clock of the machine for one process only. A jumping clock of another machine affects a
//! replica only through the times in the Lease: the test writes such times instead.

#[path = "../kube_apiserver/environment.rs"]
mod environment;
mod gaps;
#[allow(dead_code, reason = "not all of what kubelets can do is needed here")]
#[path = "../kube_apiserver/kubelets.rs"]
mod kubelets;
mod lease;
mod lost;
mod replica;
mod role;
mod stage;
mod stopped;
mod tampered;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use ccm_tests::real::{self, play};
use libtest_mimic::Arguments;

use crate::environment::{Environment, Need};
use crate::gaps::Gaps;

/// Runs one scenario to its end on a runtime of its own.
type Play = fn(&Environment, &Gaps) -> Result<()>;

macro_rules! scenarios {
    ($($need:ident $module:ident::$name:ident,)*) => {
        &[$((stringify!($name), Need::$need, |environment, gaps| play($module::$name(environment, gaps)))),*]
    };
}

/// Scenarios: the requirement of each, its module and its name.
const SCENARIOS: &[(&str, Need, Play)] = scenarios![
    Cluster stopped::an_idle_leader_that_is_stopped_is_followed_within_a_second,
    Cluster stopped::where_the_lease_may_not_be_watched_it_takes_less_than_five_seconds,
    Cluster stopped::a_leader_stopped_in_the_middle_of_work_finishes_it_and_then_hands_over,
    Cluster lost::a_killed_leader_is_followed_when_its_lease_has_expired,
    Cluster lost::a_frozen_leader_changes_nothing_when_it_goes_on,
    Faults lost::an_api_server_that_is_restarted_costs_no_leader,
    Faults lost::an_api_server_that_stays_away_costs_the_leader_and_another_follows,
    Cluster tampered::a_lease_that_a_person_deletes_is_back_and_its_leader_stays,
    Cluster tampered::times_that_a_wrong_clock_writes_into_the_lease_change_nothing,
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let environment = match Environment::from_variables() {
        Ok(environment) => Arc::new(environment),
        Err(error) => {
            eprintln!("replicas: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let gaps = Arc::new(Gaps::default());
    let trials = SCENARIOS.iter().map(|(name, need, scenario)| {
        let shared = (Arc::clone(&environment), Arc::clone(&gaps));
        real::trial(name, environment.lacks(*need), move || {
            scenario(&shared.0, &shared.1)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    gaps.print();
    conclusion.exit_code()
}
