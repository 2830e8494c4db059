//! Services of the cloud that stop in the middle.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ccm_tests::wait::until;
use serde_json::json;

use crate::environment::Environment;
use crate::scene::{SOON, Settings, play_in_peace};
use crate::services::EVERYTHING;

const A_WHILE: Duration = Duration::from_secs(5);
/// Lifetime of a short token.
const LIFE: Duration = Duration::from_secs(20);

pub(crate) async fn services_that_stop_in_the_middle_cost_nothing(
    environment: &Environment,
) -> Result<()> {
    let _alone = environment.peace.write().await;
    let settings = Settings {
        label: "outages",
        balancers: EVERYTHING,
        ..Settings::default()
    };
    play_in_peace(environment, settings, async |scene| {
        scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
        scene.did("three Nodes");

        environment.service(&["freeze", "octavia-worker"]).await?;
        scene.create_service("web", &[(80, 30080)], json!({})).await;
        let pending = scene
            .holds("the load balancer is being made", |now| {
                now.all("load balancer").next().is_some()
            })
            .await;
        // Others are not kept waiting.
        tokio::time::sleep(A_WHILE).await;
        environment.service(&["thaw", "octavia-worker"]).await?;
        pending?;
        let address = scene.published("web").await?;
        scene
            .holds("one load balancer", |now| {
                now.all("load balancer").count() == 1
            })
            .await?;
        scene.did("Octavia's worker was frozen for 5 s in the middle of a creation");

        environment.service(&["kill", "octavia"]).await?;
        environment.service(&["kill", "nova-api"]).await?;
        scene.set_ports("web", &[(81, 30080)]).await?;
        scene.user.set_ready("worker-3", false).await;
        tokio::time::sleep(A_WHILE).await;
        ensure!(
            scene.node("worker-3").is_some(),
            "a Node was deleted because Nova was away"
        );
        environment.start_services(&[]).await?;
        scene
            .balanced("web", "the port is another", |balanced| {
                balanced.keys().copied().eq([81])
            })
            .await?;
        ensure!(
            scene.node("worker-3").is_some(),
            "a Node was deleted because Nova was away"
        );
        ensure!(scene.published("web").await? == address, "another address");
        scene.did("Octavia's and Nova's APIs were killed and started again");

        environment.service(&["kill", "neutron"]).await?;
        scene
            .create_service("mail", &[(25, 30025)], json!({}))
            .await;
        tokio::time::sleep(A_WHILE).await;
        environment.service(&["kill", "keystone"]).await?;
        environment
            .start_services(&[("TESTBED_TOKEN_TTL", "20")])
            .await?;
        scene.published("mail").await?;
        scene.did("Neutron and Keystone were killed in the middle of a creation and started again");
        scene.program()?.check()?;

        // The next life has tokens of 20 seconds.
        scene.end().await?;
        let tokens = scene.tokens.count();
        let failures = scene.events("SyncLoadBalancerFailed").len();
        scene.start()?;
        let start = Instant::now();
        until("the next life has a token", SOON, async || {
            ensure!(scene.tokens.count() > tokens, "it has none");
            Ok(())
        })
        .await?;
        tokio::time::sleep(LIFE + Duration::from_secs(3)).await;
        scene.set_ports("mail", &[(26, 30025)]).await?;
        let changed = scene
            .balanced("mail", "the port is another", |balanced| {
                balanced.keys().copied().eq([26])
            })
            .await;
        environment.service(&["stop", "keystone"]).await?;
        environment.start_services(&[]).await?;
        changed?;
        let tokens = scene.tokens.count() - tokens;
        let failures = scene.events("SyncLoadBalancerFailed").len() - failures;
        // Each may be renewed when half of its life is over.
        let most = 4 + 2 * usize::try_from(start.elapsed().as_secs() / LIFE.as_secs())?;
        ensure!(
            (2..=most).contains(&tokens) && failures == 0,
            "{tokens} tokens of {most}, {failures} failures"
        );
        scene.did(&format!(
            "tokens lived for 20 s: {tokens} were asked for, and nothing failed"
        ));

        scene.delete_services(&["web", "mail"]).await?;
        scene.did("both Services were deleted");
        Ok(())
    })
    .await
}
