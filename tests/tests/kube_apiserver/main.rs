//! The binary, as a process of its own, against a real kube-apiserver.
//!
//! * `CCM_TEST_KUBECONFIG`: the kubeconfig of a *test* cluster: Nodes, Services and volumes called `e2e-…` are created
//!   and deleted in it. Without it every scenario is ignored, with that reason. The scenario of the routes needs a
//!   kube-controller-manager that allocates the Nodes' Pod CIDRs from 10.244.0.0/16.
//! * `CCM_TEST_FAULTS`: the test bed's `fault.sh`, which kills, restarts, pauses and compacts the API server; the
//!   scenarios that need it are ignored without it. It gets this process's environment.
//! * `CCM_TEST_BINARY`: the binary; unless it is set, the one of this build.
//!
//! The simulated cloud runs in this process, and so do the kubelets: they register Nodes, renew Leases and report
//! readiness, so that the scenarios pass with and without kube-controller-manager. Scenarios run one at a time, because
//! every binary manages every Node of the cluster.
//!
//! The arguments are those of `cargo test`: a word selects scenarios by name, `--list` lists them.

mod addresses;
mod balancing;
mod cluster;
mod environment;
mod initialisation;
mod kubelets;
mod lifecycle;
mod outages;
mod recreation;
mod renewal;
mod routes;
mod scene;
mod service_mistakes;
mod service_outages;
mod services;
mod steady_state;
mod tenants;
mod users;
mod volumes;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use ccm_tests::real::{self, play};
use libtest_mimic::Arguments;

use crate::environment::{Environment, Need};

/// Runs one scenario to its end on a runtime of its own.
type Play = fn(&Environment) -> Result<()>;

macro_rules! scenarios {
    ($($need:ident $module:ident::$name:ident,)*) => {
        &[$((stringify!($name), Need::$need, |environment| play($module::$name(environment)))),*]
    };
}

/// Scenarios: the requirement of each, its module and its name.
const SCENARIOS: &[(&str, Need, Play)] = scenarios![
    Cluster initialisation::new_nodes_get_their_identity_in_two_writes_each_and_one_event,
    Cluster initialisation::a_node_that_registers_later_is_initialised_as_well,
    Cluster addresses::addresses_that_change_in_the_cloud_change_on_the_node_and_in_its_route,
    Cluster lifecycle::a_stopped_machine_taints_its_node_until_it_is_started_again,
    Cluster lifecycle::a_terminated_machine_takes_its_node_with_it,
    Cluster lifecycle::a_revoked_credential_deletes_nothing,
    Cluster lifecycle::a_credential_of_an_empty_project_deletes_nothing,
    Cluster recreation::nodes_created_again_under_the_same_name_get_their_new_machine_and_stay,
    Cluster steady_state::a_steady_state_writes_nothing,
    Cluster services::a_service_gets_a_load_balancer_in_three_writes_and_takes_it_along_in_two,
    Cluster services::ports_nodes_and_types_that_change_reach_the_load_balancer,
    Cluster services::a_service_of_another_class_is_left_alone,
    Cluster services::the_health_check_follows_the_external_traffic_policy,
    Cluster services::an_abandoned_service_goes_and_its_load_balancer_stays,
    Cluster services::a_flapping_node_and_a_restart_change_nothing,
    Cluster service_mistakes::whoever_writes_a_service_is_warned_of_its_mistakes,
    Cluster service_mistakes::a_service_with_new_mistakes_is_denied_where_the_operator_wants_that,
    Cluster tenants::policy_keeps_annotations_that_reach_beyond_a_service_for_administrators,
    Cluster service_outages::a_program_killed_amid_services_leaks_and_doubles_nothing,
    Cluster service_outages::a_revoked_credential_is_named_on_each_service_until_it_is_good_again,
    Cluster service_outages::a_protected_load_balancer_is_named_on_its_service_and_goes_once_it_may,
    Cluster renewal::a_token_that_becomes_worthless_is_replaced_without_a_restart,
    Cluster routes::each_node_has_its_route_and_foreign_routes_stay,
    Cluster volumes::volumes_of_this_cloud_get_their_topology_and_others_are_left_alone,
    Faults service_outages::an_api_server_killed_amid_services_leaks_and_doubles_nothing,
    Faults outages::an_api_server_killed_in_the_middle_of_a_burst_costs_no_node,
    Faults outages::an_api_server_paused_in_the_middle_of_a_burst_costs_no_node,
    Faults outages::a_history_that_was_compacted_meanwhile_is_listed_again,
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let environment = match Environment::from_variables() {
        Ok(environment) => Arc::new(environment),
        Err(error) => {
            eprintln!("kube_apiserver: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let trials = SCENARIOS.iter().map(|(name, need, scenario)| {
        let shared = Arc::clone(&environment);
        real::trial(name, environment.lacks(*need), move || scenario(&shared))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
