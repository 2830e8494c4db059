//! The cluster of one scenario, with a Node that no cloud controller manager has seen.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ccm_tests::service_object::load_balancer;
use ccm_tests::wait::until;
use cloud_provider::names::{LABEL_INSTANCE_TYPE, LABEL_REGION, TAINT_UNINITIALIZED};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::bed::{Bed, NODE};
use crate::commands::{output, output_for};
use crate::environment::Environment;
use crate::image::Images;
use crate::installation::Installation;
use crate::pods;

/// Time-out of a step on a busy machine; most steps take a few seconds.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// Name of the release, as in the documentation.
const RELEASE: &str = "ccm";
/// Objects that scenarios create in kube-system.
const OBJECTS: [&str; 6] = [
    "secret/hcloud",
    "secret/aws",
    "secret/azure",
    "configmap/aws-cloud-config",
    "configmap/vip-configmap",
    "lease/cloud-controller-manager",
];

pub(crate) struct Harness {
    pub(crate) bed: Bed,
    pub(crate) client: Client,
    pub(crate) images: &'static Images,
    helm: PathBuf,
}

/// Returns the plain manifest for Hetzner Cloud.
pub(crate) fn plain_manifest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/manifests/hcloud.yaml")
}

/// Runs a scenario on a fresh Node. An error is followed by what the cluster shows.
pub(crate) async fn run(
    environment: &Environment,
    body: impl AsyncFnOnce(&Harness) -> Result<()>,
) -> Result<()> {
    let harness = Harness::set(environment).await?;
    match body(&harness).await {
        Ok(()) => Ok(()),
        Err(error) => Err(anyhow!("{error:#}\n\n{}", harness.shown().await)),
    }
}

impl Harness {
    async fn set(environment: &Environment) -> Result<Self> {
        let (images, is_fresh) = environment.images().await?;
        let bed = environment.bed()?;
        let client = bed.client().await?;
        let harness = Self {
            bed,
            client,
            images,
            helm: environment.helm()?.clone(),
        };
        if !is_fresh {
            harness
                .clean()
                .await
                .context("removing what the last scenario left")?;
        }
        // A control-plane node as kubeadm leaves it; a kubelet may not set this label itself.
        harness
            .kubectl(&[
                "label",
                "node",
                NODE,
                "node-role.kubernetes.io/control-plane=",
                "--overwrite",
            ])
            .await?;
        Ok(harness)
    }

    /// Removes releases, Services and Pods, and lets the kubelet register a Node again.
    async fn clean(&self) -> Result<()> {
        self.helm(&["uninstall", RELEASE, "--ignore-not-found"], &Value::Null)
            .await?;
        // Helm would not take over the objects of a manifest.
        let manifest = plain_manifest();
        self.kubectl(&[
            "delete",
            "--ignore-not-found",
            "-f",
            &manifest.to_string_lossy(),
        ])
        .await?;
        for service in self.services().list(&ListParams::default()).await? {
            let name = service.name_any();
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            if name != "kubernetes" {
                _ = self
                    .services()
                    .delete(&name, &DeleteParams::default())
                    .await;
                _ = self
                    .services()
                    .patch_metadata(&name, &PatchParams::default(), &free)
                    .await;
            }
        }
        let delete = ["-n", "kube-system", "delete", "--ignore-not-found"];
        self.kubectl(&[&delete[..], &["deployment/hcloud-cloud-controller-manager"]].concat())
            .await?;
        for namespace in ["default", "kube-system"] {
            self.kubectl(&[
                "-n",
                namespace,
                "delete",
                "pods",
                "--all",
                "--grace-period=5",
                "--timeout=60s",
            ])
            .await?;
        }
        self.kubectl(&[&delete[..], &OBJECTS[..]].concat()).await?;
        self.bed.stop_kubelet().await?;
        self.kubectl(&["delete", "node", NODE]).await?;
        self.bed.start_kubelet().await
    }

    /// Runs kubectl, and returns what it prints.
    pub(crate) async fn kubectl(&self, words: &[&str]) -> Result<String> {
        output(self.bed.kubectl().args(words)).await
    }

    /// Applies an object, as `kubectl apply` does.
    pub(crate) async fn apply(&self, object: &Value) -> Result<()> {
        self.apply_text(&object.to_string()).await
    }

    /// Applies the objects of a file.
    pub(crate) async fn apply_text(&self, text: &str) -> Result<()> {
        output_for(self.bed.kubectl().args(["apply", "-f", "-"]), text)
            .await
            .map(drop)
    }

    async fn helm(&self, words: &[&str], values: &Value) -> Result<String> {
        let mut command = self.bed.program(&self.helm);
        command.args(words).args(["--namespace", "kube-system"]);
        if values.is_null() {
            return output(&mut command).await;
        }
        output_for(command.args(["--values", "-"]), &values.to_string()).await
    }

    /// Creates the objects of an installation and installs the chart from its package. Returns what helm prints.
    pub(crate) async fn install(&self, installation: &Installation) -> Result<String> {
        for object in &installation.objects {
            self.apply(object).await?;
        }
        self.release("install", installation, 0).await
    }

    /// Upgrades the release to the package with this one of the image's tags.
    pub(crate) async fn upgrade(&self, installation: &Installation, tag: usize) -> Result<String> {
        self.release("upgrade", installation, tag).await
    }

    async fn release(&self, verb: &str, installation: &Installation, tag: usize) -> Result<String> {
        let package = self.images.package(tag).to_string_lossy();
        let mut words = vec![verb, RELEASE, &*package];
        for value in &installation.set {
            words.extend(["--set", value]);
        }
        self.helm(&words, &installation.forced).await
    }

    /// Removes the release, and returns the notes that it had.
    pub(crate) async fn uninstall(&self) -> Result<String> {
        let notes = self.helm(&["get", "notes", RELEASE], &Value::Null).await?;
        self.helm(&["uninstall", RELEASE, "--wait"], &Value::Null)
            .await?;
        Ok(notes)
    }

    /// Returns the only Node of the cluster.
    pub(crate) async fn node(&self) -> Result<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        api.get(NODE).await.context("reading the Node")
    }

    /// Checks that the Node is one that no cloud controller manager has seen.
    pub(crate) async fn check_fresh(&self) -> Result<()> {
        let node = self.node().await?;
        ensure!(
            has_start_up_taint(&node),
            "the Node has no start-up taint: this would show nothing"
        );
        ensure!(
            provider_id(&node).is_none(),
            "the Node has a provider ID: this would show nothing"
        );
        ensure!(
            ip_addresses(&node) == 0,
            "the Node has an address: this would show nothing"
        );
        Ok(())
    }

    /// Waits until the Node has the identity of this machine, addresses and labels, and no start-up taint.
    pub(crate) async fn initialised(&self, machine: &str) -> Result<()> {
        until("the Node is initialised", SOON, async || {
            let node = self.node().await?;
            ensure!(
                !has_start_up_taint(&node),
                "the Node still has the start-up taint"
            );
            ensure!(
                provider_id(&node) == Some(machine),
                "the Node has the provider ID {:?}",
                provider_id(&node)
            );
            ensure!(ip_addresses(&node) > 0, "the Node has no address");
            for label in [LABEL_INSTANCE_TYPE, LABEL_REGION] {
                ensure!(
                    node.labels().contains_key(label),
                    "the Node has no label {label}"
                );
            }
            Ok(())
        })
        .await
    }

    /// Returns a Pod in the namespace `default`.
    pub(crate) async fn ordinary_pod(&self, name: &str) -> Result<Pod> {
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        api.get(name)
            .await
            .with_context(|| format!("reading Pod {name}"))
    }

    /// Waits until `count` Pods of the manager are ready and have this one of the image's tags.
    pub(crate) async fn manager_is_ready(&self, tag: usize, count: usize) -> Result<Vec<Pod>> {
        let image = format!("{}:{}", crate::image::REPOSITORY, crate::image::TAGS[tag]);
        until("the Pods of the manager are ready", SOON, async || {
            let pods = pods::of_manager(&self.client).await?;
            ensure!(
                pods.len() == count,
                "the manager has {} Pods, not {count}",
                pods.len()
            );
            pods.iter()
                .try_for_each(|pod| pods::check_ready(pod, &image))?;
            Ok(pods)
        })
        .await
    }

    /// Waits until the manager has read all Services and has nothing to do.
    pub(crate) async fn settled(&self) -> Result<()> {
        self.settled_at("https://127.0.0.1:10258/metrics").await
    }

    /// Waits like [`settled`](Self::settled), for a program whose metrics are at this URL.
    pub(crate) async fn settled_at(&self, url: &str) -> Result<()> {
        until(
            "the queue of Services is empty after work",
            SOON,
            async || {
                let metrics = self.metrics(url).await?;
                let of = |series: &str| {
                    let name = format!("{series}{{name=\"service\"}} ");
                    metrics
                        .lines()
                        .find_map(|line| line.strip_prefix(&*name))
                        .map(str::to_owned)
                        .unwrap_or_default()
                };
                let [added, done] = [
                    "workqueue_adds_total",
                    "workqueue_work_duration_seconds_count",
                ]
                .map(of);
                ensure!(!added.is_empty() && added != "0", "no Service was queued");
                ensure!(
                    added == done,
                    "{done} of {added} syncs of Services are done"
                );
                ensure!(of("workqueue_depth") == "0", "Services are queued");
                Ok(())
            },
        )
        .await
    }

    /// Returns metrics, as an administrator.
    async fn metrics(&self, url: &str) -> Result<String> {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--fail",
            "--insecure",
            "--max-time",
            "10",
        ]);
        command
            .arg("--cert")
            .arg(self.bed.key("admin.crt"))
            .arg("--key")
            .arg(self.bed.key("admin.key"));
        output(command.arg(url)).await
    }

    fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a Service with a load balancer and these annotations, and returns its UID.
    pub(crate) async fn create_service(&self, name: &str, annotations: &Value) -> Result<String> {
        let mut service = load_balancer(name, &[80]);
        service["metadata"]["annotations"] = annotations.clone();
        self.apply(&service).await?;
        self.service(name)
            .await?
            .uid()
            .context("a Service without a UID")
    }

    /// Returns a Service in the namespace `default`.
    pub(crate) async fn service(&self, name: &str) -> Result<Service> {
        self.services()
            .get(name)
            .await
            .with_context(|| format!("reading Service {name}"))
    }

    /// Deletes a Service, and waits until it no longer exists: until its finalizer is removed.
    pub(crate) async fn delete_service(&self, name: &str) -> Result<()> {
        self.services()
            .delete(name, &DeleteParams::default())
            .await?;
        until("the Service is deleted", SOON, async || {
            let service = self.services().get_opt(name).await?;
            let finalizers = service
                .as_ref()
                .map(|service| service.finalizers().to_vec());
            ensure!(
                service.is_none(),
                "Service {name} still exists, with the finalizers {finalizers:?}"
            );
            Ok(())
        })
        .await
    }

    /// Returns what the cluster shows, for the text of an error.
    async fn shown(&self) -> String {
        let manager = "-l=app.kubernetes.io/name=cloud-controller-manager";
        let commands: [&[&str]; 6] = [
            &["describe", "node", NODE],
            &["get", "pods,services", "-A", "-o", "wide"],
            &["-n", "kube-system", "describe", "pods"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &[
                "-n",
                "kube-system",
                "logs",
                manager,
                "--tail=60",
                "--prefix",
            ],
            &[
                "-n",
                "kube-system",
                "logs",
                manager,
                "--tail=60",
                "--prefix",
                "--previous",
            ],
        ];
        let mut text = String::new();
        for words in commands {
            let shown = self
                .kubectl(words)
                .await
                .unwrap_or_else(|error| format!("{error:#}"));
            text += &format!("--- kubectl {}\n{shown}\n", words.join(" "));
        }
        text
    }
}

fn has_start_up_taint(node: &Node) -> bool {
    let mut taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == TAINT_UNINITIALIZED)
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

fn ip_addresses(node: &Node) -> usize {
    let addresses = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    addresses
        .filter(|address| address.type_.ends_with("IP"))
        .count()
}

/// Returns the addresses that a Service shows: host names, where a cloud gives those.
pub(crate) fn ingress(service: &Service) -> Vec<String> {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = status
        .and_then(|status| status.ingress.as_ref())
        .into_iter()
        .flatten();
    ingress
        .filter_map(|ingress| ingress.hostname.clone().or_else(|| ingress.ip.clone()))
        .collect()
}
