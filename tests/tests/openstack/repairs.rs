//! Load balancers that another program deleted, or that failed.

use anyhow::{Result, ensure};
use ccm_tests::wait::until;
use serde_json::json;

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::scene::{SOON, Settings, play};
use crate::services::EVERYTHING;
use crate::sharing::{INTERNAL, annotated};

pub(crate) async fn a_load_balancer_that_somebody_deleted_is_made_again(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "deleted", balancers: EVERYTHING, ..Settings::default() }, async |scene| {
        scene.join(&["worker-1"]).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        scene.published("web").await?;
        let id = scene.balancer_id("web")?;
        scene.cloud.delete(Api::Balancer, &format!("/loadbalancers/{id}?cascade=true")).await?;
        scene.holds("it is gone", |now| now.all("load balancer").all(|object| text(object, "id") != id)).await?;
        scene.did("somebody deleted the load balancer");
        scene.change_service("web", annotated("loadbalancer.openstack.org/connection-limit", "7")).await?;
        until("there is another load balancer", SOON, async || {
            ensure!(scene.balancer_id("web")? != id, "the annotation names the old one");
            Ok(())
        })
        .await?;
        scene.balanced("web", "it is whole", |balanced| balanced.get(&80).is_some_and(|listener| listener.members().len() == 1)).await?;
        scene
            .holds("there is one floating IP, in use", |now| {
                now.all("floating ip").count() == 1 && now.all("floating ip").all(|object| object["port_id"].is_string())
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

pub(crate) async fn a_load_balancer_that_fails_is_replaced(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "failed", balancers: EVERYTHING, ..Settings::default() }, async |scene| {
        scene.join(&["worker-1"]).await?;
        // The VIP takes the only address: its amphora gets none, and the load balancer ends in ERROR.
        let range = |end: u8| json!([{"start": "10.7.0.10", "end": format!("10.7.0.{end}")}]);
        let subnet = json!({"subnet": {"name": "full", "network_id": scene.project.network, "ip_version": 4,
            "cidr": "10.7.0.0/24", "gateway_ip": null, "enable_dhcp": false, "allocation_pools": range(10)}});
        let subnet = text(&scene.cloud.post(Api::Network, "/subnets", subnet).await?, "id").to_owned();
        let path = format!("/subnets/{subnet}");
        let annotations = json!({"metadata": {"annotations":
            {"loadbalancer.openstack.org/subnet-id": subnet, INTERNAL: "true"}}});
        scene.create_service("web", &[(80, 30080)], annotations).await;
        until("a load balancer has failed", SOON, async || {
            let said = scene.events("SyncLoadBalancerFailed").join("\n");
            ensure!(said.contains("ERROR"), "of an error it says {said:?}");
            Ok(())
        })
        .await?;
        scene.did("a load balancer ended in ERROR");
        scene.cloud.put(Api::Network, &path, json!({"subnet": {"allocation_pools": range(99)}})).await?;
        scene.published("web").await?;
        scene.balanced("web", "it works", |balanced| balanced.get(&80).is_some_and(|listener| listener.members().len() == 1)).await?;
        scene.holds("there is one load balancer", |now| now.all("load balancer").count() == 1).await?;
        scene.did("it was replaced by one that works");
        scene.delete_service("web").await?;
        scene.cloud.delete(Api::Network, &path).await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}
