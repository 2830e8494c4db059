//! Nodes that are created again under their old name.

use anyhow::{Result, ensure};
use kube::ResourceExt;

use crate::cluster::events;
use crate::environment::Environment;
use crate::scene::{SOON, play};

pub(crate) async fn nodes_created_again_under_the_same_name_get_their_new_machine_and_stay(
    environment: &Environment,
) -> Result<()> {
    play(environment, "again", &[], async |scene| {
        let names = scene.members(4).await?;
        let old = scene.list().await?;
        // The first one while it is watched, the second one behind its back.
        for (name, is_watched) in [(&names[0], true), (&names[1], false)] {
            if !is_watched {
                scene.controller.freeze()?;
            }
            // In this order there is never a Node without a machine.
            scene.kubelets.forget(name).await?;
            scene.cloud().terminate(name);
            scene.create_machines(std::slice::from_ref(name));
            scene
                .kubelets
                .register(std::slice::from_ref(name), false)
                .await?;
            if !is_watched {
                scene.controller.resume()?;
            }
        }
        scene.initialised(&names, SOON).await?;
        let new = scene.list().await?;
        for name in &names[..2] {
            ensure!(
                old[name].uid() != new[name].uid(),
                "{name} is still the old Node"
            );
        }
        // Still not ready: each pass reads whether their machines exist.
        scene.cloud_is_asked(8).await?;
        scene.still_there(&new).await?;
        for name in &names[..2] {
            scene.kubelets.report(name, true).await?;
            ensure!(
                events(&scene.client, "Node", name, "DeletingNode")
                    .await?
                    .is_empty(),
                "{name} was to be deleted"
            );
        }
        scene.initialised(&names, SOON).await
    })
    .await
}
