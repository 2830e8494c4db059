//! Services while something is broken: the API server, this program, the credential, the load balancer itself.

use anyhow::{Result, ensure};
use ccm_tests::wait::until;
use provider_simulated::cloud::{DEFAULT_PROJECT, DEFAULT_TOKEN, Fault, Options};
use serde_json::json;

use crate::balancing::{condition, is_held};
use crate::environment::Environment;
use crate::scene::{AFTER_AN_OUTAGE, SOON, Scene, play};

/// Services in a burst.
const BURST: usize = 10;
/// So few at a time that a burst has a middle.
const SLOWLY: [&str; 1] = ["--concurrent-service-syncs=2"];

/// The cloud takes its time, so that a burst has a middle.
fn slow_down(scene: &Scene) {
    scene.cloud().set_options(Options { operation_milliseconds: 300, ..Options::default() });
    scene.cloud().inject(Fault::latency(300).on("DELETE /v1/load-balancers/{id}"));
}

/// Waits until the cloud has this many load balancers.
async fn cloud_reaches(scene: &Scene, count: impl Fn(usize) -> bool) -> Result<()> {
    until("the burst is in its middle", SOON, async || {
        let now = scene.cloud().load_balancers().len();
        ensure!(count(now), "the cloud has {now} load balancers");
        Ok(())
    })
    .await
}

pub(crate) async fn an_api_server_killed_amid_services_leaks_and_doubles_nothing(
    environment: &Environment,
) -> Result<()> {
    play(environment, "killed-amid", &SLOWLY, async |scene| {
        let nodes = scene.members(2).await?;
        slow_down(scene);
        let services = scene.create_services(BURST).await?;
        cloud_reaches(scene, |count| count >= 2).await?;
        kill_and_restart(environment).await?;
        scene.balanced(&services, &nodes, AFTER_AN_OUTAGE).await?;
        scene.cloud_has(BURST)?;
        scene.delete_services(&services).await?;
        cloud_reaches(scene, |count| count <= BURST - 2).await?;
        kill_and_restart(environment).await?;
        scene.services_are_gone(&services, AFTER_AN_OUTAGE).await?;
        scene.controller.check()?;
        scene.cloud_has(0)
    })
    .await
}

async fn kill_and_restart(environment: &Environment) -> Result<()> {
    environment.fault(&["kill"]).await?;
    environment.fault(&["restart"]).await
}

pub(crate) async fn a_program_killed_amid_services_leaks_and_doubles_nothing(environment: &Environment) -> Result<()> {
    play(environment, "crashed-amid", &SLOWLY, async |scene| {
        let nodes = scene.members(2).await?;
        slow_down(scene);
        let services = scene.create_services(BURST).await?;
        for count in [1, 4, 7] {
            cloud_reaches(scene, |now| now >= count).await?;
            scene.crash().await?;
        }
        scene.balanced(&services, &nodes, SOON).await?;
        scene.cloud_has(BURST)?;
        scene.delete_services(&services).await?;
        for count in [BURST, 7, 4] {
            cloud_reaches(scene, |now| now <= count).await?;
            scene.crash().await?;
        }
        scene.services_are_gone(&services, SOON).await?;
        scene.cloud_has(0)
    })
    .await
}

pub(crate) async fn a_revoked_credential_is_named_on_each_service_until_it_is_good_again(
    environment: &Environment,
) -> Result<()> {
    play(environment, "no-credential", &[], async |scene| {
        let nodes = scene.members(2).await?;
        let mut names = scene.create_services(2).await?;
        scene.balanced(&names, &nodes, SOON).await?;
        let before = scene.cloud().load_balancers();
        scene.cloud().revoke_token(DEFAULT_TOKEN);
        // One is changed, one deleted, and one new.
        scene.change_service(&names[0], json!({"metadata": {"annotations": {"example.com/changed": "true"}}})).await?;
        let ports = ccm_tests::service_object::tcp(&[8080]);
        scene.change_service(&names[0], json!({"spec": {"ports": ports}})).await?;
        scene.delete_services(&names[1..]).await?;
        names.extend(scene.names(3).split_off(2));
        scene.create_service(&names[2], &json!({})).await?;
        for name in &names {
            let waits = |service: &_| condition(service).is_some_and(|condition| condition.status == "False");
            let service = scene.service_becomes(name, "said not to be ready", waits).await?;
            ensure!(is_held(&service), "{name} is not held");
            let said = condition(&service).map(|it| it.message.to_lowercase()).unwrap_or_default();
            ensure!(said.contains("token") || said.contains("credential"), "{name} is said to wait for {said:?}");
            scene.service_is_told(name, "SyncLoadBalancerFailed").await?;
        }
        ensure!(scene.cloud().load_balancers() == before, "the cloud was changed");
        scene.cloud().add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
        scene.balanced(&[names[0].clone(), names[2].clone()], &nodes, SOON).await?;
        scene.services_are_gone(&names[1..2], SOON).await?;
        scene.cloud_has(2)
    })
    .await
}

pub(crate) async fn a_protected_load_balancer_is_named_on_its_service_and_goes_once_it_may(
    environment: &Environment,
) -> Result<()> {
    play(environment, "protected", &[], async |scene| {
        let nodes = scene.members(2).await?;
        let names = scene.create_services(2).await?;
        scene.balanced(&names, &nodes, SOON).await?;
        let balancer = scene.balancer(&names[0]).await?;
        ensure!(scene.cloud().protect_load_balancer(&balancer.id, true), "there is no {}", balancer.id);
        scene.delete_services(&names).await?;
        let waits = |service: &_| condition(service).is_some_and(|condition| condition.status == "False");
        let service = scene.service_becomes(&names[0], "said to be held by its load balancer", waits).await?;
        let said = condition(&service).map(|it| (it.reason.clone(), it.message.clone())).unwrap_or_default();
        ensure!(said.1.contains("protect"), "it is said to wait for {said:?}");
        ensure!(is_held(&service), "it is not held, and its load balancer is left");
        scene.service_is_told(&names[0], "SyncLoadBalancerFailed").await?;
        // The other one is not held up.
        scene.services_are_gone(&names[1..], SOON).await?;
        scene.cloud_has(1)?;
        ensure!(scene.cloud().protect_load_balancer(&balancer.id, false), "there is no {}", balancer.id);
        scene.services_are_gone(&names, SOON).await?;
        scene.cloud_has(0)
    })
    .await
}
