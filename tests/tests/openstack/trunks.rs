//! Servers whose ports carry others.

use anyhow::{Result, ensure};
use ccm_tests::wait::until_every;
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::scene::{LOOK, SOON, Settings, play};

/// The network of the ports that are carried is one of the Nodes', too.
const NETWORKS: &str = "[Networking]\ninternal-network-name=carried";

fn addresses(node: &Value) -> Vec<(&str, &str)> {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses
        .map(|addresses| (text(addresses, "type"), text(addresses, "address")))
        .collect()
}

fn has(node: &Value, address: &str) -> bool {
    addresses(node).contains(&("InternalIP", address))
}

fn address(port: &Value) -> &str {
    text(&port["fixed_ips"][0], "ip_address")
}

pub(crate) async fn addresses_of_ports_that_a_trunk_carries_are_the_nodes(
    environment: &Environment,
) -> Result<()> {
    let settings = Settings {
        label: "trunks",
        balancers: NETWORKS,
        starts_later: true,
        ..Settings::default()
    };
    play(environment, settings, async |scene| {
        let cloud = scene.cloud.clone();
        let id = |value: &Value| text(value, "id").to_owned();
        let network = json!({"network": {"name": "carried"}});
        let network = id(&cloud.post(Api::Network, "/networks", network).await?);
        let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.8.0.0/24"}});
        cloud.post(Api::Network, "/subnets", subnet).await?;
        let port = async |network: &str| cloud.post(Api::Network, "/ports", json!({"port": {"network_id": network}})).await;
        let parent = port(&scene.project.network).await?; let first = port(&network).await?; let second = port(&network).await?;
        let carried = |port: &Value, number: u16| json!({"port_id": port["id"], "segmentation_type": "vlan", "segmentation_id": number});
        let trunk = json!({"trunk": {"port_id": parent["id"], "sub_ports": [carried(&first, 101)]}});
        let trunk = id(&cloud.post(Api::Network, "/trunks", trunk).await?);
        let server = scene.project.add_server_at(&cloud, "worker-4", &id(&parent)).await?;
        scene.start()?;
        scene.join(&["worker-4"]).await?;
        scene
            .becomes("worker-4", "the addresses of both its ports", |node| {
                has(node, address(&parent)) && has(node, address(&first)) && !has(node, address(&second))
            })
            .await?;
        scene.did("a server on a trunk: its Node has the address of the port that is carried");

        let list = json!({"sub_ports": [carried(&second, 102)]});
        cloud.put(Api::Network, &format!("/trunks/{trunk}/add_subports"), list).await?;
        scene.end().await?;
        scene.start()?;
        scene
            .becomes("worker-4", "the address of another one", |node| {
                [&parent, &first, &second].into_iter().all(|object| has(node, address(object)))
            })
            .await?;
        let list = json!({"sub_ports": [{"port_id": first["id"]}]});
        cloud.put(Api::Network, &format!("/trunks/{trunk}/remove_subports"), list).await?;
        scene.end().await?;
        scene.start()?;
        scene.becomes("worker-4", "not the address of the first", |node| {
            has(node, address(&parent)) && !has(node, address(&first)) && has(node, address(&second))
        })
        .await?;
        scene.did("another one came, and the first went");

        scene.create_service("web", &[(80, 30080)], json!({"metadata": {"annotations": {crate::sharing::INTERNAL: "true"}}})).await;
        scene.published("web").await?;
        scene
            .balanced("web", "its member is at the trunk itself", |balanced| {
                balanced.get(&80).is_some_and(|listener| listener.members.iter().all(|member| text(member, "address") == address(&parent)) && listener.members.len() == 1)
            })
            .await?;
        scene.delete_service("web").await?;
        scene.did("a Service leads to it");

        scene.end().await?;
        scene.project.delete_server(&cloud, &server).await?;
        cloud.delete(Api::Network, &format!("/trunks/{trunk}")).await?;
        for port in [&parent, &first, &second] {
            cloud.delete(Api::Network, &format!("/ports/{}", id(port))).await?;
        }
        until_every(LOOK, "the network is gone", SOON, async || {
            cloud.delete(Api::Network, &format!("/networks/{network}")).await
        })
        .await?;
        let left = cloud.list(Api::Network, "/trunks").await?;
        ensure!(left.is_empty(), "{left:?}");
        scene.did("all of it was taken away");
        Ok(())
    })
    .await
}
