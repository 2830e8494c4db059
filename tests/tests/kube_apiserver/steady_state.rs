//! Steady state: no writes without changes.

use anyhow::{Result, ensure};
use ccm_tests::wait::until;

use crate::cluster::{events, times};
use crate::environment::Environment;
use crate::scene::{SOON, play_counted};

pub(crate) async fn a_steady_state_writes_nothing(environment: &Environment) -> Result<()> {
    play_counted(environment, "steady", &[], async |scene| {
        let names = scene.members(5).await?;
        // A machine is off: each pass reads it, so that passes can be counted.
        scene.shut_down(&names[0]).await?;
        for name in &names {
            until("all that is to be said is said", SOON, async || {
                ensure!(
                    times(&events(&scene.client, "Node", name, "Synced").await?) == 1,
                    "{name} is not said to be synced"
                );
                Ok(())
            })
            .await?;
        }
        // The watch events of the program's own writes are processed once more; then it is idle.
        scene.goes_quiet().await?;
        scene.proxy().requests().clear();
        scene.cloud_is_asked(15).await?;
        let writes = scene.writes();
        ensure!(writes.is_empty(), "it wrote: {writes:?}");
        Ok(())
    })
    .await
}
