//! Hetzner's own cloud controller manager from its published manifest, whose image is changed to ours and back.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use ccm_conformance::CloudProfile as _;
use ccm_tests::profiles::HetznerCloud;
use ccm_tests::wait::until;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::bed::{API_PORT, NODE};
use crate::environment::Environment;
use crate::harness::{Harness, SOON, ingress, run};
use crate::image::{REPOSITORY, TAGS};
use crate::installation::Installation;
use crate::pods;
use crate::steps::Steps;
use crate::target::Target;

/// The manifest as it is published.
const MANIFEST: &str = include_str!("hcloud-ccm-networks.yaml");
/// Image of the manifest.
const THEIRS: &str = "docker.io/hetznercloud/hcloud-cloud-controller-manager:v1.35.0";
/// Name of the Deployment and of its container.
const NAME: &str = "hcloud-cloud-controller-manager";
/// Listener for metrics, at the default of `HCLOUD_METRICS_ADDRESS`.
const METRICS: &str = "http://127.0.0.1:8233/metrics";
const SERVICE: &str = "web";

/// Returns the manifest with what the test bed forces: the fake in place of the cloud, no metadata service, the address of
/// the API server, and one Node, on which two Pods cannot have the same port.
fn manifest(target: &Target) -> Result<String> {
    let settings = target.cloud.program(target.url(0)).environment;
    let endpoint = settings
        .iter()
        .find(|(name, _)| name == "HCLOUD_ENDPOINT")
        .context("no endpoint")?;
    let variables = [
        ("HCLOUD_ENDPOINT", &*endpoint.1),
        ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true"),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", API_PORT),
    ];
    let variables = variables
        .map(|(name, value)| format!("            - {{name: {name}, value: \"{value}\"}}\n"));
    let mut text = MANIFEST.to_owned();
    for (at, inserted) in [
        ("          env:\n", variables.concat()),
        (
            "  replicas: 1\n",
            "  strategy: {type: Recreate}\n".to_owned(),
        ),
    ] {
        ensure!(
            text.matches(at).count() == 1,
            "the manifest has not one line {at:?}"
        );
        text = text.replace(at, &format!("{at}{inserted}"));
    }
    Ok(text)
}

/// Objects of the cloud, and the version of the Service.
type Seen = (Vec<Value>, Option<String>);

/// Returns the number of reads of load balancers and of networks, which have the routes.
fn reads(target: &Target) -> [usize; 2] {
    let counts = target
        .cloud
        .fault_injector()
        .map(ccm_conformance::FaultInjector::counts)
        .unwrap_or_default();
    ["GET /load_balancers", "GET /networks"].map(|route| {
        let of_route = counts.iter().filter(|(name, _)| name.starts_with(route));
        of_route.map(|(_, count)| count).sum()
    })
}

async fn seen(harness: &Harness, target: &Target) -> Result<Seen> {
    Ok((
        target.cloud.objects(),
        harness.service(SERVICE).await?.resource_version(),
    ))
}

pub(crate) async fn image_of_hetzners_manifest_is_changed_to_ours_and_back_without_a_write(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("replacement");
    run(environment, async |harness| {
        clock.step("a fresh Node is registered");
        harness
            .images
            .make_foreign(&harness.bed, environment.go_program()?, THEIRS)
            .await?;
        clock.step("5. the image of Hetzner's program is made");
        let cloud = HetznerCloud::default();
        let machine = cloud.add_machine(NODE);
        let target = Target::serve(cloud).await?;
        for object in Installation::hcloud(&target, 0)?.objects {
            harness.apply(&object).await?;
        }
        harness.check_fresh().await?;
        harness.apply_text(&manifest(&target)?).await?;
        harness.initialised(&machine).await?;
        let uid = harness
            .create_service(
                SERVICE,
                &json!({"load-balancer.hetzner.cloud/location": "fsn1"}),
            )
            .await?;
        until(
            "the Service shows the addresses of its load balancer, and the Node has its route",
            SOON,
            async || {
                let shown = ingress(&harness.service(SERVICE).await?);
                ensure!(!shown.is_empty(), "the Service shows no address");
                let balancers = target.balancers_of(&uid);
                ensure!(
                    balancers.iter().any(|facts| !facts.targets.is_empty()),
                    "the load balancers are {balancers:?}"
                );
                ensure!(!target.cloud.routes().is_empty(), "there is no route");
                // The manifest does not tolerate a Node that waits for its route: its next Pod would wait, too.
                let taints = harness
                    .node()
                    .await?
                    .spec
                    .and_then(|spec| spec.taints)
                    .unwrap_or_default();
                ensure!(taints.is_empty(), "the Node has the taints {taints:?}");
                Ok(())
            },
        )
        .await?;
        runs(harness, THEIRS).await?;
        clock.step("5. Hetzner's program: Node, route and load balancer");

        let before = seen(harness, &target).await?;
        let changes = target.changes();
        let reads = reads(&target);
        let ours = format!("{REPOSITORY}:{}", TAGS[0]);
        set_image(harness, &ours).await?;
        until(
            "our program has read load balancers and routes",
            SOON,
            async || {
                let now = self::reads(&target);
                ensure!(
                    now.iter().zip(reads).all(|(now, before)| *now > before),
                    "reads: {now:?}, before {reads:?}"
                );
                Ok(())
            },
        )
        .await?;
        let written = target.changes().split_off(changes.len());
        ensure!(
            written.is_empty(),
            "ours asked for changes: {}",
            counted(&written)
        );
        ensure!(
            seen(harness, &target).await? == before,
            "the cloud or the Service has changed"
        );
        clock.step("5. image changed to ours: nothing is written");

        set_image(harness, THEIRS).await?;
        ensure!(
            seen(harness, &target).await? == before,
            "the cloud or the Service has changed"
        );
        let written = target.changes().split_off(changes.len());
        println!(
            "back with Hetzner's program, whose own requests for changes are: {}",
            counted(&written)
        );
        clock.step("5. and back: the cloud is as before");
        Ok(())
    })
    .await
}

fn counted(routes: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    routes
        .iter()
        .for_each(|route| *counts.entry(route).or_default() += 1);
    if counts.is_empty() {
        "none".to_owned()
    } else {
        format!("{counts:?}")
    }
}

/// Changes the image of the Deployment and nothing else, and waits until the new Pod has nothing to do.
async fn set_image(harness: &Harness, image: &str) -> Result<()> {
    let change = format!("{NAME}={image}");
    harness
        .kubectl(&[
            "-n",
            "kube-system",
            "set",
            "image",
            &format!("deployment/{NAME}"),
            &change,
        ])
        .await?;
    runs(harness, image).await
}

/// Waits until the only Pod has this image and nothing to do.
async fn runs(harness: &Harness, image: &str) -> Result<()> {
    until("the Pod of the Deployment is ready", SOON, async || {
        let pods = pods::of_label(&harness.client, &format!("app={NAME}")).await?;
        let [pod] = &*pods else {
            anyhow::bail!("the Deployment has {} Pods", pods.len())
        };
        pods::check_ready(pod, image)
    })
    .await?;
    harness.settled_at(METRICS).await
}
