//! A release of the chart: the first Node of a cluster, Services, an update of the image, and the uninstallation.

use anyhow::{Result, ensure};
use ccm_conformance::CloudProfile;
use ccm_tests::profiles::{AwsCloud, AzureCloud, AzurePools, HetznerCloud};
use ccm_tests::wait::until;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::bed::NODE;
use crate::environment::Environment;
use crate::harness::{Harness, SOON, ingress, run};
use crate::installation::Installation;
use crate::lease::{Holders, holder};
use crate::pods;
use crate::steps::{Clock, Steps};
use crate::target::Target;

/// Name of the ordinary Pod, and of the Services that stay and that are deleted.
const FIRST: &str = "first";
const KEPT: &str = "kept";
const DELETED: &str = "deleted";

pub(crate) async fn hcloud_serves_a_cluster_from_its_first_node_to_the_uninstallation(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    // The chart sets no location for load balancers: an annotation does.
    let location = json!({"load-balancer.hetzner.cloud/location": "fsn1"});
    let release = CloudRelease {
        cloud: HetznerCloud::default(),
        install: Installation::hcloud,
        annotations: location,
    };
    release.run(environment, steps).await
}

pub(crate) async fn aws_serves_a_cluster_from_its_first_node_to_the_uninstallation(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let release = CloudRelease {
        cloud: AwsCloud::classic(),
        install: Installation::aws,
        annotations: Value::Null,
    };
    release.run(environment, steps).await
}

pub(crate) async fn azure_serves_a_cluster_from_its_first_node_to_the_uninstallation(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let cloud = AzureCloud::new(AzurePools::Addresses);
    let release = CloudRelease {
        cloud,
        install: Installation::azure,
        annotations: Value::Null,
    };
    release.run(environment, steps).await
}

/// The release for one cloud.
struct CloudRelease<C> {
    cloud: C,
    install: fn(&Target, usize) -> Result<Installation>,
    annotations: Value,
}

impl<C: CloudProfile> CloudRelease<C> {
    async fn run(self, environment: &Environment, steps: &Steps) -> Result<()> {
        let mut clock = steps.of(self.cloud.name());
        run(environment, async |harness| {
            clock.step("a fresh Node is registered");
            let machine = self.cloud.add_machine(NODE);
            let target = Target::serve(self.cloud).await?;
            let installation = (self.install)(&target, 0)?;
            initialises_the_first_node(harness, &mut clock, &installation, &machine).await?;
            serves_services(harness, &mut clock, &target, &machine, &self.annotations).await?;
            updates_the_image(harness, &mut clock, &target, &installation).await?;
            leaves_load_balancers(harness, &mut clock, &target).await
        })
        .await
    }
}

/// Checks that the chart's Pod starts on a Node with the start-up taint and without an address, and that an ordinary Pod
/// runs only after the manager has removed the taint.
async fn initialises_the_first_node(
    harness: &Harness,
    clock: &mut Clock<'_>,
    installation: &Installation,
    machine: &str,
) -> Result<()> {
    harness.check_fresh().await?;
    harness.apply(&pods::ordinary(FIRST)).await?;
    until(
        "the scheduler has refused an ordinary Pod",
        SOON,
        async || {
            let (status, message) =
                pods::condition(&harness.ordinary_pod(FIRST).await?, "PodScheduled");
            ensure!(
                status == "False" && message.contains("taint"),
                "PodScheduled is {status:?}: {message}"
            );
            Ok(())
        },
    )
    .await?;
    harness.install(installation).await?;
    harness.initialised(machine).await?;
    clock.step("1. chart installed, Node initialised");
    until("an ordinary Pod runs on the Node", SOON, async || {
        let pod = harness.ordinary_pod(FIRST).await?;
        ensure!(pods::container(&pod)?.ready, "Pod {FIRST} does not run");
        Ok(())
    })
    .await?;
    harness.manager_is_ready(0, 1).await?;
    clock.step("1. an ordinary Pod runs, the manager is ready");
    Ok(())
}

/// Checks that two Services get load balancers, and that nothing stays of the one that is deleted.
async fn serves_services(
    harness: &Harness,
    clock: &mut Clock<'_>,
    target: &Target,
    machine: &str,
    annotations: &Value,
) -> Result<()> {
    let kept = harness.create_service(KEPT, annotations).await?;
    let deleted = harness.create_service(DELETED, annotations).await?;
    for (name, uid) in [(KEPT, &kept), (DELETED, &deleted)] {
        until(
            "a Service shows the address of its load balancer",
            SOON,
            async || {
                let shown = ingress(&harness.service(name).await?);
                let balancers = target.balancers_of(uid);
                let [balancer] = &*balancers else {
                    anyhow::bail!("Service {name} has {balancers:?}")
                };
                let address = balancer.address.clone().unwrap_or_default();
                ensure!(
                    shown.contains(&address),
                    "Service {name} shows {shown:?}, its load balancer {address:?}"
                );
                let targets: Vec<_> = balancer.targets.iter().map(String::as_str).collect();
                ensure!(
                    targets == [machine],
                    "the load balancer of {name} has the targets {targets:?}"
                );
                Ok(())
            },
        )
        .await?;
    }
    clock.step("2. two Services show their addresses");
    harness.delete_service(DELETED).await?;
    let left = target.balancers_of(&deleted);
    ensure!(
        left.is_empty(),
        "the finalizer of {DELETED} was removed before {left:?}"
    );
    until("nothing is left of the load balancer", SOON, async || {
        let left = target.cloud.leftovers();
        ensure!(
            left.is_empty(),
            "the load balancer of {DELETED} has left {left:?}"
        );
        Ok(())
    })
    .await?;
    clock.step("2. a deleted Service is gone, in the cloud as well");
    Ok(())
}

/// Checks that a rolling update changes nothing: neither in the cloud nor the Service. One Node has room for one Pod, so
/// that the gap is about the time in which the kubelet ends one Pod and starts the next.
async fn updates_the_image(
    harness: &Harness,
    clock: &mut Clock<'_>,
    target: &Target,
    installation: &Installation,
) -> Result<()> {
    harness.settled().await?;
    let changes = target.changes();
    let service = harness.service(KEPT).await?;
    let before = holder(&harness.client).await?;
    let holders = Holders::watch(&harness.client);
    harness.upgrade(installation, 1).await?;
    harness.manager_is_ready(1, 1).await?;
    until("the new Pod leads", SOON, async || {
        let now = holder(&harness.client).await?;
        ensure!(
            now.is_some() && now != before,
            "the Lease is held by {now:?}"
        );
        Ok(())
    })
    .await?;
    harness.settled().await?;
    let gaps = holders.gaps();
    let seen = holders.all();
    let [gap] = &*gaps else {
        anyhow::bail!("the Lease was held by {seen:?}, not by the old and the new Pod")
    };
    clock.step("3. rolling update on the only Node, nothing is written");
    clock.note("3.   of that, without a leader", *gap);
    check_unchanged(harness, target, &changes, &service).await
}

async fn check_unchanged(
    harness: &Harness,
    target: &Target,
    changes: &[String],
    service: &k8s_openapi::api::core::v1::Service,
) -> Result<()> {
    let written = target.changes().split_off(changes.len());
    ensure!(
        written.is_empty(),
        "requests asked for changes: {written:?}"
    );
    let now = harness.service(&service.name_any()).await?;
    ensure!(
        now.resource_version() == service.resource_version(),
        "the Service was written: {service:?}, now {now:?}"
    );
    Ok(())
}

/// Checks that the end of the release changes neither load balancer nor Service, and that the notes said what to do.
async fn leaves_load_balancers(
    harness: &Harness,
    clock: &mut Clock<'_>,
    target: &Target,
) -> Result<()> {
    let changes = target.changes();
    let service = harness.service(KEPT).await?;
    let notes = harness.uninstall().await?;
    for text in [
        "BEFORE YOU UNINSTALL",
        "kubectl get services -A --field-selector spec.type=LoadBalancer",
    ] {
        ensure!(
            notes.contains(text),
            "the notes do not say {text:?}: {notes}"
        );
    }
    until("the Pods of the manager are gone", SOON, async || {
        let pods = pods::of_manager(&harness.client).await?;
        ensure!(pods.is_empty(), "{} Pods are left", pods.len());
        Ok(())
    })
    .await?;
    check_unchanged(harness, target, &changes, &service).await?;
    let left = target.balancers_of(&service.uid().unwrap_or_default());
    ensure!(left.len() == 1, "the load balancers of {KEPT} are {left:?}");
    clock.step("6. uninstalled, the load balancer stays");
    Ok(())
}
