//! Services of the cloud that stop in the middle.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cloud::Api;
use crate::environment::Environment;
use crate::scene::{Settings, play_in_peace};
use crate::services::EVERYTHING;

const A_WHILE: Duration = Duration::from_secs(5);
/// Longer than a short token lives.
const EXPIRY: Duration = Duration::from_secs(23);

pub(crate) async fn services_that_stop_in_the_middle_cost_nothing(environment: &Environment) -> Result<()> {
    let _alone = environment.peace.write().await;
    let settings = Settings { label: "outages", balancers: EVERYTHING, ..Settings::default() };
    play_in_peace(environment, settings, async |scene| {
        scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
        scene.did("three Nodes");

        environment.service(&["freeze", "octavia-worker"]).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        let pending =
            scene.holds("the load balancer is being made", |now| now.all("load balancer").next().is_some()).await;
        // Others are not kept waiting.
        tokio::time::sleep(A_WHILE).await;
        environment.service(&["thaw", "octavia-worker"]).await?;
        pending?;
        let address = scene.published("web").await?;
        scene.holds("one load balancer", |now| now.all("load balancer").count() == 1).await?;
        scene.did("Octavia's worker was frozen for 5 s in the middle of a creation");

        environment.service(&["kill", "octavia"]).await?;
        environment.service(&["kill", "nova-api"]).await?;
        scene.set_ports("web", &[(81, 30080)]).await?;
        scene.user.set_ready("worker-3", false).await;
        tokio::time::sleep(A_WHILE).await;
        ensure!(scene.node("worker-3").is_some(), "a Node was deleted because Nova was away");
        environment.start_services(&[]).await?;
        scene.balanced("web", "the port is another", |it| it.keys().copied().eq([81])).await?;
        ensure!(scene.node("worker-3").is_some(), "a Node was deleted because Nova was away");
        ensure!(scene.published("web").await? == address, "another address");
        scene.did("Octavia's and Nova's APIs were killed and started again");

        environment.service(&["kill", "neutron"]).await?;
        scene.create_service("mail", &[(25, 30025)], json!({})).await;
        tokio::time::sleep(A_WHILE).await;
        environment.service(&["kill", "keystone"]).await?;
        environment.start_services(&[("TESTBED_TOKEN_TTL", "20")]).await?;
        scene.published("mail").await?;
        scene.did("Neutron and Keystone were killed in the middle of a creation and started again");
        scene.program()?.check()?;

        // The next life has tokens of 20 seconds.
        scene.end().await?;
        let (tokens, failures) = (scene.tokens.count(), scene.events("SyncLoadBalancerFailed").len());
        scene.start()?;
        tokio::time::sleep(EXPIRY).await;
        scene.set_ports("mail", &[(26, 30025)]).await?;
        let changed = scene.balanced("mail", "the port is another", |it| it.keys().copied().eq([26])).await;
        environment.service(&["stop", "keystone"]).await?;
        environment.start_services(&[]).await?;
        changed?;
        let (tokens, failures) =
            (scene.tokens.count() - tokens, scene.events("SyncLoadBalancerFailed").len() - failures);
        ensure!((2..20).contains(&tokens) && failures == 0, "{tokens} tokens, {failures} failures");
        scene.did(&format!("tokens lived for 20 s: {tokens} were asked for, and nothing failed"));

        scene.delete_service("web").await?;
        scene.delete_service("mail").await?;
        scene.did("both Services were deleted");
        Ok(())
    })
    .await
}

pub(crate) async fn a_load_balancer_that_fails_is_replaced(environment: &Environment) -> Result<()> {
    let _alone = environment.peace.write().await;
    let settings = Settings { label: "failed", balancers: EVERYTHING, ..Settings::default() };
    play_in_peace(environment, settings, async |scene| {
        scene.join(&["worker-1"]).await?;
        // Amphorae that are never really there: every new load balancer ends in ERROR.
        let failing = [("TESTBED_OCTAVIA_COMPUTE", "compute_noop_driver")];
        environment.service(&["stop", "octavia-worker"]).await?;
        environment.start_services(&failing).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        let failed = scene
            .holds("a load balancer has failed or was replaced", |_| !scene.events("SyncLoadBalancerFailed").is_empty())
            .await;
        environment.service(&["stop", "octavia-worker"]).await?;
        environment.start_services(&[]).await?;
        failed?;
        scene.did("a load balancer ended in ERROR");
        scene.published("web").await?;
        scene.holds("there is one load balancer, and it works", |now| now.all("load balancer").count() == 1).await?;
        let id = scene.balancer_id("web")?;
        let balancer = scene.cloud.get(Api::Balancer, &format!("/loadbalancers/{id}")).await?;
        ensure!(balancer["loadbalancer"]["provisioning_status"] == "ACTIVE", "{balancer}");
        scene.did("it was replaced by one that works");
        scene.delete_service("web").await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}
