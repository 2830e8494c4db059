//! Services while something is broken: the API server, this program, the credential, the load balancer itself.

use anyhow::{Result, ensure};
use ccm_tests::door::Waits;
use ccm_tests::wait::until;
use provider_simulated::cloud::{DEFAULT_PROJECT, DEFAULT_TOKEN, Options};
use serde_json::json;

use crate::balancing::{condition, is_held as has_finalizer};
use crate::environment::Environment;
use crate::scene::{AFTER_AN_OUTAGE, SOON, Scene, play};

/// Services in a burst.
const BURST: usize = 10;
/// Number of Services that are synced concurrently.
const AT_A_TIME: usize = 2;
const SLOWLY: [&str; 1] = ["--concurrent-service-syncs=2"];
const CREATE: &str = "POST /v1/load-balancers";
const DELETE: &str = "DELETE /v1/load-balancers/{id}";

/// Operations take their time, so that a load balancer is seen in its making.
fn slow_down(scene: &Scene) {
    scene.cloud().set_options(Options {
        operation_milliseconds: 300,
        ..Options::default()
    });
}

/// Lets `after` more requests of this route pass. The next ones are carried out, and their responses are held.
fn hold(scene: &Scene, route: &str, after: usize) {
    scene.door().hold(Waits::Answer, route, after);
}

/// Waits until all workers wait for the cloud, in the middle of the burst, when it has this many load balancers.
async fn is_held(scene: &Scene, load_balancers: usize) -> Result<()> {
    until("the burst is in its middle", SOON, async || {
        let waiting = scene.door().waiting();
        ensure!(
            waiting == AT_A_TIME,
            "{waiting} requests wait for their answers"
        );
        scene.cloud_has(load_balancers)
    })
    .await
}

pub(crate) async fn an_api_server_killed_amid_services_leaks_and_doubles_nothing(
    environment: &Environment,
) -> Result<()> {
    play(environment, "killed-amid", &SLOWLY, async |scene| {
        let nodes = scene.members(2).await?;
        slow_down(scene);
        hold(scene, CREATE, 2);
        let services = scene.create_services(BURST).await?;
        is_held(scene, 2 + AT_A_TIME).await?;
        kill_and_restart(environment, scene).await?;
        scene.balanced(&services, &nodes, AFTER_AN_OUTAGE).await?;
        scene.cloud_has(BURST)?;
        hold(scene, DELETE, 2);
        scene.delete_services(&services).await?;
        is_held(scene, BURST - 2 - AT_A_TIME).await?;
        kill_and_restart(environment, scene).await?;
        scene.services_are_gone(&services, AFTER_AN_OUTAGE).await?;
        scene.controller.check()?;
        scene.cloud_has(0)
    })
    .await
}

/// Restarts the API server while responses of the cloud arrive that cannot be stored anywhere.
async fn kill_and_restart(environment: &Environment, scene: &Scene) -> Result<()> {
    environment.fault(&["kill"]).await?;
    scene.door().open();
    environment.fault(&["restart"]).await
}

pub(crate) async fn a_program_killed_amid_services_leaks_and_doubles_nothing(
    environment: &Environment,
) -> Result<()> {
    /// Numbers of responses that pass in each of the program's runs.
    const LIVES: [usize; 3] = [0, 1, 1];
    play(environment, "crashed-amid", &SLOWLY, async |scene| {
        let nodes = scene.members(2).await?;
        slow_down(scene);
        hold(scene, CREATE, LIVES[0]);
        let services = scene.create_services(BURST).await?;
        crash_amid(scene, CREATE, LIVES).await?;
        scene.balanced(&services, &nodes, AFTER_AN_OUTAGE).await?;
        scene.cloud_has(BURST)?;
        hold(scene, DELETE, LIVES[0]);
        scene.delete_services(&services).await?;
        crash_amid(scene, DELETE, LIVES).await?;
        scene.services_are_gone(&services, AFTER_AN_OUTAGE).await?;
        scene.cloud_has(0)
    })
    .await
}

/// Ends each life of the program where it waits for answers, which it never gets.
async fn crash_amid(scene: &mut Scene, route: &str, lives: [usize; 3]) -> Result<()> {
    let mut done = 0;
    for (life, after) in lives.into_iter().enumerate() {
        done += after + AT_A_TIME;
        is_held(scene, if route == CREATE { done } else { BURST - done }).await?;
        scene.controller.kill().await?;
        match lives.get(life + 1) {
            Some(after) => hold(scene, route, *after),
            None => scene.door().open(),
        }
        scene.start_again()?;
    }
    Ok(())
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
        // One Service is changed, one deleted, and one created.
        scene
            .change_service(
                &names[0],
                json!({"metadata": {"annotations": {"example.com/changed": "true"}}}),
            )
            .await?;
        let ports = ccm_tests::service_object::tcp(&[8080]);
        scene
            .change_service(&names[0], json!({"spec": {"ports": ports}}))
            .await?;
        scene.delete_services(&names[1..]).await?;
        names.extend(scene.names(3).split_off(2));
        scene.create_service(&names[2], &json!({})).await?;
        for name in &names {
            let waits = |service: &_| {
                condition(service).is_some_and(|condition| condition.status == "False")
            };
            let service = scene
                .service_becomes(name, "said not to be ready", waits)
                .await?;
            ensure!(has_finalizer(&service), "{name} is not held");
            let said = condition(&service)
                .map(|condition| condition.message.to_lowercase())
                .unwrap_or_default();
            ensure!(
                said.contains("token") || said.contains("credential"),
                "{name} is said to wait for {said:?}"
            );
            scene
                .service_is_told(name, "SyncLoadBalancerFailed")
                .await?;
        }
        ensure!(
            scene.cloud().load_balancers() == before,
            "the cloud was changed"
        );
        scene.cloud().add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
        scene
            .balanced(
                &[names[0].clone(), names[2].clone()],
                &nodes,
                AFTER_AN_OUTAGE,
            )
            .await?;
        scene
            .services_are_gone(&names[1..2], AFTER_AN_OUTAGE)
            .await?;
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
        scene.balanced(&names, &nodes, AFTER_AN_OUTAGE).await?;
        let balancer = scene.balancer(&names[0]).await?;
        ensure!(
            scene.cloud().protect_load_balancer(&balancer.id, true),
            "there is no {}",
            balancer.id
        );
        scene.delete_services(&names).await?;
        let waits =
            |service: &_| condition(service).is_some_and(|condition| condition.status == "False");
        let service = scene
            .service_becomes(&names[0], "said to be held by its load balancer", waits)
            .await?;
        let said = condition(&service)
            .map(|condition| (condition.reason.clone(), condition.message.clone()))
            .unwrap_or_default();
        ensure!(
            said.1.contains("protect"),
            "it is said to wait for {said:?}"
        );
        ensure!(
            has_finalizer(&service),
            "it is not held, and its load balancer is left"
        );
        scene
            .service_is_told(&names[0], "SyncLoadBalancerFailed")
            .await?;
        // The other one is not held up.
        scene.services_are_gone(&names[1..], SOON).await?;
        scene.cloud_has(1)?;
        ensure!(
            scene.cloud().protect_load_balancer(&balancer.id, false),
            "there is no {}",
            balancer.id
        );
        scene.services_are_gone(&names, AFTER_AN_OUTAGE).await?;
        scene.cloud_has(0)
    })
    .await
}
