//! Kubeconfig watcher of a process, shared by all clients that are created from kubeconfigs (APP-48, D-212).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::config::ClientError;
use super::reloading::{KubeconfigSource, ReloadCause, ReloadResult, ReloadingClient, hash_of};
use super::request::RequestMetrics;
use crate::cluster::ClusterIdentity;
use crate::loops::restarting;

/// Interval at which the files are read (D-171).
pub(super) const PERIOD: Duration = Duration::from_secs(10);
/// Delay between a refused credential and the next read of the files, and shortest interval between such reads. An
/// operator who replaces a credential may revoke the old one at once, and the Lease must not be lost for that.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The kubeconfigs of a process. Clones share their state: clients whose options hold clones of one share the parsed
/// and verified configurations, the connections, and the task that watches the files.
#[derive(Clone, Default)]
pub struct Kubeconfigs(Arc<Shared>);

#[derive(Default)]
struct Shared {
    watched: Mutex<WatchedClients>,
    refusal: Arc<Notify>,
    required: Arc<Required>,
}

/// The clusters that kubeconfigs must lead to.
#[derive(Default)]
pub(super) struct Required(Mutex<Vec<(PathBuf, Option<String>, ClusterIdentity)>>);

impl Required {
    pub(super) fn require(
        &self,
        kubeconfig: &Path,
        context: Option<&str>,
        identity: &ClusterIdentity,
    ) {
        let mut all = self.0.lock();
        all.retain(|(path, name, _)| (path.as_path(), name.as_deref()) != (kubeconfig, context));
        all.push((
            kubeconfig.to_owned(),
            context.map(str::to_owned),
            identity.clone(),
        ));
    }

    /// Returns the cluster that this kubeconfig, with this context, must lead to.
    pub(super) fn of(&self, kubeconfig: &Path, context: Option<&str>) -> Option<ClusterIdentity> {
        let all = self.0.lock();
        let required = all
            .iter()
            .find(|(path, name, _)| path == kubeconfig && name.as_deref() == context);
        required.map(|(.., identity)| identity.clone())
    }
}

#[derive(Default)]
struct WatchedClients {
    all: Vec<Weak<ReloadingClient>>,
    watcher: Option<JoinHandle<()>>,
}

/// Hashes of files, each of which is read once.
#[derive(Default)]
pub(super) struct Hashes(Vec<(PathBuf, u64)>);

impl Hashes {
    pub(super) fn of(&mut self, path: &Path) -> u64 {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| known == path) {
            return *known;
        }
        let hash = hash_of(path);
        self.0.push((path.to_owned(), hash));
        hash
    }
}

impl Kubeconfigs {
    pub(super) fn require_cluster(
        &self,
        kubeconfig: &Path,
        context: Option<&str>,
        identity: &ClusterIdentity,
    ) {
        self.0.required.require(kubeconfig, context, identity);
    }

    /// Returns a client for the server of `source`, and the server's name for metrics.
    pub(super) async fn connect(
        &self,
        source: KubeconfigSource,
        metrics: &Arc<dyn RequestMetrics>,
    ) -> Result<(Client, String), ClientError> {
        let known = self.0.lock().find(&source);
        let reloading_client = match known {
            Some(known) => known,
            None => {
                let made = ReloadingClient::new(
                    source,
                    Arc::clone(&self.0.refusal),
                    Arc::clone(&self.0.required),
                )
                .await?;
                self.0.add(made, metrics)
            }
        };
        Ok(reloading_client.client())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WatchedClients> {
        self.watched.lock()
    }

    /// Adds `made` to the watched sources and returns it, or returns the entry that another caller added first.
    fn add(
        self: &Arc<Self>,
        made: Arc<ReloadingClient>,
        metrics: &Arc<dyn RequestMetrics>,
    ) -> Arc<ReloadingClient> {
        let mut watched = self.lock();
        if let Some(known) = watched.find(&made.source) {
            return known;
        }
        watched.all.push(Arc::downgrade(&made));
        // The task ends with the runtime in which it was spawned.
        if watched.watcher.as_ref().is_none_or(JoinHandle::is_finished) {
            let shared = Arc::clone(self);
            let metrics = Arc::clone(metrics);
            watched.watcher = Some(tokio::spawn(async move {
                let forever = CancellationToken::new();
                restarting("kubeconfigs", &forever, || {
                    watch_files(Arc::clone(&shared), Arc::clone(&metrics))
                })
                .await;
            }));
        }
        made
    }
}

impl WatchedClients {
    /// Returns the entries that still have a client.
    fn in_use(&self) -> impl Iterator<Item = Arc<ReloadingClient>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    fn find(&self, source: &KubeconfigSource) -> Option<Arc<ReloadingClient>> {
        self.in_use()
            .find(|reloading_client| reloading_client.source == *source)
    }

    /// Returns the entries to check. If there are none, the watcher task ends.
    fn entries_to_check(&mut self) -> Vec<Arc<ReloadingClient>> {
        self.all
            .retain(|reloading_client| reloading_client.strong_count() > 0);
        let all: Vec<_> = self.in_use().collect();
        if all.is_empty() {
            self.watcher = None;
        }
        all
    }
}

/// Reads all files while any client exists. Work that takes longer than reading does not delay the other files.
async fn watch_files(shared: Arc<Shared>, metrics: Arc<dyn RequestMetrics>) {
    loop {
        tokio::select! {
            () = sleep(PERIOD) => {}
            () = shared.refusal.notified() => sleep(PAUSE).await,
        }
        let all = shared.lock().entries_to_check();
        if all.is_empty() {
            return;
        }
        let mut hashes = Hashes::default();
        for reloading_client in all {
            let cause = reloading_client.cause(&mut hashes);
            if cause.is_none() && !reloading_client.has_failed() {
                continue;
            }
            let metrics = Arc::clone(&metrics);
            tokio::spawn(async move { reload_and_log(&reloading_client, cause, &*metrics).await });
        }
    }
}

async fn reload_and_log(
    reloading_client: &ReloadingClient,
    cause: Option<ReloadCause>,
    metrics: &dyn RequestMetrics,
) {
    let kubeconfig = reloading_client.source.kubeconfig.display();
    let Some(result) = reloading_client.reload_if_changed(cause).await else {
        return;
    };
    match &result {
        ReloadResult::Reloaded => {
            tracing::info!(%kubeconfig, "kubeconfig reloaded");
        }
        ReloadResult::Unusable(problem) => tracing::warn!(
            %kubeconfig,
            problem,
            "the changed kubeconfig cannot be used, keeping the previous configuration"
        ),
        ReloadResult::StillUnusable => {}
    }
    metrics.kubeconfig_changed(result == ReloadResult::Reloaded);
}

impl fmt::Debug for Kubeconfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kubeconfigs")
    }
}
