//! The binary, as a process of its own, against a real OpenStack.
//!
//! * `CCM_TEST_OPENSTACK`: the directory in which the test bed writes its settings (`openrc` of an administrator, `ids.json`
//!   of what was seeded). Without it every scenario is ignored, with that reason.
//! * `CCM_TEST_OPENSTACK_SERVICES`: the test bed's `svc.sh`, which stops and freezes services; the scenarios that need it are
//!   ignored without it.
//! * `CCM_TEST_BINARY`: the binary; unless it is set, the one of this build.
//!
//! Each scenario has a project of its own with a network, a router and three servers, and a Kubernetes API in this
//! process. The program's requests pass a relay, which counts them and can end a run at any of them. The objects of the
//! project are read before and after, from the APIs of the cloud, and must be equal.

mod cloud;
mod cost;
mod crash;
mod credentials;
mod environment;
mod families;
mod moves;
mod nodes;
mod outages;
mod project;
mod relay;
mod repairs;
mod routes;
mod scene;
mod services;
mod sharing;
mod snapshot;
mod take_over;
mod tls;
mod trunks;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use ccm_tests::real;
use futures::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Trial};

use crate::environment::{Environment, Need};

/// Number of scenarios that run concurrently: most of the time each waits for the cloud.
const AT_A_TIME: usize = 5;

/// Function that runs a scenario.
type Play = for<'a> fn(&'a Environment) -> LocalBoxFuture<'a, Result<()>>;

macro_rules! scenarios {
    ($($need:ident $module:ident::$name:ident,)*) => {
        &[$((stringify!($name), Need::$need, |environment| Box::pin($module::$name(environment)))),*]
    };
}

/// Scenarios: the requirement of each, its module and its name. The one that must run alone is the first, so that it
/// waits for no others; the longest ones follow. docs/testing.md says why each runs here.
const SCENARIOS: &[(&str, Need, Play)] = scenarios![
    Services outages::services_that_stop_in_the_middle_cost_nothing,
    Cloud crash::killed_at_every_request_of_a_service_it_ends_as_undisturbed,
    Cloud cost::reads_grow_with_pages_and_writes_with_changes,
    CloudAfterChange services::a_service_is_made_changed_and_taken_away,
    Cloud moves::a_service_moves_between_load_balancers,
    CloudAfterChange families::services_are_reached_by_ipv6_alone_first_and_second,
    CloudAfterChange sharing::floating_ips_are_kept_taken_and_given_back,
    CloudAfterChange sharing::services_share_a_load_balancer_and_the_last_takes_it_along,
    CloudAfterChange repairs::a_load_balancer_that_fails_is_replaced,
    CloudAfterChange repairs::a_load_balancer_that_somebody_deleted_is_made_again,
    CloudAfterChange take_over::what_the_go_program_wrote_is_accepted_with_no_change,
    Cloud credentials::application_credentials_and_trusts_are_enough,
    Cloud credentials::a_credential_of_another_project_deletes_nothing,
    Cloud credentials::a_wrong_password_deletes_nothing_and_a_new_one_is_taken_up,
    Cloud credentials::a_worthless_token_is_renewed_without_a_trace,
    CloudAfterChange tls::a_tls_reference_is_looked_for_and_ends_tls,
    Trunks trunks::addresses_of_ports_that_a_trunk_carries_are_the_nodes,
    CloudAfterChange nodes::servers_give_nodes_their_identity_their_taint_and_their_end,
    CloudAfterChange routes::each_node_has_its_route_and_foreign_routes_stay,
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    let environment = match Environment::from_variables() {
        Ok(environment) => Arc::new(environment),
        Err(error) => {
            eprintln!("openstack: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let trials = SCENARIOS
        .iter()
        .map(|(name, need, play)| trial(name, *need, *play, &environment))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let is_there = environment.lacks(Need::Cloud).is_none() && !arguments.list;
    match is_there.then(|| {
        environment
            .runtime
            .block_on(project::clean_up(&environment))
    }) {
        Some(Err(error)) => {
            eprintln!("openstack: cleaning up: {error:#}");
            ExitCode::FAILURE
        }
        _ => conclusion.exit_code(),
    }
}

fn trial(name: &'static str, need: Need, play: Play, environment: &Arc<Environment>) -> Trial {
    real::trial(name, environment.lacks(need), {
        let environment = Arc::clone(environment);
        move || {
            let start = Instant::now();
            let played = environment.runtime.block_on(play(&environment));
            println!("  {name} took {:.1} s", start.elapsed().as_secs_f64());
            played
        }
    })
}
