//! The packaged manifest of Hetzner Cloud, with nothing changed but the image and the address of the cloud.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cluster_objects::{apply, remove};
use crate::documents::read;

const NAMESPACE: &str = "kube-system";
/// Label of the Pods of the manifest.
const SELECTOR: &str = "k8s-app=cloud-controller-manager";
/// Name of a Pod that tolerates no taint, as users' Pods.
const ORDINARY: &str = "ordinary";
/// Time in which all Pods must be ready once the Node is initialised.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The objects that an operator applies, and an ordinary Pod.
pub(crate) struct Installation {
    documents: Vec<Value>,
}

impl Installation {
    /// Returns the manifest for this image and this endpoint, its Secret, and an ordinary Pod.
    pub(crate) fn of_hcloud(image: &str, pause: &str, endpoint: &str) -> Result<Self> {
        let mut documents = vec![json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hcloud", "namespace": NAMESPACE},
            "stringData": {"token": hetzner_fake::TOKEN},
        })];
        let manifest = read(&["manifests/hcloud.yaml"])?;
        for mut document in manifest {
            if let Some(container) = document.pointer_mut("/spec/template/spec/containers/0") {
                container["image"] = json!(image);
                let variables = container["env"].as_array_mut().context("the container has no variables")?;
                variables.push(json!({"name": "HCLOUD_ENDPOINT", "value": endpoint}));
            }
            documents.push(document);
        }
        documents.push(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": ORDINARY, "namespace": "default"},
            "spec": {"containers": [{"name": "pause", "image": pause, "imagePullPolicy": "IfNotPresent"}]},
        }));
        Ok(Self { documents })
    }

    pub(crate) async fn create(&self, client: &Client) -> Result<()> {
        apply(client, &self.documents, false).await
    }

    pub(crate) async fn remove(&self, client: &Client) -> Result<()> {
        remove(client, &self.documents).await
    }

    /// Waits until the manifest's Pod is ready, by its own probes, and the ordinary Pod runs.
    pub(crate) async fn wait_until_ready(&self, client: &Client) -> Result<()> {
        let (own, users) = (pods(client, NAMESPACE), pods(client, "default"));
        let start = Instant::now();
        loop {
            let managers = own.list(&ListParams::default().labels(SELECTOR)).await?.items;
            let is_manager_ready = managers.len() == 1 && managers.iter().all(is_ready);
            let ordinary = users.get(ORDINARY).await?;
            if is_manager_ready && is_ready(&ordinary) {
                let restarts = managers.iter().map(restarts).sum::<i32>();
                ensure!(restarts == 0, "the Pod of the manifest was restarted {restarts} times");
                return Ok(());
            }
            ensure!(
                start.elapsed() < TIMEOUT,
                "{} Pods of the manifest, ready: {is_manager_ready}; the ordinary Pod is {:?}",
                managers.len(),
                ordinary.status.and_then(|status| status.phase)
            );
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns the states of the Pods, their log and the events, for a scenario that failed.
    pub(crate) async fn report(&self, client: &Client) -> String {
        let mut report = String::new();
        let own = pods(client, NAMESPACE);
        let managers = own.list(&ListParams::default().labels(SELECTOR)).await.map(|list| list.items);
        for pod in managers.unwrap_or_default() {
            let name = pod.name_any();
            _ = writeln!(report, "Pod {name}: {}", json!(pod.status));
            match own.logs(&name, &LogParams { tail_lines: Some(100), ..LogParams::default() }).await {
                Ok(log) => _ = writeln!(report, "log of {name}:\n{log}"),
                Err(error) => _ = writeln!(report, "log of {name}: {error}"),
            }
        }
        let events = Api::<Event>::all(client.clone()).list(&ListParams::default()).await.map(|list| list.items);
        for event in events.unwrap_or_default() {
            let object = event.involved_object.name.unwrap_or_default();
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            _ = writeln!(report, "event on {object}: {reason}: {message}");
        }
        report
    }
}

fn pods(client: &Client, namespace: &str) -> Api<Pod> {
    Api::namespaced(client.clone(), namespace)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().map(|container| container.restart_count).sum()
}
