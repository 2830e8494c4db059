//! Credentials that are wrong, expire, or are another project's: nothing is deleted, and all goes on once they are right.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use crate::cloud::Api;
use crate::environment::Environment;
use crate::scene::{Scene, Settings, play};

/// Longer than several passes of every controller.
const A_WHILE: Duration = Duration::from_secs(6);

/// A Service with a load balancer, and Nodes of which one is not ready, so that its server is asked for in each pass.
async fn furnish(scene: &mut Scene) -> Result<()> {
    scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
    scene.create_service("web", &[(80, 30080)], json!({})).await;
    scene.published("web").await?;
    scene.balanced("web", "three members", |it| it.get(&80).is_some_and(|it| it.members().len() == 3)).await?;
    scene.user.set_ready("worker-3", false).await;
    scene.did("three Nodes and a Service");
    Ok(())
}

/// All Nodes are there, and the load balancer, unchanged for a while.
async fn nothing_is_deleted(scene: &Scene) -> Result<()> {
    let (before, changes) = (scene.snapshot().await?, scene.changes().len());
    tokio::time::sleep(A_WHILE).await;
    for name in ["worker-1", "worker-2", "worker-3"] {
        ensure!(scene.node(name).is_some(), "{name} was deleted");
    }
    let differences = before.differences(&scene.snapshot().await?);
    ensure!(differences.is_empty(), "{differences:#?}");
    ensure!(scene.changes().len() == changes, "{:#?}", &scene.changes()[changes..]);
    Ok(())
}

/// What is asked for is done.
async fn goes_on(scene: &mut Scene, port: u16) -> Result<()> {
    scene.set_ports("web", &[(port, 30080)]).await?;
    scene.balanced("web", "the port is another", |it| it.keys().copied().eq([u64::from(port)])).await
}

pub(crate) async fn a_wrong_password_deletes_nothing_and_a_new_one_is_taken_up(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "password", ..Settings::default() }, async |scene| {
        furnish(scene).await?;
        let admin = environment.admin().await?;
        let user = format!("/users/{}", scene.project.user);
        let password = async |password: &str| {
            let change = json!({"user": {"password": password}});
            admin.call(Api::Identity, Method::PATCH, &user, Some(&change)).await
        };
        // Tokens die with the password.
        password("another-secret").await?;
        scene.configure("another-secret")?;
        goes_on(scene, 81).await?;
        scene.did("the password was changed, and the file: it went on without a restart");
        password("a-third-secret").await?;
        let outcome = scene.user.set_ports("web", &[82]).await;
        ensure!(outcome, "no Service");
        tokio::time::sleep(A_WHILE).await;
        for name in ["worker-1", "worker-2", "worker-3"] {
            ensure!(scene.node(name).is_some(), "{name} was deleted");
        }
        scene.program()?.check()?;
        let asked = scene.gate.passed().iter().filter(|it| it.target.contains("/auth/tokens")).count();
        ensure!(asked < 60, "Keystone was asked for {asked} tokens");
        scene.did(&format!(
            "the password was changed, the file was not: nothing was deleted; {asked} tokens were asked for"
        ));
        password(scene.project.password()).await?;
        scene.configure(scene.project.password())?;
        scene.balanced("web", "the port is another", |it| it.keys().copied().eq([82])).await?;
        scene.did("the right password came back: it went on");
        scene.delete_service("web").await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}

pub(crate) async fn a_worthless_token_is_renewed_without_a_trace(environment: &Environment) -> Result<()> {
    play(environment, Settings { label: "token", ..Settings::default() }, async |scene| {
        furnish(scene).await?;
        let tokens = scene.tokens.count();
        ensure!(tokens == 1, "{tokens} tokens for one life");
        scene.tokens.spoil();
        goes_on(scene, 81).await?;
        let warnings = scene.events("SyncLoadBalancerFailed");
        ensure!(warnings.is_empty(), "{warnings:?}");
        let refused = scene.gate.journal().iter().filter(|it| it.contains("401")).count();
        let renewed = scene.tokens.count();
        ensure!(renewed == 2 && refused > 0, "{renewed} tokens, {refused} refusals");
        scene.did(&format!("the token was worthless: {refused} refusals, one more was asked for, and nobody noticed"));
        scene.delete_service("web").await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}

pub(crate) async fn a_credential_of_another_project_deletes_nothing(environment: &Environment) -> Result<()> {
    let other = environment.pool.take(environment).await?;
    let stranger = other.clone();
    let played = play(environment, Settings { label: "stranger", ..Settings::default() }, async |scene| {
        furnish(scene).await?;
        // The other project has servers of the same names; these are not the Nodes' servers.
        scene.configure_for(&other.name, other.password(), &other.name)?;
        tokio::time::sleep(A_WHILE).await;
        nothing_is_deleted(scene).await?;
        scene.end().await?;
        scene.start()?;
        tokio::time::sleep(A_WHILE).await;
        for name in ["worker-1", "worker-2", "worker-3"] {
            ensure!(scene.node(name).is_some(), "{name} was deleted");
        }
        scene.did("with another project's credential, a restart included, nothing was deleted");
        scene.end().await?;
        scene.configure(scene.project.password())?;
        scene.start()?;
        goes_on(scene, 81).await?;
        scene.delete_service("web").await?;
        scene.did("with the right one it went on");
        Ok(())
    })
    .await;
    let cloud = stranger.cloud().await?;
    let left = crate::snapshot::Snapshot::of(&cloud).await?;
    ensure!(left.all("load balancer").next().is_none(), "a load balancer in the other project");
    environment.pool.give_back(stranger);
    played
}
