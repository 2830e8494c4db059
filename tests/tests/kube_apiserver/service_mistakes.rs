//! The admission webhook for Services: responses of the API server to users with an invalid one.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ccm_tests::service_object::load_balancer;
use ccm_tests::wait::until;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::environment::Environment;
use crate::kubelets::OURS;
use crate::scene::{SOON, Scene, play};

const TIER: &str = "simulated.ccm-rs/tier";
const MISSPELT: &str = "simulated.ccm-rs/teir";

/// Runs a scenario with the webhook, for which the API server has a configuration like the chart's.
async fn with_webhook(
    environment: &Environment,
    label: &str,
    action: &str,
    body: impl AsyncFnOnce(&mut Scene) -> Result<()>,
) -> Result<()> {
    let certificates = TempDir::with_prefix("ccm-e2e-webhook-")?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port();
    let directory = format!("--webhook-cert-dir={}", certificates.path().display());
    let port = port.to_string();
    let flags = [
        "--feature-gates=CloudControllerManagerWebhook=true",
        "--webhooks=lb-service",
        "--webhook-bind-address=127.0.0.1",
        &format!("--webhook-secure-port={port}"),
        &format!("--service-validation-action={action}"),
        &directory,
    ];
    play(environment, label, &flags, async |scene| {
        // The Service existed before the webhook.
        scene
            .create_service(
                &old(scene),
                &json!({"metadata": {"annotations": {TIER: "golden"}}}),
            )
            .await?;
        configure(&scene.client, certificates.path(), &port).await?;
        until("the API server calls the webhook", SOON, async || {
            let answer = write(
                &scene.client,
                "POST",
                "?dryRun=All",
                &service(&new(scene), &[(TIER, "golden")]),
            )
            .await?;
            ensure!(
                !answer.warnings.is_empty() || answer.status == 422,
                "not yet: {}",
                answer.text
            );
            Ok(())
        })
        .await?;
        body(scene).await
    })
    .await
}

fn old(scene: &Scene) -> String {
    scene.names(1).remove(0)
}

fn new(scene: &Scene) -> String {
    scene.names(2).remove(1)
}

async fn configure(client: &Client, certificates: &Path, port: &str) -> Result<()> {
    let certificate = certificates.join("cloud-controller-manager-webhook.crt");
    let certificate = until("there is a certificate", SOON, async || {
        Ok(std::fs::read(&certificate)?)
    })
    .await?;
    let webhook = json!({
        "name": "lb-service.ccm-rs.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE", "UPDATE"],
            "scope": "Namespaced",
        }],
        "matchConditions": [
            {"name": "load-balancer", "expression": "object.spec.type == 'LoadBalancer'"},
            {"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"},
        ],
        "clientConfig": {"url": format!("https://127.0.0.1:{port}/lb-service"), "caBundle": ByteString(certificate)},
    });
    let configuration = json!({"metadata": {"name": "e2e-services", "labels": {OURS: "true"}}, "webhooks": [webhook]});
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration)?;
    Api::all(client.clone())
        .create(&PostParams::default(), &configuration)
        .await?;
    Ok(())
}

fn service(name: &str, annotations: &[(&str, &str)]) -> Value {
    let mut service = load_balancer(name, &[80]);
    service["metadata"]["labels"][OURS] = json!("true");
    service["metadata"]["annotations"] = annotations
        .iter()
        .map(|(key, value)| (*key, json!(value)))
        .collect();
    service
}

/// The API server's answer to a write.
struct Answer {
    status: u16,
    /// Texts of the headers `Warning`, which kubectl shows.
    warnings: Vec<String>,
    text: String,
}

/// Creates a Service, or changes it by a merge patch; `path`: below the Services of the namespace.
async fn write(client: &Client, method: &str, path: &str, object: &Value) -> Result<Answer> {
    let form = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = http::Request::builder()
        .method(method)
        .uri(format!("/api/v1/namespaces/default/services{path}"))
        .header("content-type", form)
        .body(Body::from(object.to_string().into_bytes()))?;
    let response = client.send(request).await?;
    let status = response.status().as_u16();
    // 299 - "the text"
    let texts = response.headers().get_all("warning").iter().map(|header| {
        let text = header.to_str()?.split_once('"').context("no quote")?.1;
        Ok(text.trim_end_matches('"').replace("\\\"", "\""))
    });
    let warnings = texts.collect::<Result<_>>()?;
    let text = String::from_utf8(response.into_body().collect_bytes().await?.to_vec())?;
    Ok(Answer {
        status,
        warnings,
        text,
    })
}

fn refusal() -> String {
    format!("annotation {TIER}: \"golden\" is not one of basic, premium")
}

fn unknown() -> String {
    format!("annotation {MISSPELT} is not known: did you mean {TIER}?")
}

pub(crate) async fn whoever_writes_a_service_is_warned_of_its_mistakes(
    environment: &Environment,
) -> Result<()> {
    with_webhook(environment, "warned", "Warn", async |scene| {
        let client = &scene.client;
        let old = old(scene);
        let new = new(scene);
        let expect = |answer: &Answer, status: u16, expected: &[String]| {
            ensure!(
                answer.status == status && answer.warnings == expected,
                "{} {:?}",
                answer.text,
                answer.warnings
            );
            Ok(())
        };
        let heading =
            format!("Service default/{new} gets no load balancer until this is corrected:");
        let mistaken = service(&new, &[(TIER, "golden"), (MISSPELT, "premium")]);
        expect(
            &write(client, "POST", "", &mistaken).await?,
            201,
            &[heading, refusal(), unknown()],
        )?;
        let corrected = json!({"metadata": {"annotations": {TIER: "basic", MISSPELT: null}}});
        expect(
            &write(client, "PATCH", &format!("/{new}"), &corrected).await?,
            200,
            &[],
        )?;

        let heading = format!(
            "the load balancer of Service default/{old} stays as it is until this is corrected:"
        );
        let changed = json!({"spec": {"sessionAffinity": "ClientIP"}});
        expect(
            &write(client, "PATCH", &format!("/{old}"), &changed).await?,
            200,
            &[heading, refusal()],
        )?;
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        expect(
            &write(client, "PATCH", &format!("/{old}"), &labelled).await?,
            200,
            &[],
        )?;
        let internal =
            json!({"spec": {"type": "ClusterIP"}, "metadata": {"annotations": {"a": "b"}}});
        expect(
            &write(client, "PATCH", &format!("/{old}"), &internal).await?,
            200,
            &[],
        )?;
        kubectl(
            environment,
            &service(&new, &[(MISSPELT, "premium")]),
            &format!("Warning: {}\n", unknown()),
        )
    })
    .await
}

/// Applies an object as users do, and compares kubectl's standard error.
fn kubectl(environment: &Environment, object: &Value, expected: &str) -> Result<()> {
    let mut command = Command::new("kubectl");
    command
        .args(["apply", "--server-side", "--force-conflicts", "-f", "-"])
        .env("KUBECONFIG", environment.kubeconfig()?);
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: kubectl is not installed");
            return Ok(());
        }
        child => child.context("kubectl")?,
    };
    let mut input = child.stdin.take().context("standard input")?;
    std::io::Write::write_all(&mut input, object.to_string().as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(
        output.status.success() && said == expected,
        "kubectl ended with {}: {said}",
        output.status
    );
    Ok(())
}

pub(crate) async fn a_service_with_new_mistakes_is_denied_where_the_operator_wants_that(
    environment: &Environment,
) -> Result<()> {
    with_webhook(environment, "denied", "Deny", async |scene| {
        let client = &scene.client;
        let old = old(scene);
        let new = new(scene);
        let denied = write(client, "POST", "", &service(&new, &[(TIER, "golden")])).await?;
        let status: Value = serde_json::from_str(&denied.text)?;
        let message = format!(
            "admission webhook \"lb-service.ccm-rs.dev\" denied the request: {}",
            refusal()
        );
        ensure!(
            denied.status == 422 && status["message"] == *message,
            "{}",
            denied.text
        );
        let warned = write(client, "POST", "", &service(&new, &[(MISSPELT, "premium")])).await?;
        ensure!(
            warned.status == 201 && warned.warnings == [unknown()],
            "{} {:?}",
            warned.text,
            warned.warnings
        );

        // An existing invalid Service can be changed, unless the change adds errors, and is deleted as usual.
        let changed = json!({"spec": {"sessionAffinity": "ClientIP"}});
        let changed = write(client, "PATCH", &format!("/{old}"), &changed).await?;
        ensure!(
            changed.status == 200 && changed.warnings.len() == 2,
            "{} {:?}",
            changed.text,
            changed.warnings
        );
        let worse = json!({"metadata": {"annotations": {TIER: "silver"}}});
        let worse = write(client, "PATCH", &format!("/{old}"), &worse).await?;
        ensure!(worse.status == 422, "{}", worse.text);
        scene.delete_services(&[old.clone(), new]).await?;
        until(&format!("{old} is deleted"), SOON, async || {
            ensure!(
                scene.services().get_opt(&old).await?.is_none(),
                "it is still there"
            );
            Ok(())
        })
        .await
    })
    .await
}
