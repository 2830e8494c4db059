//! Two replicas on one Node: a rolling update while Services are created.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ccm_tests::profiles::HetznerCloud;
use ccm_tests::wait::until;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::bed::NODE;
use crate::environment::Environment;
use crate::harness::{Harness, SOON, run};
use crate::installation::Installation;
use crate::lease::Holders;
use crate::steps::Steps;
use crate::target::{Target, Write};
use ccm_conformance::CloudProfile as _;

/// Longest time without a leader.
const MOST: Duration = Duration::from_secs(2);
/// Attempts: load on the machine may delay one update, but not all of them.
const ATTEMPTS: usize = 3;
/// Number of Services that are created during one update.
const SERVICES: usize = 3;

/// Returns the values for two replicas on one Node. On the network of the host they may have no port in common: no secure
/// port, so no probes, and no metrics.
fn two_replicas() -> Value {
    let on = json!([{"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}]);
    json!({
        "kind": "Deployment", "replicas": 2, "securePort": 0, "env": {"HCLOUD_METRICS_ENABLED": "false"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": on}}},
    })
}

pub(crate) async fn standby_leads_within_two_seconds_of_a_rolling_update_amid_work(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("standby");
    run(environment, async |harness| {
        clock.step("a fresh Node is registered");
        let cloud = HetznerCloud::default();
        let machine = cloud.add_machine(NODE);
        let target = Target::serve(cloud).await?;
        // Each version has a port of the fake for itself, so that the fake can tell them apart.
        let installations = [
            Installation::hcloud(&target, 0)?.with(two_replicas()),
            Installation::hcloud(&target, 1)?.with(two_replicas()),
        ];
        harness.install(&installations[0]).await?;
        harness.initialised(&machine).await?;
        clock.step("3. two replicas installed, Node initialised");
        let mut longest = Vec::new();
        for attempt in 0..ATTEMPTS {
            // The tag and the port of the version that follows.
            let next = (attempt + 1) % 2;
            stand_by(harness, attempt % 2).await?;
            let gap = update(harness, &target, &installations[next], attempt).await?;
            clock.step("3. rolling update of two replicas, Services are created meanwhile");
            clock.note("3.   of that, the longest time without a leader", gap);
            longest.push(gap);
            if gap <= MOST {
                return Ok(());
            }
        }
        anyhow::bail!("nobody led for {longest:?}, required is {MOST:?} at most")
    })
    .await
}

/// Waits until one of two replicas leads, and the other one waits for the Lease.
async fn stand_by(harness: &Harness, tag: usize) -> Result<()> {
    let pods = harness.manager_is_ready(tag, 2).await?;
    for pod in pods {
        let name = pod.name_any();
        until("a replica stands for election", SOON, async || {
            let log = harness
                .kubectl(&["-n", "kube-system", "logs", &name])
                .await?;
            ensure!(
                log.contains("Attempting to acquire leader lease"),
                "{name} does not stand for election"
            );
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Updates the image while Services are created. Returns the longest time without a leader.
async fn update(
    harness: &Harness,
    target: &Target,
    next: &Installation,
    attempt: usize,
) -> Result<Duration> {
    let before = target.writes().len();
    let holders = Holders::watch(&harness.client);
    let location = json!({"load-balancer.hetzner.cloud/location": "fsn1"});
    let mut services = Vec::new();
    for number in 0..SERVICES {
        services.push(
            harness
                .create_service(&format!("amid-{attempt}-{number}"), &location)
                .await?,
        );
    }
    until("the first load balancer is under way", SOON, async || {
        ensure!(target.writes().len() > before, "nothing is requested");
        Ok(())
    })
    .await?;
    let old = attempt % 2;
    let new = (attempt + 1) % 2;
    harness.upgrade(next, new).await?;
    harness.manager_is_ready(new, 2).await?;
    // Work for the new version.
    services.push(
        harness
            .create_service(&format!("after-{attempt}"), &location)
            .await?,
    );
    until("each Service has its load balancer", SOON, async || {
        for uid in &services {
            let balancers = target.balancers_of(uid);
            let has_all = balancers
                .iter()
                .all(|facts| !facts.ports.is_empty() && !facts.targets.is_empty());
            ensure!(
                balancers.len() == 1 && has_all,
                "the load balancers of a Service are {balancers:?}"
            );
        }
        Ok(())
    })
    .await?;
    let writes = target.writes().split_off(before);
    check_one_writer_at_a_time(&writes, old)?;
    holders
        .gaps()
        .into_iter()
        .max()
        .with_context(|| format!("the Lease was held by {:?} alone", holders.all()))
}

/// Checks that the old version wrote nothing after the new one had begun to write.
fn check_one_writer_at_a_time(writes: &[Write], old: usize) -> Result<()> {
    let (of_old, of_new): (Vec<&Write>, Vec<&Write>) =
        writes.iter().partition(|write| write.port == old);
    let at = |write: &&&Write| -> Instant { write.at };
    let last = of_old.iter().max_by_key(at);
    let first = of_new.iter().min_by_key(at);
    let (Some(last), Some(first)) = (last, first) else {
        anyhow::bail!("only one version wrote: this shows nothing: {writes:?}")
    };
    ensure!(
        last.at < first.at,
        "the old version wrote {} after the new one had written {}",
        last.what,
        first.what
    );
    Ok(())
}
