//! Outages of the API server.

use anyhow::{Result, bail, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::TAINT_UNINITIALIZED;

use crate::cluster::has_taint;
use crate::environment::Environment;
use crate::scene::{AFTER_AN_OUTAGE, SOON, Scene, play};

/// Flags that slow the program down, so that a burst of [`BURST`] Nodes takes some seconds.
const SLOWLY: [&str; 2] = ["--kube-api-qps=15", "--kube-api-burst=1"];
const BURST: usize = 30;
const BURSTS: usize = 10;

pub(crate) async fn an_api_server_killed_in_the_middle_of_a_burst_costs_no_node(
    environment: &Environment,
) -> Result<()> {
    play(environment, "killed", &SLOWLY, async |scene| {
        in_the_middle_of_a_burst(scene, async || {
            environment.fault(&["kill"]).await?;
            environment.fault(&["restart"]).await
        })
        .await
    })
    .await
}

pub(crate) async fn an_api_server_paused_in_the_middle_of_a_burst_costs_no_node(
    environment: &Environment,
) -> Result<()> {
    play(environment, "paused", &SLOWLY, async |scene| {
        in_the_middle_of_a_burst(scene, async || environment.fault(&["pause", "5"]).await).await
    })
    .await
}

async fn in_the_middle_of_a_burst(
    scene: &mut Scene,
    fault: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let names = middle(scene).await?;
    let before = scene.list().await?;
    fault().await?;
    scene.initialised(&names, AFTER_AN_OUTAGE).await?;
    scene.controller.check()?;
    scene.still_there(&before).await?;
    // The watch is alive as well: what comes now is seen.
    let late = scene.names(names.len() + 1).split_off(names.len());
    scene.create_machines(&late);
    scene.kubelets.register(&late, true).await?;
    scene.initialised(&late, AFTER_AN_OUTAGE).await
}

/// Returns Nodes of which some are initialised and many are not. If a burst was over before that was observed, another
/// one follows.
async fn middle(scene: &Scene) -> Result<Vec<String>> {
    for bursts in 0..BURSTS {
        let old = bursts * BURST;
        let all = (bursts + 1) * BURST;
        let names = scene.names(all).split_off(old);
        scene.create_machines(&names);
        scene.kubelets.register(&names, true).await?;
        let done = until("the burst is under way", SOON, async || {
            let nodes = scene.list().await?;
            let done = nodes
                .values()
                .filter(|node| !has_taint(node, TAINT_UNINITIALIZED))
                .count();
            ensure!(done >= old + 3, "{done} of {all} Nodes are initialised");
            Ok(done)
        })
        .await?;
        if done + BURST / 2 <= all {
            return Ok(scene.names(all));
        }
    }
    bail!("each of {BURSTS} bursts was over before anything could be broken")
}

pub(crate) async fn a_history_that_was_compacted_meanwhile_is_listed_again(
    environment: &Environment,
) -> Result<()> {
    play(environment, "compacted", &[], async |scene| {
        let names = scene.members(5).await?;
        // The process must miss events for good: while it is frozen its connection is cut, objects change, and the
        // history is compacted.
        scene.controller.freeze()?;
        environment.fault(&["restart"]).await?;
        scene.kubelets.forget(&names[0]).await?;
        let fresh = scene.names(6).split_off(5);
        scene.create_machines(&fresh);
        scene.kubelets.register(&fresh, true).await?;
        let before = scene.list().await?;
        environment.fault(&["compact"]).await?;
        environment.fault(&["restart"]).await?;
        scene.controller.resume()?;
        scene.initialised(&fresh, AFTER_AN_OUTAGE).await?;
        ensure!(
            scene.controller.log().contains("listing again"),
            "there was no need to list again"
        );
        scene.controller.check()?;
        scene.still_there(&before).await?;
        scene.cloud().terminate(&names[1]);
        scene.kubelets.report(&names[1], false).await?;
        scene.disappears(&names[1]).await
    })
    .await
}
