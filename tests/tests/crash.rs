//! INV-2: crash at every request.

use ccm_tests::cloud_under_test::simulated_cloud;
use ccm_tests::crash;

#[test]
fn killed_at_any_request_a_restart_converges_to_the_same_end_state() {
    crash::proof(simulated_cloud, 1);
}
