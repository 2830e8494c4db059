//! A stage with the simulated cloud at hand, and what all tests do on it.

use ccm_tests::cloud_under_test::SimulatedCloud;
pub(crate) use ccm_tests::scene::{join, settle, with_routes};
use ccm_tests::stage::Stage;
use controllers::Options;
use provider_simulated::cloud::{self, Cloud};

/// A stage, and its cloud.
pub(crate) fn stage() -> (Stage, Cloud) {
    stage_with(Options::default())
}

/// A stage on which routes are made, and its cloud.
pub(crate) fn stage_with_routes() -> (Stage, Cloud) {
    stage_with(with_routes())
}

/// A stage with these options, and its cloud.
pub(crate) fn stage_with(options: Options) -> (Stage, Cloud) {
    let cloud = Cloud::new(cloud::Options { operation_milliseconds: 1500, ..cloud::Options::default() });
    (Stage::new(Box::new(SimulatedCloud(cloud.clone())), options, 1), cloud)
}
