//! INV-2: crash at every request.

use ccm_tests::cloud_under_test::simulated_cloud;
use ccm_tests::crash::{SCENARIOS, at_every_request};

#[test]
fn killed_at_any_request_a_restart_converges_to_the_same_end_state() {
    let chosen = std::env::var("CCM_SCENARIO").unwrap_or_default();
    let scenarios: Vec<_> = SCENARIOS.into_iter().filter(|it| it.name.contains(&chosen)).collect();
    assert!(!scenarios.is_empty(), "no scenario's name contains CCM_SCENARIO={chosen:?}");
    at_every_request(simulated_cloud, &scenarios);
}
