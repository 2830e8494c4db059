//! Kubernetes' own end-to-end specs, as far as they need no data path.

use anyhow::{Result, ensure};
use cloud_provider::names::TAINT_UNINITIALIZED;

use crate::bed::NODE;
use crate::commands::output;
use crate::environment::Environment;
use crate::harness::run;
use crate::installation::Installation;
use crate::steps::Steps;

pub(crate) async fn kubernetes_own_spec_of_the_cleanup_finalizer_passes(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("specs");
    run(environment, async |harness| {
        // The manager of the Nodes would remove the taint.
        harness
            .kubectl(&["taint", "node", NODE, &format!("{TAINT_UNINITIALIZED}-")])
            .await?;
        harness.install(&Installation::keepalived()).await?;
        harness.manager_is_ready(0, 1).await?;
        clock.step("a fresh Node is registered, keepalived installed");
        let mut command = harness.bed.program(environment.specs()?);
        command.arg("--provider=skeleton").arg(format!(
            "--kubeconfig={}",
            harness.bed.kubeconfig().display()
        ));
        command.args([
            "--ginkgo.focus=should handle load balancer cleanup finalizer for service",
            "--ginkgo.no-color",
        ]);
        let report = output(&mut command).await?;
        let result = report
            .lines()
            .rfind(|line| line.contains("Passed"))
            .unwrap_or_default();
        ensure!(
            result.contains("1 Passed | 0 Failed"),
            "the specs report {result:?}: {report}"
        );
        clock.step("7. the spec of the cleanup finalizer has passed");
        Ok(())
    })
    .await
}
