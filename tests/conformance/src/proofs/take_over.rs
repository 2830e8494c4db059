//! D-11: what another program left is accepted as it is.

use std::time::Duration;

use crate::fault_injector::Passed;
use crate::harness::Harness;

/// Returns the changes and events of a run of the program over the harness: none, if the program accepts the state.
///
/// # Panics
/// If it does not start.
pub async fn objections(harness: &Harness) -> Vec<String> {
    let before = harness.injector.passed().len();
    let program = harness.start().await.expect("a start");
    tokio::time::sleep(Duration::from_secs(700)).await;
    program.stop().await;
    let changes = harness
        .injector
        .passed()
        .split_off(before)
        .into_iter()
        .filter(Passed::is_mutation);
    changes
        .map(|request| request.to_string())
        .chain(harness.warnings(5))
        .collect()
}
