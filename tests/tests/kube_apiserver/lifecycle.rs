//! Machines that stop, start and end, and clouds that only seem to have lost them.

use anyhow::{Result, ensure};
use provider_simulated::cloud::{DEFAULT_PROJECT, DEFAULT_TOKEN};

use crate::cluster::{events, is_shut_down, times};
use crate::environment::Environment;
use crate::scene::play;

pub(crate) async fn a_stopped_machine_taints_its_node_until_it_is_started_again(
    environment: &Environment,
) -> Result<()> {
    play(environment, "stopped", &[], async |scene| {
        let names = scene.members(3).await?;
        let before = scene.list().await?;
        scene.shut_down(&names[0]).await?;
        // Not ready alone is no reason.
        scene.kubelets.report(&names[1], false).await?;
        scene.cloud_is_asked(4).await?;
        for name in &names[1..] {
            ensure!(
                !is_shut_down(&scene.nodes().get(name).await?),
                "{name} runs, and is tainted"
            );
        }
        scene.cloud().start(&names[0]);
        scene.kubelets.report(&names[0], true).await?;
        scene
            .becomes(&names[0], "not tainted any more", |node| {
                !is_shut_down(node)
            })
            .await?;
        scene.still_there(&before).await
    })
    .await
}

pub(crate) async fn a_terminated_machine_takes_its_node_with_it(
    environment: &Environment,
) -> Result<()> {
    play(environment, "terminated", &[], async |scene| {
        let names = scene.members(4).await?;
        let mut before = scene.list().await?;
        scene.cloud().terminate(&names[2]);
        scene.kubelets.report(&names[2], false).await?;
        scene.disappears(&names[2]).await?;
        scene.is_told(&names[2], "DeletingNode").await?;
        before.remove(&names[2]);
        scene.still_there(&before).await?;
        let said = times(&events(&scene.client, "Node", &names[2], "DeletingNode").await?);
        ensure!(said == 1, "the deletion was said {said} times");
        Ok(())
    })
    .await
}

pub(crate) async fn a_revoked_credential_deletes_nothing(environment: &Environment) -> Result<()> {
    play(environment, "revoked", &[], async |scene| {
        let names = scene.members(4).await?;
        let mut before = scene.list().await?;
        scene.cloud().revoke_token(DEFAULT_TOKEN);
        scene.cloud().terminate(&names[0]);
        for name in &names {
            scene.kubelets.report(name, false).await?;
        }
        scene.cloud_is_asked(5).await?;
        scene.is_told(&names[0], "NodeDeletionHeld").await?;
        scene.still_there(&before).await?;
        // With a valid credential only the Node is deleted whose machine no longer exists.
        scene.cloud().add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
        scene.disappears(&names[0]).await?;
        scene.cloud_is_asked(4).await?;
        before.remove(&names[0]);
        scene.still_there(&before).await
    })
    .await
}

pub(crate) async fn a_credential_of_an_empty_project_deletes_nothing(
    environment: &Environment,
) -> Result<()> {
    play(environment, "project", &[], async |scene| {
        let names = scene.members(4).await?;
        let before = scene.list().await?;
        scene.cloud().add_token(DEFAULT_TOKEN, "another");
        scene.kubelets.report(&names[0], false).await?;
        scene.is_told(&names[0], "NodeDeletionHeld").await?;
        for name in &names {
            scene.kubelets.report(name, false).await?;
        }
        scene.cloud_is_asked(8).await?;
        scene.still_there(&before).await?;
        scene.cloud().add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
        scene.cloud_is_asked(4).await?;
        scene.still_there(&before).await
    })
    .await
}
