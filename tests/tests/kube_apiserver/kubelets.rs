//! Kubelets: they register Nodes, renew Leases and report readiness.
//!
//! With kube-controller-manager in the cluster, a Node that is not renewed becomes `Unknown` after some seconds, so
//! these kubelets renew once a second like real ones. Writes that fail while the API server is down are repeated later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ccm_conformance::node_object::{readiness, registration};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Label of the objects that these tests create.
pub(crate) const OURS: &str = "example.com/e2e";
const PERIOD: Duration = Duration::from_secs(1);
const MANAGER: &str = "e2e-kubelet";
/// Requests at the same time.
const CONCURRENT: usize = 8;

/// The kubelets of one scenario.
pub(crate) struct Kubelets {
    shared: Arc<Shared>,
    _until: DropGuard,
}

struct Shared {
    nodes: Api<Node>,
    leases: Api<Lease>,
    /// Readiness by Node: `true` for ready.
    ready: Mutex<BTreeMap<String, bool>>,
    /// Statuses are reported one after the other: the last one counts.
    reporting: tokio::sync::Mutex<()>,
}

impl Kubelets {
    pub(crate) fn start(client: &Client) -> Self {
        let shared = Arc::new(Shared {
            nodes: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), "kube-node-lease"),
            ready: Mutex::default(),
            reporting: tokio::sync::Mutex::default(),
        });
        let shutdown = CancellationToken::new();
        let this = Arc::clone(&shared);
        let until = shutdown.clone().drop_guard();
        tokio::spawn(async move {
            while tokio::time::timeout(PERIOD, shutdown.cancelled())
                .await
                .is_err()
            {
                this.renew().await;
            }
        });
        Self {
            shared,
            _until: until,
        }
    }

    /// Registers Nodes as kubelets do.
    pub(crate) async fn register(&self, names: &[String], is_ready: bool) -> Result<()> {
        let registrations = names.iter().map(|name| async move {
            let mut object = registration(name, 25, is_ready);
            object["metadata"]["labels"][OURS] = json!("true");
            let node = serde_json::from_value(object)?;
            self.shared.renew_lease(name).await?;
            let created = self
                .shared
                .nodes
                .create(&PostParams::default(), &node)
                .await;
            created.with_context(|| format!("registering {name}"))?;
            self.shared.ready().insert(name.clone(), is_ready);
            Ok(())
        });
        futures::stream::iter(registrations)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await
    }

    /// Sets the readiness that a kubelet reports from now on.
    pub(crate) async fn report(&self, name: &str, is_ready: bool) -> Result<()> {
        let _turn = self.shared.reporting.lock().await;
        self.shared.ready().insert(name.to_owned(), is_ready);
        self.shared.report(name, is_ready).await
    }

    /// Stops the kubelet of a Node that was deleted, and whose machine no longer exists.
    pub(crate) async fn forget(&self, name: &str) -> Result<()> {
        self.shared.ready().remove(name);
        self.shared
            .nodes
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.ready.lock()
    }

    async fn report(&self, name: &str, is_ready: bool) -> Result<()> {
        let patch = Patch::Strategic(readiness(is_ready));
        self.nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("status of {name}"))?;
        Ok(())
    }

    async fn renew_lease(&self, name: &str) -> Result<()> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
                "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()},
        });
        let params = PatchParams::apply(MANAGER).force();
        self.leases
            .patch(name, &params, &Patch::Apply(lease))
            .await
            .with_context(|| format!("lease of {name}"))?;
        Ok(())
    }

    /// Renews Leases, and the status of Nodes that another client changed. Failures are repeated in the next round.
    async fn renew(&self) {
        let wanted = self.ready().clone();
        let leases: Vec<_> = wanted.keys().map(|name| self.renew_lease(name)).collect();
        futures::stream::iter(leases)
            .buffer_unordered(CONCURRENT)
            .for_each(|_| std::future::ready(()))
            .await;
        let Ok(nodes) = self.nodes.list(&ListParams::default().labels(OURS)).await else {
            return;
        };
        for node in nodes {
            let name = node.name_any();
            let Some(is_ready) = wanted.get(&name).copied() else {
                continue;
            };
            let conditions = node
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let said = conditions
                .iter()
                .find(|condition| condition.type_ == "Ready")
                .map(|ready| &*ready.status);
            let _turn = self.reporting.lock().await;
            if said != Some(if is_ready { "True" } else { "False" })
                && self.ready().get(&name) == Some(&is_ready)
            {
                _ = self.report(&name, is_ready).await;
            }
        }
    }
}

/// Removes every Node and Lease that these tests left behind.
pub(crate) async fn clean_up(client: &Client) -> Result<()> {
    let (nodes, leases): (Api<Node>, Api<Lease>) = (
        Api::all(client.clone()),
        Api::namespaced(client.clone(), "kube-node-lease"),
    );
    nodes
        .delete_collection(
            &DeleteParams::default(),
            &ListParams::default().labels(OURS),
        )
        .await?;
    for lease in leases.list_metadata(&ListParams::default()).await? {
        let name = lease.name_any();
        if name.starts_with("e2e-") {
            match leases.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                deleted => drop(deleted?),
            }
        }
    }
    Ok(())
}
