//! Load balancers that several Services share, floating IPs that are kept and taken, and load balancers that somebody deleted.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::scene::{ID, Scene, Settings, play};
use crate::services::EVERYTHING;

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const KEEP: &str = "loadbalancer.openstack.org/keep-floatingip";

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// The tags of a Service's load balancer that name Services.
async fn tags(scene: &Scene, name: &str) -> Result<Vec<String>> {
    let path = format!("/loadbalancers/{}", scene.balancer_id(name)?);
    let balancer = scene.cloud.get(Api::Balancer, &path).await?;
    let tags = balancer["loadbalancer"]["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(tags.filter(|it| it.starts_with("kube_service_")).map(str::to_owned).collect())
}

pub(crate) async fn services_share_a_load_balancer_and_the_last_takes_it_along(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "sharing", balancers: EVERYTHING, ..Settings::default() }, async |scene| {
        scene.join(&["worker-1", "worker-2"]).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        let address = scene.published("web").await?;
        let id = scene.balancer_id("web")?;
        scene.create_service("mail", &[(25, 30025)], annotated(ID, &id)).await;
        ensure!(scene.published("mail").await? == address, "mail is published elsewhere");
        scene.balanced("web", "the listeners of both", |it| it.keys().copied().eq([25, 80])).await?;
        scene
            .holds("the tags of both", |now| {
                let tags = now.all("load balancer").map(|it| it["tags"].to_string()).collect::<String>();
                tags.contains("kube_service_sharing_default_web") && tags.contains("kube_service_sharing_default_mail")
            })
            .await?;
        scene.did("a second Service joined a load balancer");

        scene.create_service("clash", &[(80, 30081)], annotated(ID, &id)).await;
        let told = async || {
            ensure!(!scene.events("SyncLoadBalancerFailed").is_empty(), "nothing was said about the clash");
            Ok(())
        };
        ccm_tests::wait::until("a third Service is refused", crate::scene::SOON, told).await?;
        scene.delete_service("clash").await?;
        scene
            .balanced("web", "the listeners of both are untouched", |it| {
                it.keys().copied().eq([25, 80]) && it[&80].members().iter().all(|(_, port)| *port == 30080)
            })
            .await?;
        scene.did("a third one was refused and went, with nothing changed");

        scene.delete_service("web").await?;
        scene.balanced("mail", "its own listener is left", |it| it.keys().copied().eq([25])).await?;
        let left = tags(scene, "mail").await?;
        ensure!(left == ["kube_service_sharing_default_mail"], "the tags are {left:?}");
        scene.did("the owner was deleted: the other stays");
        scene.delete_service("mail").await?;
        // The load balancer bears the name of the cluster's Services, and nobody uses it.
        scene.holds("no load balancer is left", |now| now.all("load balancer").next().is_none()).await?;
        scene.did("the last one was deleted, and the load balancer with it");
        Ok(())
    })
    .await
}

pub(crate) async fn floating_ips_are_kept_taken_and_given_back(environment: &Environment) -> Result<()> {
    play(environment, Settings { label: "floating", ..Settings::default() }, async |scene| {
        scene.join(&["worker-1"]).await?;
        scene.create_service("web", &[(80, 30080)], annotated(KEEP, "true")).await;
        let address = scene.published("web").await?;
        scene.delete_service("web").await?;
        scene
            .holds("the floating IP stays, free", |now| {
                now.all("load balancer").next().is_none()
                    && now.all("floating ip").any(|it| it["floating_ip_address"] == address && it["port_id"].is_null())
            })
            .await?;
        scene.did("a Service went, its floating IP was kept");

        scene.create_service("web", &[(80, 30080)], json!({"spec": {"loadBalancerIP": address}})).await;
        ensure!(scene.published("web").await? == address, "another address");
        scene.holds("there is one floating IP", |now| now.all("floating ip").count() == 1).await?;
        scene.did("another Service asked for that address and got it");

        scene.change_service("web", annotated(INTERNAL, "true")).await?;
        scene.holds("the floating IP is gone", |now| now.all("floating ip").next().is_none()).await?;
        ccm_tests::wait::until("the VIP is published", crate::scene::SOON, async || {
            let shown = scene.published("web").await?;
            ensure!(shown.starts_with("10.6."), "{shown} is no VIP");
            Ok(())
        })
        .await?;
        scene.did("it became internal: its VIP is published");
        scene.delete_service("web").await?;
        scene.did("it was deleted");
        both_families(scene).await?;
        Ok(())
    })
    .await
}

/// A Service of two families is reached by a floating IP and by a second VIP, and so it stays.
async fn both_families(scene: &mut Scene) -> Result<()> {
    let subnet =
        json!({"subnet": {"name": "six", "network_id": scene.project.network, "ip_version": 6, "cidr": "fd06::/64"}});
    let subnet = scene.cloud.post(Api::Network, "/subnets", subnet).await?;
    let both = json!({"spec": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}});
    scene.create_service("both", &[(80, 30080)], both).await;
    let first = scene.published("both").await?;
    scene
        .balanced("both", "everybody is let in by both", |it| {
            it.get(&80)
                .is_some_and(|it| it.listener["allowed_cidrs"] == json!(["0.0.0.0/0", "::/0"]) && it.members.len() == 1)
        })
        .await?;
    let path = format!("/loadbalancers/{}", scene.balancer_id("both")?);
    let balancer = scene.cloud.get(Api::Balancer, &path).await?["loadbalancer"].take();
    let second = &balancer["additional_vips"][0];
    ensure!(second["subnet_id"] == subnet["id"], "{}", balancer["additional_vips"]);
    let service = scene.service("both")?;
    let shown = &service["status"]["loadBalancer"]["ingress"];
    ensure!(shown[0]["ip"] == first && shown[1]["ip"] == second["ip_address"], "{shown} and {second}");
    let now = scene.snapshot().await?;
    ensure!(now.all("floating ip").any(|it| it["floating_ip_address"] == first), "{first} is no floating IP");
    let changes = scene.changes().len();
    scene.end().await?;
    scene.start()?;
    tokio::time::sleep(Duration::from_secs(6)).await;
    ensure!(scene.changes().len() == changes, "after a restart it changed {:#?}", &scene.changes()[changes..]);
    scene.delete_service("both").await?;
    scene.holds("no load balancer is left", |now| now.all("load balancer").next().is_none()).await?;
    scene.cloud.delete(Api::Network, &format!("/subnets/{}", text(&subnet, "id"))).await?;
    scene.did("a Service of both families had a second VIP");
    Ok(())
}

pub(crate) async fn a_load_balancer_that_somebody_deleted_is_made_again(environment: &Environment) -> Result<()> {
    play(environment, Settings { label: "deleted", balancers: EVERYTHING, ..Settings::default() }, async |scene| {
        scene.join(&["worker-1"]).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        scene.published("web").await?;
        let id = scene.balancer_id("web")?;
        scene.cloud.delete(Api::Balancer, &format!("/loadbalancers/{id}?cascade=true")).await?;
        scene.holds("it is gone", |now| now.all("load balancer").all(|it| text(it, "id") != id)).await?;
        scene.did("somebody deleted the load balancer");
        scene.change_service("web", annotated("loadbalancer.openstack.org/connection-limit", "7")).await?;
        ccm_tests::wait::until("there is another load balancer", crate::scene::SOON, async || {
            ensure!(scene.balancer_id("web")? != id, "the annotation names the old one");
            Ok(())
        })
        .await?;
        scene.balanced("web", "it is whole", |it| it.get(&80).is_some_and(|it| it.members().len() == 1)).await?;
        scene
            .holds("there is one floating IP, in use", |now| {
                now.all("floating ip").count() == 1 && now.all("floating ip").all(|it| it["port_id"].is_string())
            })
            .await?;
        scene.did("it was made again");

        let id = scene.balancer_id("web")?;
        scene.end().await?;
        scene.cloud.delete(Api::Balancer, &format!("/loadbalancers/{id}?cascade=true")).await?;
        scene.holds("it is gone", |now| now.all("load balancer").next().is_none()).await?;
        scene.user.delete_service("web").await;
        scene.start()?;
        scene.service_is_gone("web").await?;
        scene.did("it was deleted again, and then the Service: floating IP and security group went, too");
        Ok(())
    })
    .await
}
