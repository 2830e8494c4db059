//! keepalived, whose cloud is a ConfigMap in the cluster, and whose Nodes belong to another manager.

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::TAINT_UNINITIALIZED;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{Api, ResourceExt};
use serde_json::Value;

use crate::bed::NODE;
use crate::environment::Environment;
use crate::harness::{Harness, SOON, ingress, run};
use crate::installation::Installation;
use crate::lease::{Holders, holder};
use crate::pods;
use crate::steps::Steps;

const KEPT: &str = "kept";
const DELETED: &str = "deleted";

pub(crate) async fn keepalived_assigns_addresses_until_and_after_the_uninstallation(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("keepalived");
    run(environment, async |harness| {
        // The manager of the Nodes would remove the taint.
        harness
            .kubectl(&["taint", "node", NODE, &format!("{TAINT_UNINITIALIZED}-")])
            .await?;
        clock.step("a fresh Node is registered");
        let installation = Installation::keepalived();
        harness.install(&installation).await?;
        harness.manager_is_ready(0, 1).await?;
        clock.step("1. chart installed, the manager is ready");
        for name in [KEPT, DELETED] {
            harness.create_service(name, &Value::Null).await?;
        }
        for name in [KEPT, DELETED] {
            until(
                "a Service shows the address that the ConfigMap has",
                SOON,
                async || assigned(harness, name).await,
            )
            .await?;
        }
        clock.step("2. two Services show their addresses");
        harness.delete_service(DELETED).await?;
        let entries = addresses(harness).await?.data.unwrap_or_default();
        let is_left = entries
            .values()
            .any(|service| service.contains(&format!("default/{DELETED}")));
        ensure!(
            !is_left,
            "the ConfigMap still has an entry for {DELETED}: {entries:?}"
        );
        clock.step("2. a deleted Service is gone, in the ConfigMap as well");

        let before = Written::of(harness).await?;
        let old = holder(&harness.client).await?;
        let holders = Holders::watch(&harness.client);
        harness.upgrade(&installation, 1).await?;
        harness.manager_is_ready(1, 1).await?;
        until("the new Pod leads", SOON, async || {
            let now = holder(&harness.client).await?;
            ensure!(now.is_some() && now != old, "the Lease is held by {now:?}");
            Ok(())
        })
        .await?;
        harness.settled().await?;
        ensure!(
            Written::of(harness).await? == before,
            "the update has written the ConfigMap or the Service"
        );
        clock.step("3. rolling update on the only Node, nothing is written");
        holders
            .gaps()
            .iter()
            .for_each(|gap| clock.note("3.   of that, without a leader", *gap));

        harness.uninstall().await?;
        until("the Pods of the manager are gone", SOON, async || {
            let pods = pods::of_manager(&harness.client).await?;
            ensure!(pods.is_empty(), "{} Pods are left", pods.len());
            Ok(())
        })
        .await?;
        ensure!(
            Written::of(harness).await? == before,
            "the uninstallation has written the ConfigMap or the Service"
        );
        clock.step("6. uninstalled, the address stays");
        Ok(())
    })
    .await
}

/// Versions of everything that an address is written to.
#[derive(PartialEq)]
struct Written {
    addresses: Option<String>,
    service: Option<String>,
}

impl Written {
    async fn of(harness: &Harness) -> Result<Self> {
        let addresses = addresses(harness).await?.resource_version();
        Ok(Self {
            addresses,
            service: harness.service(KEPT).await?.resource_version(),
        })
    }
}

async fn addresses(harness: &Harness) -> Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(harness.client.clone(), "kube-system");
    api.get("vip-configmap")
        .await
        .context("reading the ConfigMap of addresses")
}

async fn assigned(harness: &Harness, name: &str) -> Result<()> {
    let service: Service = harness.service(name).await?;
    let shown = ingress(&service);
    let [address] = &*shown else {
        anyhow::bail!("Service {name} shows {shown:?}")
    };
    let entries = addresses(harness).await?.data.unwrap_or_default();
    let entry = entries
        .get(address)
        .with_context(|| format!("the ConfigMap has no {address}: {entries:?}"))?;
    ensure!(
        entry.contains(&format!("default/{name}")),
        "{address} is that of {entry}"
    );
    Ok(())
}
