//! Credentials that are wrong, expire, or belong to another project: nothing is deleted, and work continues once they
//! are correct.

use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_tests::wait::until;
use http::Method;
use serde_json::json;

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::project::trustee;
use crate::scene::{SOON, Scene, Settings, play};

/// Longer than several passes of every controller.
const A_WHILE: Duration = Duration::from_secs(6);

/// Creates a Service with a load balancer, and Nodes of which one is not ready, so that each pass reads its server.
async fn furnish(scene: &mut Scene) -> Result<()> {
    scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
    scene.create_service("web", &[(80, 30080)], json!({})).await;
    scene.published("web").await?;
    scene
        .balanced("web", "three members", |balanced| {
            balanced
                .get(&80)
                .is_some_and(|listener| listener.members().len() == 3)
        })
        .await?;
    scene.user.set_ready("worker-3", false).await;
    scene.is_silent().await;
    scene.did("three Nodes and a Service");
    Ok(())
}

/// Checks that all Nodes and the load balancer exist, unchanged for a while.
async fn nothing_is_deleted(scene: &Scene) -> Result<()> {
    let before = scene.snapshot().await?;
    let changes = scene.changes().len();
    tokio::time::sleep(A_WHILE).await;
    for name in ["worker-1", "worker-2", "worker-3"] {
        ensure!(scene.node(name).is_some(), "{name} was deleted");
    }
    let differences = before.differences(&scene.snapshot().await?);
    ensure!(differences.is_empty(), "{differences:#?}");
    ensure!(
        scene.changes().len() == changes,
        "{:#?}",
        &scene.changes()[changes..]
    );
    Ok(())
}

/// Returns the number of tokens that Keystone refused.
fn refusals(scene: &Scene) -> usize {
    let is_refusal = |line: &&String| line.contains("/auth/tokens → 4");
    scene.injector.journal().iter().filter(is_refusal).count()
}

/// Waits until Keystone refuses once more to give a token. The services accept a token from their caches for 300 s after its end.
async fn is_refused(scene: &Scene, before: usize) -> Result<()> {
    until("Keystone gives no token", 2 * SOON, async || {
        ensure!(refusals(scene) > before, "it was not asked");
        Ok(())
    })
    .await
}

/// Waits until Keystone has given one more token.
async fn has_more_tokens(scene: &Scene, before: usize) -> Result<()> {
    until("there is another token", SOON, async || {
        ensure!(scene.tokens.count() > before, "there is none");
        Ok(())
    })
    .await
}

/// Checks that a change of the Service is applied, to its last request: the next step compares the project with what it
/// was, and a slow Octavia still removes the pool of the old port when the new port is already there.
async fn goes_on(scene: &mut Scene, port: u16) -> Result<()> {
    scene.set_ports("web", &[(port, 30080)]).await?;
    scene
        .balanced("web", "the port is another", |balanced| {
            balanced.keys().copied().eq([u64::from(port)])
        })
        .await?;
    scene.is_silent().await;
    Ok(())
}

pub(crate) async fn a_wrong_password_deletes_nothing_and_a_new_one_is_taken_up(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "password", ..Settings::default() }, async |scene| {
        furnish(scene).await?;
        let admin = environment.admin().await?;
        let user = format!("/users/{}", scene.project.user);
        let own = scene.cloud.clone();
        let password = async |password: &str| {
            own.set_password(password);
            let change = json!({"user": {"password": password}});
            admin.call(Api::Identity, Method::PATCH, &user, Some(&change)).await
        };
        // Tokens die with the password.
        password("another-secret").await?;
        scene.configure("another-secret")?;
        goes_on(scene, 81).await?;
        scene.did("the password was changed, and the file: it went on without a restart");
        password("a-third-secret").await?;
        let outcome = scene.user.set_ports("web", &[82]).await; let refusals = refusals(scene);
        ensure!(outcome, "no Service");
        is_refused(scene, refusals).await?;
        tokio::time::sleep(A_WHILE).await;
        for name in ["worker-1", "worker-2", "worker-3"] {
            ensure!(scene.node(name).is_some(), "{name} was deleted");
        }
        scene.program()?.check()?;
        let asked = scene.injector.passed().iter().filter(|request| request.target.contains("/auth/tokens")).count();
        ensure!(asked < 60, "Keystone was asked for {asked} tokens");
        scene.did(&format!(
            "the password was changed, the file was not: nothing was deleted; {asked} tokens were asked for"
        ));
        password(scene.project.password()).await?;
        scene.configure(scene.project.password())?;
        scene.balanced("web", "the port is another", |balanced| balanced.keys().copied().eq([82])).await?;
        scene.did("the right password came back: it went on");
        scene.delete_service("web").await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}

pub(crate) async fn a_worthless_token_is_renewed_without_a_trace(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "token", ..Settings::default() }, async |scene| {
        furnish(scene).await?;
        let tokens = scene.tokens.count();
        ensure!(tokens == 1, "{tokens} tokens for one life");
        scene.tokens.spoil();
        goes_on(scene, 81).await?;
        let warnings = scene.events("SyncLoadBalancerFailed");
        ensure!(warnings.is_empty(), "{warnings:?}");
        let refused = scene.injector.journal().iter().filter(|journal| journal.contains("401")).count();
        let renewed = scene.tokens.count();
        ensure!(renewed == 2 && refused > 0, "{renewed} tokens, {refused} refusals");
        scene.did(&format!("the token was worthless: {refused} refusals, one more was asked for, and nobody noticed"));
        scene.delete_service("web").await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}

pub(crate) async fn a_credential_of_another_project_deletes_nothing(
    environment: &Environment,
) -> Result<()> {
    let other = environment.pool.take(environment).await?;
    let stranger = other.clone();
    let played = play(
        environment,
        Settings {
            label: "stranger",
            ..Settings::default()
        },
        async |scene| {
            furnish(scene).await?;
            // The other project has servers of the same names; these are not the Nodes' servers.
            scene.configure_for(&other.name, other.password(), &other.name)?;
            until("another project waits for a restart", SOON, async || {
                ensure!(
                    scene
                        .program()?
                        .log()
                        .contains("parts of it need a restart"),
                    "it does not say so"
                );
                Ok(())
            })
            .await?;
            nothing_is_deleted(scene).await?;
            scene.end().await?;
            let tokens = scene.tokens.count();
            scene.start()?;
            has_more_tokens(scene, tokens).await?;
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
        },
    )
    .await;
    let cloud = stranger.cloud().await?;
    let left = crate::snapshot::Snapshot::of(&cloud).await?;
    ensure!(
        left.all("load balancer").next().is_none(),
        "a load balancer in the other project"
    );
    environment.pool.give_back(stranger);
    played
}

/// Creates a trust of the project's user for a user without a role of its own, and returns its ID.
async fn trust(scene: &Scene, trustee: &str) -> Result<String> {
    let trust = json!({"trust": {"trustor_user_id": scene.project.user, "trustee_user_id": trustee,
        "project_id": scene.project.id, "impersonation": true, "roles": roles()}});
    Ok(text(
        &scene
            .cloud
            .post(Api::Identity, "/OS-TRUST/trusts", trust)
            .await?,
        "id",
    )
    .to_owned())
}

fn roles() -> serde_json::Value {
    json!([{"name": "member"}, {"name": "load-balancer_member"}])
}

pub(crate) async fn application_credentials_and_trusts_are_enough(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "trust", starts_later: true, ..Settings::default() }, async |scene| {
        let own = format!("/users/{}", scene.project.user);
        let credential = json!({"application_credential": {"name": "ccm", "roles": roles()}});
        let credential = scene.cloud.post(Api::Identity, &format!("{own}/application_credentials"), credential).await?;
        let id = text(&credential, "id"); let secret = text(&credential, "secret");
        scene.configure_as(&format!("application-credential-id={id}\napplication-credential-secret={secret}"))?;
        scene.start()?;
        furnish(scene).await?;
        scene.did("with an application credential");

        let admin = environment.admin().await?; let password = scene.project.password();
        let user =
            json!({"user": {"name": trustee(&scene.project.name), "password": password, "domain_id": "default"}});
        let user = text(&admin.post(Api::Identity, "/users", user).await?, "id").to_owned();
        let by_trust = |trust: &str| format!("trust-id={trust}\ntrustee-id={user}\ntrustee-password={password}");
        let first = trust(scene, &user).await?;
        let tokens = scene.tokens.count();
        scene.configure_as(&by_trust(&first))?;
        has_more_tokens(scene, tokens).await?;
        scene.cloud.delete(Api::Identity, &format!("{own}/application_credentials/{id}")).await?;
        goes_on(scene, 81).await?;
        scene.did("the file named a trust instead, and the application credential went: it went on without a restart");
        scene.end().await?;
        scene.start()?;
        goes_on(scene, 82).await?;
        scene.did("so it did after a restart");

        let refusals = refusals(scene);
        scene.cloud.delete(Api::Identity, &format!("/OS-TRUST/trusts/{first}")).await?;
        scene.tokens.spoil();
        let before = scene.snapshot().await?;
        ensure!(scene.user.set_ports("web", &[83]).await, "no Service");
        is_refused(scene, refusals).await?;
        tokio::time::sleep(A_WHILE).await;
        for name in ["worker-1", "worker-2", "worker-3"] {
            ensure!(scene.node(name).is_some(), "{name} was deleted");
        }
        let differences = before.differences(&scene.snapshot().await?);
        ensure!(differences.is_empty(), "{differences:#?}");
        let said = scene.events("SyncLoadBalancerFailed").pop();
        scene.did(&format!("the trust was taken back: nothing was deleted; {said:?}"));
        let second = trust(scene, &user).await?;
        scene.configure_as(&by_trust(&second))?;
        scene.balanced("web", "the port is another", |balanced| balanced.keys().copied().eq([83])).await?;
        scene.did("another trust was given: it went on");
        scene.delete_service("web").await?;
        scene.end().await?;
        scene.cloud.delete(Api::Identity, &format!("/OS-TRUST/trusts/{second}")).await?;
        admin.delete(Api::Identity, &format!("/users/{user}")).await?;
        scene.did("the Service was deleted");
        Ok(())
    })
    .await
}
