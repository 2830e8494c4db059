//! The plain manifest of a cloud, for users without helm.

use anyhow::{Result, ensure};
use ccm_conformance::CloudProfile as _;
use ccm_tests::profiles::HetznerCloud;
use kube::ResourceExt;

use crate::bed::{API_PORT, NODE};
use crate::environment::Environment;
use crate::harness::{plain_manifest, run};
use crate::image::REPOSITORY;
use crate::installation::Installation;
use crate::steps::Steps;
use crate::target::Target;

/// Name of the image in the manifest, of which the reader replaces the first part.
const IMAGE: &str = "REGISTRY/cloud-controller-manager";
/// Line before which the address of the fake is inserted.
const BEFORE: &str = "            - name: HCLOUD_TOKEN_FILE\n";

pub(crate) async fn plain_manifest_initialises_the_first_node(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("manifest");
    run(environment, async |harness| {
        clock.step("a fresh Node is registered");
        let cloud = HetznerCloud::default();
        let machine = cloud.add_machine(NODE);
        let target = Target::serve(cloud).await?;
        let installation = Installation::hcloud(&target, 0)?;
        for object in &installation.objects {
            harness.apply(object).await?;
        }
        let text = std::fs::read_to_string(plain_manifest())?;
        for part in [IMAGE, BEFORE] {
            ensure!(
                text.matches(part).count() == 1,
                "the manifest has not one {part:?}"
            );
        }
        let endpoint = &installation.forced["env"]["HCLOUD_ENDPOINT"];
        let endpoint = format!("            - {{name: HCLOUD_ENDPOINT, value: {endpoint}}}\n");
        harness.check_fresh().await?;
        harness
            .apply_text(
                &text
                    .replace(IMAGE, REPOSITORY)
                    .replace(BEFORE, &(endpoint + BEFORE)),
            )
            .await?;
        harness.initialised(&machine).await?;
        let pods = harness.manager_is_ready(0, 1).await?;
        // Nothing serves the address of the Service `kubernetes`: kube-proxy does not run.
        let log = harness
            .kubectl(&["-n", "kube-system", "logs", &pods[0].name_any()])
            .await?;
        let chosen = format!("server=\"https://127.0.0.1:{API_PORT}\"");
        let is_chosen = log
            .lines()
            .any(|line| line.contains("API server chosen") && line.contains(&chosen));
        ensure!(
            is_chosen,
            "the log does not name the API server in use, {chosen}: {log}"
        );
        clock.step("1. manifest applied, Node initialised, the manager is ready");
        Ok(())
    })
    .await
}
