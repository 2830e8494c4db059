//! Initialisation of new Nodes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use ccm_tests::wait::until;

use crate::cluster::{events, times};
use crate::environment::Environment;
use crate::scene::{SOON, play, play_counted};

pub(crate) async fn new_nodes_get_their_identity_in_two_writes_each_and_one_event(
    environment: &Environment,
) -> Result<()> {
    play_counted(environment, "new", &[], async |scene| {
        let names = scene.members(20).await?;
        for name in &names {
            until(&format!("{name} is said to be synced"), SOON, async || {
                let said = times(&events(&scene.client, "Node", name, "Synced").await?);
                ensure!(said == 1, "that was said {said} times");
                Ok(())
            })
            .await?;
        }
        // A machine that stays off causes a read of the cloud in each pass, so that passes can be counted.
        scene.shut_down(&names[0]).await?;
        scene.goes_quiet().await?;
        let mut writes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for change in scene.proxy().requests().changes() {
            if change.resource.starts_with("nodes") {
                writes
                    .entry(change.name)
                    .or_default()
                    .push(format!("{} {}", change.verb, change.resource));
            }
        }
        // The taint of the machine that is off.
        let extra = writes.get_mut(&names[0]).and_then(Vec::pop);
        ensure!(
            extra.as_deref() == Some("PATCH nodes"),
            "the last write to {} was {extra:?}",
            names[0]
        );
        for name in &names {
            let sent = writes.remove(name).unwrap_or_default();
            ensure!(
                sent == ["PATCH nodes", "PATCH nodes/status"],
                "{name} was written with {sent:?}"
            );
        }
        ensure!(writes.is_empty(), "others were written as well: {writes:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn a_node_that_registers_later_is_initialised_as_well(
    environment: &Environment,
) -> Result<()> {
    play(environment, "later", &[], async |scene| {
        scene.members(2).await?;
        let names = scene.names(4).split_off(2);
        // The Node's machine is newer than every list that was read, and the Node is not ready.
        scene.create_machines(&names);
        scene.kubelets.register(&names, false).await?;
        scene.initialised(&names, SOON).await
    })
    .await
}
