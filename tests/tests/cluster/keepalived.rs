//! keepalived, whose cloud is a ConfigMap in the cluster, and whose Nodes belong to another manager.

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::TAINT_UNINITIALIZED;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{Api, ResourceExt};
use serde_json::Value;

use crate::bed::NODE;
use crate::environment::Environment;
use crate::installation::Installation;
use crate::lease::{Holders, holder};
use crate::pods;
use crate::stage::{SOON, Stage, ingress, play};
use crate::steps::Steps;

const KEPT: &str = "kept";
const DELETED: &str = "deleted";

pub(crate) async fn keepalived_assigns_addresses_until_and_after_the_uninstallation(
    environment: &Environment,
    steps: &Steps,
) -> Result<()> {
    let mut clock = steps.of("keepalived");
    play(environment, async |stage| {
        // What the manager of the Nodes does.
        stage.kubectl(&["taint", "node", NODE, &format!("{TAINT_UNINITIALIZED}-")]).await?;
        clock.step("a fresh Node is registered");
        let installation = Installation::keepalived();
        stage.install(&installation).await?;
        stage.manager_is_ready(0, 1).await?;
        clock.step("1. chart installed, the manager is ready");
        for name in [KEPT, DELETED] {
            stage.create_service(name, &Value::Null).await?;
        }
        for name in [KEPT, DELETED] {
            until("a Service shows the address that the ConfigMap has", SOON, async || assigned(stage, name).await)
                .await?;
        }
        clock.step("2. two Services show their addresses");
        stage.delete_service(DELETED).await?;
        let entries = addresses(stage).await?.data.unwrap_or_default();
        let is_left = entries.values().any(|service| service.contains(&format!("default/{DELETED}")));
        ensure!(!is_left, "the ConfigMap still has an entry for {DELETED}: {entries:?}");
        clock.step("2. a deleted Service is gone, in the ConfigMap as well");

        let before = Written::of(stage).await?;
        let (old, holders) = (holder(&stage.client).await?, Holders::watch(&stage.client));
        stage.upgrade(&installation, 1).await?;
        stage.manager_is_ready(1, 1).await?;
        until("the new Pod leads", SOON, async || {
            let now = holder(&stage.client).await?;
            ensure!(now.is_some() && now != old, "the Lease is held by {now:?}");
            Ok(())
        })
        .await?;
        stage.settled().await?;
        ensure!(Written::of(stage).await? == before, "the update has written the ConfigMap or the Service");
        clock.step("3. rolling update on the only Node, nothing is written");
        holders.gaps().iter().for_each(|gap| clock.note("3.   of that, without a leader", *gap));

        stage.uninstall().await?;
        until("the Pods of the manager are gone", SOON, async || {
            let pods = pods::of_manager(&stage.client).await?;
            ensure!(pods.is_empty(), "{} Pods are left", pods.len());
            Ok(())
        })
        .await?;
        ensure!(Written::of(stage).await? == before, "the uninstallation has written the ConfigMap or the Service");
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
    async fn of(stage: &Stage) -> Result<Self> {
        let addresses = addresses(stage).await?.resource_version();
        Ok(Self { addresses, service: stage.service(KEPT).await?.resource_version() })
    }
}

async fn addresses(stage: &Stage) -> Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "kube-system");
    api.get("vip-configmap").await.context("reading the ConfigMap of addresses")
}

async fn assigned(stage: &Stage, name: &str) -> Result<()> {
    let service: Service = stage.service(name).await?;
    let shown = ingress(&service);
    let [address] = &*shown else { anyhow::bail!("Service {name} shows {shown:?}") };
    let entries = addresses(stage).await?.data.unwrap_or_default();
    let entry = entries.get(address).with_context(|| format!("the ConfigMap has no {address}: {entries:?}"))?;
    ensure!(entry.contains(&format!("default/{name}")), "{address} is that of {entry}");
    Ok(())
}
