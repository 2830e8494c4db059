//! Routes for Pods in the router, and the address pairs of the servers' ports.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::project::Server;
use crate::scene::{Scene, Settings, play, pod_cidr};
use crate::snapshot::Snapshot;

fn routes(now: &Snapshot) -> BTreeSet<(String, String)> {
    let routes = now
        .all("router")
        .filter_map(|object| object["routes"].as_array())
        .flatten();
    routes
        .map(|routes| {
            (
                text(routes, "destination").to_owned(),
                text(routes, "nexthop").to_owned(),
            )
        })
        .collect()
}

fn pairs(now: &Snapshot, server: &Server) -> Vec<String> {
    let ports = now
        .all("port")
        .filter(|object| object["device_id"] == *server.id);
    let pairs = ports
        .filter_map(|port| port["allowed_address_pairs"].as_array())
        .flatten();
    pairs
        .filter_map(|pair| pair["ip_address"].as_str())
        .map(str::to_owned)
        .collect()
}

/// Checks that the Pods of these servers have a route each, and may use their addresses.
async fn are_routed(scene: &Scene, servers: &[Server], foreign: &(String, String)) -> Result<()> {
    let wanted: BTreeSet<_> = servers
        .iter()
        .map(|server| (pod_cidr(&server.name), server.address.clone()))
        .chain([foreign.clone()])
        .collect();
    scene
        .holds("each Node has its route", |now| {
            let has_pair = |server: &Server| pairs(now, server) == [pod_cidr(&server.name)];
            routes(now) == wanted && servers.iter().all(has_pair)
        })
        .await
}

/// Returns `true` if a Node's condition reports that its Pods have their route.
pub(crate) fn is_reachable(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.any(|condition| {
        condition["type"] == "NetworkUnavailable" && condition["status"] == "False"
    })
}

/// Deletes all Nodes and waits until only these routes are left; returns the number of address pairs on their servers,
/// which continue to run.
pub(crate) async fn without_nodes(
    scene: &Scene,
    kept: &BTreeSet<(String, String)>,
) -> Result<usize> {
    for server in &scene.project.servers {
        scene.user.delete_node(&server.name).await;
    }
    scene
        .holds("the Nodes' routes are gone", |now| routes(now) == *kept)
        .await?;
    let mut left = 0;
    for server in &scene.project.servers {
        for port in scene
            .cloud
            .list(Api::Network, &format!("/ports?device_id={}", server.id))
            .await?
        {
            left += port["allowed_address_pairs"].as_array().map_or(0, Vec::len);
            let change = json!({"port": {"allowed_address_pairs": []}});
            scene
                .cloud
                .put(
                    Api::Network,
                    &format!("/ports/{}", text(&port, "id")),
                    change,
                )
                .await?;
        }
    }
    Ok(left)
}

pub(crate) async fn each_node_has_its_route_and_foreign_routes_stay(
    environment: &Environment,
) -> Result<()> {
    let settings = Settings {
        label: "routes",
        routes: true,
        starts_later: true,
        ..Settings::default()
    };
    play(environment, settings, async |scene| {
        let servers = scene.project.servers.clone();
        let router = format!("/routers/{}", scene.project.router);
        let foreign = ("192.0.2.0/24".to_owned(), servers[0].address.clone());
        let list = json!({"router": {"routes": [{"destination": foreign.0, "nexthop": foreign.1}]}});
        scene.cloud.put(Api::Network, &format!("{router}/add_extraroutes"), list.clone()).await?;
        scene.start()?;
        scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
        are_routed(scene, &servers, &foreign).await?;
        for server in &servers {
            scene.becomes(&server.name, "reachable", is_reachable).await?;
        }
        let changes = scene.changes().len();
        scene.did(&format!("three Nodes got their routes, with {changes} changes"));

        let fourth = scene.project.add_servers(&scene.cloud, &["worker-4".to_owned()]).await?;
        scene.join(&["worker-4"]).await?;
        are_routed(scene, &[servers.clone(), fourth.clone()].concat(), &foreign).await?;
        scene.did("a fourth Node joined");
        scene.project.delete_server(&scene.cloud, &fourth[0].id).await?;
        scene.user.set_ready("worker-4", false).await;
        are_routed(scene, &servers, &foreign).await?;
        scene.did("its server was deleted: its route is gone");

        // Passes are rare while nothing changes; the first one of a run is at once.
        scene.end().await?;
        let lost =
            json!({"router": {"routes": [{"destination": pod_cidr("worker-2"), "nexthop": servers[1].address}]}});
        scene.cloud.put(Api::Network, &format!("{router}/remove_extraroutes"), lost).await?;
        scene.start()?;
        are_routed(scene, &servers, &foreign).await?;
        scene.did("a route that somebody removed was made again");

        let left = without_nodes(scene, &BTreeSet::from([foreign.clone()])).await?;
        scene.did(&format!("the Nodes were deleted: only the foreign route is left, and {left} of the address pairs"));
        let answer = scene.cloud.put(Api::Network, &format!("{router}/remove_extraroutes"), list).await?;
        ensure!(answer["router"]["routes"] == json!([]), "{answer}");
        Ok(())
    })
    .await
}
