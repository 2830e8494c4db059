//! Nothing to do.

use anyhow::{Result, ensure};
use ccm_tests::wait::until;

use crate::cluster::{events, is_shut_down, times};
use crate::environment::Environment;
use crate::scene::{SOON, play_counted};

pub(crate) async fn a_steady_state_writes_nothing(environment: &Environment) -> Result<()> {
    play_counted(environment, "steady", &[], async |scene| {
        let names = scene.members(5).await?;
        // One machine is off: each pass asks for it, and so passes can be counted.
        scene.cloud().stop(&names[0]);
        scene.kubelets.report(&names[0], false).await?;
        scene.becomes(&names[0], "tainted as shut down", is_shut_down).await?;
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
        // What the watch shows of our own writes is looked at once more; then it is quiet.
        scene.cloud_is_asked(3).await?;
        scene.proxy().requests().clear();
        scene.cloud_is_asked(15).await?;
        let writes: Vec<_> =
            scene.proxy().requests().all().into_iter().filter(ccm_tests::api_requests::ApiRequest::is_write).collect();
        ensure!(writes.is_empty(), "it wrote: {writes:?}");
        Ok(())
    })
    .await
}
