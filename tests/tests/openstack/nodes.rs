//! Nodes and their servers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::{TAINT_SHUTDOWN, TAINT_UNINITIALIZED};
use serde_json::Value;

use crate::environment::Environment;
use crate::project::Server;
use crate::scene::{SOON, Scene, Settings, play};

fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key)
}

/// Checks that a Node has the identity of this server.
fn check(node: &Value, server: &Server) -> Result<()> {
    let labels = &node["metadata"]["labels"];
    let addresses = &node["status"]["addresses"];
    let id = format!("openstack:///{}", server.id);
    ensure!(
        node["spec"]["providerID"] == id,
        "its id is {}, not {id}",
        node["spec"]["providerID"]
    );
    ensure!(
        !has_taint(node, TAINT_UNINITIALIZED),
        "it has the start-up taint"
    );
    let wanted = [
        ("topology.kubernetes.io/region", "RegionOne"),
        ("topology.kubernetes.io/zone", &*server.zone),
        ("node.kubernetes.io/instance-type", "m1.k8s"),
    ];
    for (label, value) in wanted {
        ensure!(
            labels[label] == value,
            "{label} is {}, not {value}",
            labels[label]
        );
    }
    let is_its_object =
        |object: &Value| object["type"] == "InternalIP" && object["address"] == server.address;
    ensure!(
        addresses
            .as_array()
            .into_iter()
            .flatten()
            .any(is_its_object),
        "no {} among {addresses}",
        server.address
    );
    Ok(())
}

async fn are_initialised(scene: &Scene, servers: &[Server]) -> Result<()> {
    until("all Nodes have their servers' identity", SOON, async || {
        for server in servers {
            check(
                &scene.node(&server.name).context("there is no Node")?,
                server,
            )
            .context(server.name.clone())?;
        }
        Ok(())
    })
    .await
}

pub(crate) async fn servers_give_nodes_their_identity_their_taint_and_their_end(
    environment: &Environment,
) -> Result<()> {
    play(
        environment,
        Settings {
            label: "nodes",
            ..Settings::default()
        },
        async |scene| {
            let servers = scene.project.servers.clone();
            scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
            are_initialised(scene, &servers).await?;
            scene.did("three Nodes got their identity");

            let third = servers[2].id.clone();
            scene
                .project
                .switch_server(&scene.cloud, &third, false)
                .await?;
            scene.user.set_ready("worker-3", false).await;
            scene
                .becomes("worker-3", "tainted as shut down", |node| {
                    has_taint(node, TAINT_SHUTDOWN)
                })
                .await?;
            scene.did("a server was stopped: its Node is tainted");
            scene
                .project
                .switch_server(&scene.cloud, &third, true)
                .await?;
            scene.user.set_ready("worker-3", true).await;
            scene
                .becomes("worker-3", "without the taint", |node| {
                    !has_taint(node, TAINT_SHUTDOWN)
                })
                .await?;
            scene.did("it was started: the taint is gone");

            let fourth = scene
                .project
                .add_servers(&scene.cloud, &["worker-4".to_owned()])
                .await?;
            scene.join(&["worker-4"]).await?;
            are_initialised(scene, &fourth).await?;
            scene
                .project
                .delete_server(&scene.cloud, &fourth[0].id)
                .await?;
            // A ready Node causes no read; then it is not ready.
            tokio::time::sleep(Duration::from_secs(3)).await;
            ensure!(scene.node("worker-4").is_some(), "a ready Node was deleted");
            scene.user.set_ready("worker-4", false).await;
            until("the Node is gone", SOON, async || {
                ensure!(scene.node("worker-4").is_none(), "it is there");
                Ok(())
            })
            .await?;
            are_initialised(scene, &servers).await?;
            scene.did("a fourth server came and went, and its Node with it; the others stayed");
            Ok(())
        },
    )
    .await
}
