//! A manager that hangs, and one whose credential is wrong.

use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_conformance::CloudProfile as _;
use ccm_tests::profiles::HetznerCloud;
use ccm_tests::wait::{until, until_every};
use hetzner_fake::TOKEN;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::bed::NODE;
use crate::commands::output;
use crate::environment::Environment;
use crate::harness::{Harness, SOON, run};
use crate::installation::Installation;
use crate::pods;
use crate::steps::Steps;
use crate::target::Target;

/// Time-out of a restart by the probes of the chart. It takes two minutes: 8 failures, each after 10 seconds without a TLS
/// handshake, and 30 seconds for the end of a process that does not react.
const RESTART: Duration = Duration::from_secs(300);
/// Pause between two calls of kubectl.
const PAUSE: Duration = Duration::from_millis(500);

/// Returns probes that fail sooner than those of the chart, and the shortest time for the end of the process.
fn fast_probes() -> Value {
    json!({
        "livenessProbe": {"initialDelaySeconds": 0, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3},
        "terminationGracePeriodSeconds": 10,
    })
}

async fn describe_pod(harness: &Harness, name: &str) -> Result<String> {
    harness
        .kubectl(&["-n", "kube-system", "describe", "pod", name])
        .await
}

pub(crate) async fn manager_that_hangs_is_restarted_by_the_kubelet(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("probes");
    run(environment, async |harness| {
        clock.step("a fresh Node is registered");
        let cloud = HetznerCloud::default();
        let machine = cloud.add_machine(NODE);
        let target = Target::serve(cloud).await?;
        let more = if Environment::uses_probes_of_chart() {
            json!({})
        } else {
            fast_probes()
        };
        harness
            .install(&Installation::hcloud(&target, 0)?.with(more))
            .await?;
        harness.initialised(&machine).await?;
        let pods = harness.manager_is_ready(0, 1).await?;
        clock.step("4. chart installed, Node initialised, the manager is ready");
        let id = pods::container(&pods[0])?
            .container_id
            .clone()
            .unwrap_or_default();
        let changes = target.changes();
        output(Command::new("kill").args(["-STOP", &harness.bed.process_of(&id).await?])).await?;
        until("the kubelet restarts the container", RESTART, async || {
            let now = pods::of_manager(&harness.client).await?;
            let container = now.first().map(pods::container).transpose()?;
            let restarts = container.map_or(0, |container| container.restart_count);
            ensure!(
                restarts == 1,
                "the container was restarted {restarts} times"
            );
            Ok(())
        })
        .await?;
        clock.step("4. a stopped process is killed and started again");
        let name = pods[0].name_any();
        for text in [
            "Liveness probe failed",
            "failed liveness probe, will be restarted",
        ] {
            until_every(
                PAUSE,
                "the Pod shows the reason of its restart",
                SOON,
                async || {
                    let shown = describe_pod(harness, &name).await?;
                    ensure!(
                        shown.contains(text),
                        "kubectl describe does not say {text:?}: {shown}"
                    );
                    Ok(())
                },
            )
            .await?;
        }
        harness.manager_is_ready(0, 1).await?;
        // The killed process held the Lease, which the next one gets when it has expired.
        let service = harness
            .create_service(
                "after",
                &json!({"load-balancer.hetzner.cloud/location": "fsn1"}),
            )
            .await?;
        until("the manager works again", SOON, async || {
            ensure!(
                !target.balancers_of(&service).is_empty(),
                "the Service has no load balancer"
            );
            Ok(())
        })
        .await?;
        ensure!(
            target.changes().len() > changes.len(),
            "the fake records no changes: this shows nothing"
        );
        clock.step("4. it is ready, its Lease has expired, and it works");
        Ok(())
    })
    .await
}

pub(crate) async fn wrong_credential_is_shown_by_describe_and_by_the_log(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("credential");
    run(environment, async |harness| {
        clock.step("a fresh Node is registered");
        let cloud = HetznerCloud::default();
        let machine = cloud.add_machine(NODE);
        let fake = cloud.fake.clone();
        let target = Target::serve(cloud).await?;
        let mut installation = Installation::hcloud(&target, 0)?;
        let secret = installation.objects[0].clone();
        installation.objects[0]["stringData"]["token"] =
            json!("wrong-token-of-sixty-four-characters-which-is-not-one-of-anybody");
        harness.install(&installation).await?;
        says_why_it_does_not_start(harness).await?;
        clock.step("4. a wrong token: describe and the log say why the manager ends");

        harness.apply(&secret).await?;
        harness
            .kubectl(&[
                "-n",
                "kube-system",
                "delete",
                "pods",
                "-l=app.kubernetes.io/name=cloud-controller-manager",
            ])
            .await?;
        harness.initialised(&machine).await?;
        harness.manager_is_ready(0, 1).await?;
        clock.step("4. with the right token it works");

        fake.revoke_token(TOKEN);
        harness
            .create_service(
                "refused",
                &json!({"load-balancer.hetzner.cloud/location": "fsn1"}),
            )
            .await?;
        until_every(
            PAUSE,
            "the Service shows that the token is refused",
            SOON,
            async || {
                let shown = harness.kubectl(&["describe", "service", "refused"]).await?;
                ensure!(
                    shown.contains("unable to authenticate"),
                    "kubectl describe does not say why: {shown}"
                );
                Ok(())
            },
        )
        .await?;
        clock.step("4. a token that is revoked: describe of a Service says so");
        Ok(())
    })
    .await
}

/// Waits until the container has ended, and checks that its reason is shown.
async fn says_why_it_does_not_start(harness: &Harness) -> Result<()> {
    let name = until("the container has ended", SOON, async || {
        let pods = pods::of_manager(&harness.client).await?;
        let [pod] = &*pods else {
            anyhow::bail!("the manager has {} Pods", pods.len())
        };
        let container = pods::container(pod)?;
        let has_ended = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            state
                .as_ref()
                .is_some_and(|state| state.terminated.is_some())
        };
        ensure!(
            has_ended(&container.state) || has_ended(&container.last_state),
            "the container has not ended"
        );
        Ok(pod.name_any())
    })
    .await?;
    let shown = describe_pod(harness, &name).await?;
    ensure!(
        shown.contains("unable to authenticate"),
        "kubectl describe pod does not say why: {shown}"
    );
    until_every(PAUSE, "the log says why", SOON, async || {
        let log = harness
            .kubectl(&["-n", "kube-system", "logs", &name])
            .await?;
        ensure!(
            log.contains("unable to authenticate"),
            "the log does not say why: {log}"
        );
        Ok(())
    })
    .await
}
