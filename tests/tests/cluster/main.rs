//! The manager as users run it: a Pod from the image, installed by the packaged chart, on a Node with a real kubelet.
//!
//! * `CCM_TEST_NODE_BED`: the folder of the test bed with the kubelet, which these tests start, use alone and remove.
//!   Root is needed.
//! * `CCM_TEST_IMAGE_BINARY`: the static binary of the image.
//! * `CCM_TEST_HELM`: helm. `kubectl`, `ctr` and `curl` are in the `PATH`.
//! * `CCM_TEST_HCLOUD_GO`: Hetzner's own cloud controller manager, a static binary. Without it, only the scenario that
//!   replaces that program is ignored.
//! * `CCM_TEST_E2E`: the network specs of Kubernetes' own end-to-end tests, as `.ci/node/e2e/build` makes them. Without
//!   it, only the scenario that runs one of them is ignored.
//! * `CCM_TEST_PROBES_OF_CHART`: if set, the hanging manager is restarted by the probes of the chart instead of faster
//!   ones, which takes about two minutes.
//!
//! Without one of the first three, each scenario is ignored, with the reason. The fakes of the clouds run in this
//! process, on loopback, so that requests of the Pods can be counted. The last lines are the duration of each step.

mod bed;
mod commands;
mod environment;
mod harness;
mod image;
mod installation;
mod keepalived;
mod lease;
mod plain_manifest;
mod pods;
mod probes;
mod release;
mod replacement;
mod specs;
mod standby;
mod steps;
mod target;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use ccm_tests::real::{self, play};
use libtest_mimic::Arguments;

use crate::environment::{Environment, Need};
use crate::steps::Steps;

/// Runs one scenario to its end on a runtime of its own.
type Play = fn(&Environment, &Steps) -> Result<()>;

macro_rules! scenarios {
    ($($need:ident $module:ident::$name:ident,)*) => {
        &[$((stringify!($name), Need::$need, |environment, steps| play($module::$name(environment, steps)))),*]
    };
}

/// Scenarios: the requirement of each, its module and its name.
const SCENARIOS: &[(&str, Need, Play)] = scenarios![
    Node plain_manifest::plain_manifest_initialises_the_first_node,
    Node release::hcloud_serves_a_cluster_from_its_first_node_to_the_uninstallation,
    Node release::aws_serves_a_cluster_from_its_first_node_to_the_uninstallation,
    Node release::azure_serves_a_cluster_from_its_first_node_to_the_uninstallation,
    Node keepalived::keepalived_assigns_addresses_until_and_after_the_uninstallation,
    Node standby::standby_leads_within_two_seconds_of_a_rolling_update_amid_work,
    Node probes::manager_that_hangs_is_restarted_by_the_kubelet,
    Node probes::wrong_credential_is_shown_by_describe_and_by_the_log,
    GoProgram replacement::image_of_hetzners_manifest_is_changed_to_ours_and_back_without_a_write,
    Specs specs::kubernetes_own_spec_of_the_cleanup_finalizer_passes,
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let environment = match Environment::from_variables() {
        Ok(environment) => Arc::new(environment),
        Err(error) => {
            eprintln!("cluster: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let steps = Arc::new(Steps::default());
    let trials = SCENARIOS.iter().map(|(name, need, scenario)| {
        let shared = (Arc::clone(&environment), Arc::clone(&steps));
        real::trial(name, environment.lacks(*need), move || {
            scenario(&shared.0, &shared.1)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    environment.end();
    steps.print();
    conclusion.exit_code()
}
