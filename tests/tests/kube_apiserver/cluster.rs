//! The cluster as the scenarios read it.

use anyhow::{Context, Result, ensure};
use cloud_provider::names::{
    LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE,
    LABEL_ZONE_BETA, TAINT_SHUTDOWN, TAINT_UNINITIALIZED,
};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use provider_simulated::cloud::Machine;

use crate::environment::Environment;

/// Returns a client with the kubeconfig's credentials that repeats nothing by itself.
pub(crate) async fn connect(environment: &Environment) -> Result<Client> {
    let path = environment.kubeconfig()?;
    let file =
        Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Returns the events about one object, also about an earlier one of its name, with this reason.
pub(crate) async fn events(
    client: &Client,
    kind: &str,
    name: &str,
    reason: &str,
) -> Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name},reason={reason}");
    Ok(api
        .list(&ListParams::default().fields(&selector))
        .await?
        .items)
}

/// Returns the sum of the counts of all events.
pub(crate) fn times(events: &[Event]) -> i32 {
    events.iter().map(|event| event.count.unwrap_or(1)).sum()
}

/// Returns `true` if a Node has the taint.
pub(crate) fn has_taint(node: &Node, key: &str) -> bool {
    taints(node).any(|taint| taint.key == key)
}

fn taints(node: &Node) -> impl Iterator<Item = &k8s_openapi::api::core::v1::Taint> {
    node.spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
}

/// Returns the Node's addresses of the kinds that a cloud provides.
pub(crate) fn ip_addresses(node: &Node) -> Vec<(String, String)> {
    let addresses = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    let ips = addresses.filter(|address| address.type_.ends_with("IP"));
    ips.map(|address| (address.type_.clone(), address.address.clone()))
        .collect()
}

/// Checks that a Node has the addresses of its machine.
pub(crate) fn check_addresses(node: &Node, machine: &Machine) -> Result<()> {
    let wanted: Vec<(String, String)> = machine
        .addresses
        .iter()
        .map(|address| (format!("{:?}", address.kind), address.address.to_string()))
        .collect();
    let got = ip_addresses(node);
    ensure!(
        got == wanted,
        "{} has the addresses {got:?}, its machine {wanted:?}",
        node.name_any()
    );
    Ok(())
}

/// Checks that a Node has the whole identity of its machine and no start-up taint.
pub(crate) fn check_initialised(node: &Node, machine: &Machine) -> Result<()> {
    let name = node.name_any();
    ensure!(
        !has_taint(node, TAINT_UNINITIALIZED),
        "{name} still has the start-up taint"
    );
    let id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref());
    let wanted = format!("simulated://{}", machine.id);
    ensure!(
        id == Some(&*wanted),
        "{name} has the provider id {id:?}, not {wanted}"
    );
    for (keys, value) in [
        ([LABEL_ZONE, LABEL_ZONE_BETA], &machine.zone),
        ([LABEL_REGION, LABEL_REGION_BETA], &machine.region),
        (
            [LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA],
            &machine.machine_type,
        ),
    ] {
        for key in keys {
            let label = node.labels().get(key);
            ensure!(
                label == Some(value),
                "{name} has label {key}={label:?}, not {value:?}"
            );
        }
    }
    check_addresses(node, machine)
}

/// Returns `true` if a Node has the taint of a machine that is shut down.
pub(crate) fn is_shut_down(node: &Node) -> bool {
    taints(node).any(|taint| taint.key == TAINT_SHUTDOWN && taint.effect == "NoSchedule")
}
