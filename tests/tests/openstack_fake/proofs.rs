//! What every provider passes: killed at every request; chaos.

use ccm_tests::chaos::{self, Seeds};
use ccm_tests::crash::{SCENARIOS, at_one_request_of};
use ccm_tests::openstack_cloud::openstack_cloud;

/// OpenStack needs thousands of requests for what other clouds do in hundreds. Odd, so that both moments of a request are met.
const EVERY: usize = 9;
/// Seeds of trouble, for the same reason; `CCM_SEEDS` says another number.
const TROUBLES: u64 = 30;

#[test]
fn killed_at_any_request_a_restart_converges_to_the_same_end_state() {
    let chosen = std::env::var("CCM_SCENARIO").unwrap_or_default();
    let scenarios: Vec<_> = SCENARIOS.into_iter().filter(|it| it.name.contains(&chosen)).collect();
    assert!(!scenarios.is_empty(), "no scenario's name contains CCM_SCENARIO={chosen:?}");
    at_one_request_of(EVERY, openstack_cloud, &scenarios);
}

#[test]
fn after_all_trouble_everything_converges_and_nothing_is_leaked() {
    let seeds = Seeds::from_environment(TROUBLES);
    let total = chaos::survive(openstack_cloud, &seeds);
    assert!(total.operations >= 40 * seeds.count() && total.troubles >= 30 * seeds.count(), "{total}");
}
