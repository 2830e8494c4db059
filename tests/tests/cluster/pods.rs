//! Pods of the manager, and an ordinary one.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Label of the manager's Pods.
const SELECTOR: &str = "app.kubernetes.io/name=cloud-controller-manager";
/// Image of the test bed: a program that waits.
const PAUSE: &str = "localhost/pause:1";

/// Returns an ordinary Pod, which tolerates nothing.
pub(crate) fn ordinary(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "pause", "image": PAUSE, "imagePullPolicy": "IfNotPresent"}]},
    })
}

/// Returns the Pods of the manager that are not being deleted.
pub(crate) async fn of_manager(client: &Client) -> Result<Vec<Pod>> {
    of_label(client, SELECTOR).await
}

/// Returns the Pods with this label that are not being deleted.
pub(crate) async fn of_label(client: &Client, label: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let pods = api
        .list(&ListParams::default().labels(label))
        .await
        .context("listing Pods")?
        .items;
    Ok(pods
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect())
}

/// Returns the state of the only container.
pub(crate) fn container(pod: &Pod) -> Result<&ContainerStatus> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses
        .and_then(|all| all.first())
        .with_context(|| format!("Pod {} has no container yet", pod.name_any()))
}

/// Checks that a Pod is ready and has this image.
pub(crate) fn check_ready(pod: &Pod, image: &str) -> Result<()> {
    let name = pod.name_any();
    let container = container(pod)?;
    let has = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.containers.first()?.image.clone())
        .unwrap_or_default();
    ensure!(has == image, "Pod {name} has the image {has}, not {image}");
    ensure!(
        container.ready,
        "Pod {name} is not ready: {:?}",
        container.state
    );
    Ok(())
}

/// Returns a condition of a Pod: its status, and the reason.
pub(crate) fn condition(pod: &Pod, kind: &str) -> (String, String) {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let found = conditions
        .into_iter()
        .find(|condition| condition.type_ == kind);
    found
        .map(|entry| {
            (
                entry.status.clone(),
                entry.message.clone().unwrap_or_default(),
            )
        })
        .unwrap_or_default()
}
