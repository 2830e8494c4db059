//! What every provider passes: killed at every request; chaos.

use ccm_tests::chaos::{self, Seeds};
use ccm_tests::crash::{SCENARIOS, at_every_request};
use ccm_tests::hetzner_cloud::hetzner_cloud;

#[test]
fn killed_at_any_request_a_restart_converges_to_the_same_end_state() {
    let chosen = std::env::var("CCM_SCENARIO").unwrap_or_default();
    let scenarios: Vec<_> = SCENARIOS.into_iter().filter(|it| it.name.contains(&chosen)).collect();
    assert!(!scenarios.is_empty(), "no scenario's name contains CCM_SCENARIO={chosen:?}");
    at_every_request(hetzner_cloud, &scenarios);
}

#[test]
fn after_all_trouble_everything_converges_and_nothing_is_leaked() {
    let seeds = Seeds::from_environment(60);
    let total = chaos::survive(hetzner_cloud, &seeds);
    assert!(total.operations >= 40 * seeds.count() && total.troubles >= 30 * seeds.count(), "{total}");
}
