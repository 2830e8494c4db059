//! Listeners that terminate TLS with an existing certificate.

use std::path::Path;

use anyhow::{Result, ensure};
use ccm_tests::real;
use ccm_tests::wait::until;
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::scene::{SOON, Settings, play};
use crate::sharing::{INTERNAL, annotated};

const REFERENCE: &str = "loadbalancer.openstack.org/default-tls-container-ref";

/// Stores a certificate where the test bed's Octavia reads it, which has no Barbican: in a file. Returns its reference.
async fn certificate(directory: &Path) -> Result<String> {
    let base = directory.join("web");
    let certificate = base.with_extension("crt");
    let key = base.with_extension("key");
    let certificate = certificate.display().to_string();
    let key = key.display().to_string();
    let words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=web",
        "-keyout",
        &key,
        "-out",
        &certificate,
    ];
    real::run(Path::new("openssl"), &words, &[]).await?;
    Ok(base.display().to_string())
}

pub(crate) async fn a_tls_reference_is_looked_for_and_ends_tls(
    environment: &Environment,
) -> Result<()> {
    play(environment, Settings { label: "tls", ..Settings::default() }, async |scene| {
        scene.join(&["worker-1"]).await?;
        let reference = "https://keys.example/v1/containers/5f0d1c5e-8a5f-4d0c-9d5b-0a3b8f6a7c11";
        let service = json!({"metadata": {"annotations": {REFERENCE: reference, INTERNAL: "true"}}});
        scene.create_service("web", &[(443, 30443)], service).await;
        let mut said = String::new();
        until("it says that there is no Barbican", SOON, async || {
            said = scene.events("SyncLoadBalancerFailed").join("\n");
            let is_whole = said.contains("key-manager") && said.contains("default-tls-container-ref");
            ensure!(is_whole, "of that it says {said:?}");
            Ok(())
        })
        .await?;
        let now = scene.snapshot().await?;
        ensure!(now.all("load balancer").next().is_none(), "a load balancer was made");
        scene.did(&format!("without a Barbican a reference is refused: {said}"));

        scene.change_service("web", annotated(REFERENCE, "web")).await?;
        until("it says that this is no reference", SOON, async || {
            let said = scene.events("SyncLoadBalancerFailed").join("\n");
            ensure!(said.contains("does not end in /containers/"), "of that it says {said:?}");
            Ok(())
        })
        .await?;
        scene.change_service("web", json!({"metadata": {"annotations": {REFERENCE: Value::Null}}})).await?;
        scene.published("web").await?;
        scene.balanced("web", "it is TCP", |balanced| balanced[&443].listener["protocol"] == "TCP").await?;
        scene.did("without the reference it was made");

        scene.end().await?;
        let directory = tempfile::TempDir::with_prefix("ccm-tls-")?;
        let reference = certificate(directory.path()).await?;
        scene.settings.balancers = "container-store=external";
        scene.configure(scene.project.password())?;
        scene.start()?;
        scene.change_service("web", annotated(REFERENCE, &reference)).await?;
        scene
            .balanced("web", "it ends TLS", |balanced| {
                balanced.get(&443).is_some_and(|listener| {
                    listener.listener["protocol"] == "TERMINATED_HTTPS"
                        && listener.listener["default_tls_container_ref"] == reference
                        && listener.pool["protocol"] == "HTTP"
                        && listener.members.len() == 1
                })
            })
            .await?;
        scene.restarts_without_a_change().await?;
        scene
            .did("with a reference that it need not look for, the listener ends TLS; nothing was changed by a restart");
        scene.change_service("web", json!({"metadata": {"annotations": {REFERENCE: Value::Null}}})).await?;
        scene
            .balanced("web", "it is TCP again", |balanced| {
                balanced.get(&443).is_some_and(|listener| listener.listener["protocol"] == "TCP" && listener.pool["protocol"] == "TCP")
            })
            .await?;
        scene.delete_service("web").await?;
        scene.did("it was switched off, and the Service deleted");
        Ok(())
    })
    .await
}
