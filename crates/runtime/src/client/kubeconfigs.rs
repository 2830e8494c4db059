//! Kubeconfig watcher of a process, shared by all clients that are created from kubeconfigs (APP-48, D-212).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::config::ClientError;
use super::renewal::{Cause, News, Renewing, Source, hash_of};
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
    followed: Mutex<Followed>,
    refusal: Arc<Notify>,
    required: Arc<Required>,
}

/// The clusters that kubeconfigs must lead to.
#[derive(Default)]
pub(super) struct Required(Mutex<Vec<(PathBuf, Option<String>, ClusterIdentity)>>);

impl Required {
    pub(super) fn require(&self, kubeconfig: &Path, context: Option<&str>, identity: &ClusterIdentity) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(path, name, _)| (path.as_path(), name.as_deref()) != (kubeconfig, context));
        all.push((kubeconfig.to_owned(), context.map(str::to_owned), identity.clone()));
    }

    /// Returns the cluster that this kubeconfig, with this context, must lead to.
    pub(super) fn of(&self, kubeconfig: &Path, context: Option<&str>) -> Option<ClusterIdentity> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let required = all.iter().find(|(path, name, _)| path == kubeconfig && name.as_deref() == context);
        required.map(|(.., identity)| identity.clone())
    }
}

#[derive(Default)]
struct Followed {
    all: Vec<Weak<Renewing>>,
    follower: Option<JoinHandle<()>>,
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
    pub(super) fn require_cluster(&self, kubeconfig: &Path, context: Option<&str>, identity: &ClusterIdentity) {
        self.0.required.require(kubeconfig, context, identity);
    }

    /// Returns a client for the server of `source`, and the server's name for metrics.
    pub(super) async fn connect(
        &self,
        source: Source,
        metrics: &Arc<dyn RequestMetrics>,
    ) -> Result<(Client, String), ClientError> {
        let known = self.0.lock().find(&source);
        let renewing = match known {
            Some(known) => known,
            None => {
                let made = Renewing::new(source, Arc::clone(&self.0.refusal), Arc::clone(&self.0.required)).await?;
                self.0.add(made, metrics)
            }
        };
        Ok(renewing.client())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `made` to the watched sources and returns it, or returns the entry that another caller added first.
    fn add(self: &Arc<Self>, made: Arc<Renewing>, metrics: &Arc<dyn RequestMetrics>) -> Arc<Renewing> {
        let mut followed = self.lock();
        if let Some(known) = followed.find(&made.source) {
            return known;
        }
        followed.all.push(Arc::downgrade(&made));
        // The task ends with the runtime in which it was spawned.
        if followed.follower.as_ref().is_none_or(JoinHandle::is_finished) {
            let (shared, metrics) = (Arc::clone(self), Arc::clone(metrics));
            followed.follower = Some(tokio::spawn(async move {
                let forever = CancellationToken::new();
                restarting("kubeconfigs", &forever, || follow(Arc::clone(&shared), Arc::clone(&metrics))).await;
            }));
        }
        made
    }
}

impl Followed {
    /// Returns the entries that still have a client.
    fn in_use(&self) -> impl Iterator<Item = Arc<Renewing>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    fn find(&self, source: &Source) -> Option<Arc<Renewing>> {
        self.in_use().find(|renewing| renewing.source == *source)
    }

    /// Returns the entries to check. If there are none, the watcher task ends.
    fn looked_after(&mut self) -> Vec<Arc<Renewing>> {
        self.all.retain(|renewing| renewing.strong_count() > 0);
        let all: Vec<_> = self.in_use().collect();
        if all.is_empty() {
            self.follower = None;
        }
        all
    }
}

/// Reads all files while any client exists. Work that takes longer than reading does not delay the other files.
async fn follow(shared: Arc<Shared>, metrics: Arc<dyn RequestMetrics>) {
    loop {
        tokio::select! {
            () = sleep(PERIOD) => {}
            () = shared.refusal.notified() => sleep(PAUSE).await,
        }
        let all = shared.lock().looked_after();
        if all.is_empty() {
            return;
        }
        let mut hashes = Hashes::default();
        for renewing in all {
            let cause = renewing.cause(&mut hashes);
            if cause.is_none() && !renewing.is_in_trouble() {
                continue;
            }
            let metrics = Arc::clone(&metrics);
            tokio::spawn(async move { look(&renewing, cause, &*metrics).await });
        }
    }
}

async fn look(renewing: &Renewing, cause: Option<Cause>, metrics: &dyn RequestMetrics) {
    let kubeconfig = renewing.source.kubeconfig.display();
    let Some(news) = renewing.look(cause).await else { return };
    match &news {
        News::InUse => {
            tracing::info!(%kubeconfig, "kubeconfig reloaded");
        }
        News::Unusable(problem) => tracing::warn!(
            %kubeconfig,
            problem,
            "the changed kubeconfig cannot be used, keeping the previous configuration"
        ),
        News::StillUnusable => {}
    }
    metrics.kubeconfig_changed(news == News::InUse);
}

impl fmt::Debug for Kubeconfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kubeconfigs")
    }
}
