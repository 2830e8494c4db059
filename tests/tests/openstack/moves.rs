//! Services that move between load balancers (D-210).

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::scene::{ID, SOON, Scene, Settings, listeners, play};
use crate::services::EVERYTHING;
use crate::sharing::annotated;
use crate::snapshot::Snapshot;

const ADDRESS: &str = "loadbalancer.openstack.org/load-balancer-address";
/// Name of objects that an operator creates and keeps.
const BY_HAND: &str = "by-hand";

/// Creates a load balancer with a floating IP, both of another owner; returns its ID, the floating IP's ID, and the
/// address.
async fn leave_balancer(scene: &Scene) -> Result<(String, String, String)> {
    let project = &scene.project;
    let balancer = json!({"loadbalancer": {"name": BY_HAND, "vip_subnet_id": project.subnet}});
    let id = text(
        &scene
            .cloud
            .post(Api::Balancer, "/loadbalancers", balancer)
            .await?,
        "id",
    )
    .to_owned();
    let balancer = scene.cloud.balancer_is_active(&id).await?;
    let floating = json!({"floatingip": {"floating_network_id": project.public_network,
        "port_id": balancer["vip_port_id"], "description": "somebody's"}});
    let floating = scene
        .cloud
        .post(Api::Network, "/floatingips", floating)
        .await?;
    Ok((
        id,
        text(&floating, "id").to_owned(),
        text(&floating, "floating_ip_address").to_owned(),
    ))
}

/// Returns the tags of a load balancer.
fn tags(now: &Snapshot, id: &str) -> String {
    now.all("load balancer")
        .filter(|object| text(object, "id") == id)
        .map(|object| object["tags"].to_string())
        .collect()
}

/// Returns the ports of a load balancer.
async fn ports(scene: &Scene, id: &str) -> Result<Vec<u64>> {
    Ok(listeners(&scene.cloud, id).await?.into_keys().collect())
}

/// Waits until a Service shows this address, alone, and its load balancer is this one.
async fn is_at(scene: &Scene, name: &str, id: &str, address: &str) -> Result<()> {
    until(&format!("{name} is at {id}"), SOON, async || {
        let service = scene.service(name)?;
        let ingress: Vec<&Value> = service["status"]["loadBalancer"]["ingress"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        ensure!(
            ingress.len() == 1 && ingress[0]["ip"] == address,
            "it shows {ingress:?}, not {address}"
        );
        let annotations = &service["metadata"]["annotations"];
        ensure!(
            annotations[ID] == id && annotations[ADDRESS] == address,
            "its annotations: {annotations}"
        );
        Ok(())
    })
    .await
}

pub(crate) async fn a_service_moves_between_load_balancers(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "moves", balancers: EVERYTHING, ..Settings::default() }, async |scene| {
        scene.join(&["worker-1", "worker-2"]).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        scene.create_service("mail", &[(25, 30025)], json!({})).await;
        let (hand, floating, by_hand) = leave_balancer(scene).await?;
        let first = scene.published("web").await?; let of_mail = scene.published("mail").await?;
        let own = scene.balancer_id("web")?; let shared = scene.balancer_id("mail")?;
        scene.did("two Services have a load balancer each, and there is one that was made by hand");

        scene.change_service("web", annotated(ID, "00000000-0000-4000-8000-000000000000")).await?;
        is_at(scene, "web", &own, &first).await?;
        let told = async || scene.events("QuestionableAnnotation").pop().context("nothing was said");
        until("an id of none is told", SOON, told).await?;
        scene.did("an id that nobody has was set back");

        scene.change_service("web", annotated(ID, &shared)).await?;
        is_at(scene, "web", &shared, &of_mail).await?;
        scene
            .holds("what it had is gone, with its floating IP", |now| {
                now.all("load balancer").all(|object| text(object, "id") != own)
                    && now.all("floating ip").all(|object| object["floating_ip_address"] != first)
            })
            .await?;
        scene
            .balanced("mail", "the listeners of both", |balanced| {
                balanced.keys().copied().eq([25, 80]) && balanced.values().all(|listener| listener.members.len() == 2)
            })
            .await?;
        ensure!(!scene.events("LoadBalancerMoved").is_empty(), "nothing was said about the move");
        scene.did("a Service moved to the load balancer of another one, and its own went");

        scene.change_service("web", annotated(ID, &hand)).await?;
        is_at(scene, "web", &hand, &by_hand).await?;
        scene.balanced("mail", "its own listener is left", |balanced| balanced.keys().copied().eq([25])).await?;
        scene
            .holds("its tag is where it is", |now| {
                let is_there = |id: &str| tags(now, id).contains("kube_service_moves_default_web");
                !is_there(&shared) && is_there(&hand) && tags(now, &shared).contains("kube_service_moves_default_mail")
            })
            .await?;
        ensure!(ports(scene, &hand).await? == [80], "its listener is not at {BY_HAND}");
        ensure!(scene.published("mail").await? == of_mail, "mail has another address");
        scene.restarts_without_a_change().await?;
        scene
            .did("it moved to the one made by hand; the other Service keeps its own; nothing was changed by a restart");

        scene.change_service("web", annotated(ID, &shared)).await?;
        is_at(scene, "web", &shared, &of_mail).await?;
        scene
            .holds("the one made by hand is as it was", |now| {
                now.all("listener").count() == 2 && !tags(now, &hand).contains("kube_service_")
            })
            .await?;
        let left = scene.cloud.get(Api::Network, &format!("/floatingips/{floating}")).await?["floatingip"].take();
        ensure!(left["port_id"].is_string(), "somebody's floating IP was taken off: {left}");
        ensure!(ports(scene, &hand).await?.is_empty(), "something is left at {BY_HAND}");
        scene.did("it moved back, and the one made by hand stays with its floating IP");

        scene.delete_services(&["mail", "web"]).await?;
        scene
            .holds("only the one made by hand is left", |now| {
                now.all("load balancer").all(|object| object["name"] == BY_HAND) && now.all("floating ip").count() == 1
            })
            .await?;
        scene.cloud.delete(Api::Balancer, &format!("/loadbalancers/{hand}?cascade=true")).await?;
        scene.holds("it is gone", |now| now.all("load balancer").next().is_none()).await?;
        scene.cloud.delete(Api::Network, &format!("/floatingips/{floating}")).await?;
        scene.did("both were deleted");
        Ok(())
    })
    .await
}
