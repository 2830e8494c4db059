//! A harness with the simulated cloud at hand.

use ccm_conformance::Harness;
use ccm_tests::profiles::SimulatedCloud;
use provider_simulated::cloud::Cloud;

/// Returns a harness with routes, and its cloud.
pub(crate) fn harness() -> (Harness, Cloud) {
    let cloud = SimulatedCloud::default();
    (Harness::with_routes(&cloud), cloud.0)
}
