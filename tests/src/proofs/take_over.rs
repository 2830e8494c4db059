//! D-11: what another program left is accepted as it is.

use std::time::Duration;

use crate::gate::Passed;
use crate::stage::Stage;

/// What a life of the program does to, and says of, what is on this stage: nothing, if it accepts it as it is.
///
/// # Panics
/// If it does not start.
pub async fn objections(stage: &Stage) -> Vec<String> {
    let before = stage.gate.passed().len();
    let program = stage.start().await.expect("a start");
    tokio::time::sleep(Duration::from_secs(700)).await;
    program.stop().await;
    let changes = stage.gate.passed().split_off(before).into_iter().filter(Passed::is_mutation);
    changes.map(|it| it.to_string()).chain(stage.warnings(5)).collect()
}
