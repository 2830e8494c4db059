//! The shared caches. Each resource kind is listed and watched once per process.

use std::sync::Arc;

use cloud_provider::{Caches, Node, PersistentVolume, Service};
use kube::{Api, Client};
use runtime::cache::{Cache, Cached, HoldObserver, HoldOptions, Watch, WatchConfig};
use runtime::cluster::ClusterIdentity;
use runtime::loops::restarting;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The shared caches of one process. The cache of a kind that no controller needs stays empty.
#[derive(Clone)]
pub(crate) struct SharedCaches {
    pub(crate) nodes: Cache<Node>,
    pub(crate) services: Cache<Service>,
    pub(crate) volumes: Cache<PersistentVolume>,
}

/// The cluster that the caches list and watch, and the options of the watches.
pub(super) struct CacheSource {
    pub(crate) client: Client,
    pub(crate) config: WatchConfig,
    /// Identity of the cluster that the caches list and watch.
    pub(crate) identity: ClusterIdentity,
    /// Options and observer of the hold on mass deletions: Nodes that a list suddenly lacks stay cached for a while.
    /// `None` disables the hold.
    pub(crate) hold: Option<(HoldOptions, Arc<dyn HoldObserver<Node>>)>,
}

impl CacheSource {
    fn watch<T: Cached>(&self, api: Api<T::Wire>, cache: &Cache<T>) -> Watch<T> {
        let watch = Watch::new(api, self.config.clone(), cache.clone());
        watch.of_cluster(self.identity.clone(), self.client.clone())
    }
}

/// The resource kinds to cache because a running controller needs them. Nodes are always cached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeededCaches {
    pub(crate) services: bool,
    pub(crate) volumes: bool,
}

impl SharedCaches {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Cache::new(),
            services: Cache::new(),
            volumes: Cache::new(),
        }
    }

    /// Starts the caches that are needed and not `watched` yet, and keeps them up to date until `shutdown`. No kind
    /// waits for another (INV-6).
    pub(super) fn watch(
        &self,
        source: &CacheSource,
        watched: Option<NeededCaches>,
        needed: NeededCaches,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) {
        let before = watched.unwrap_or_default();
        if watched.is_none() {
            let mut watch = source.watch(Api::all(source.client.clone()), &self.nodes);
            if let Some((options, observer)) = &source.hold {
                watch = watch.holding(*options, Arc::clone(observer));
            }
            tasks.spawn(follow(watch, shutdown.clone()));
        }
        if needed.services && !before.services {
            let watch = source.watch(Api::all(source.client.clone()), &self.services);
            tasks.spawn(follow(watch, shutdown.clone()));
        }
        if needed.volumes && !before.volumes {
            let watch = source.watch(Api::all(source.client.clone()), &self.volumes);
            tasks.spawn(follow(watch, shutdown.clone()));
        }
    }
}

/// Keeps a cache up to date until `shutdown` and restarts its watch after a panic, because a stale cache would be taken
/// for current.
async fn follow<T: Cached>(watch: Watch<T>, shutdown: CancellationToken) {
    let component = format!("cache of {}", <T::Wire as kube::Resource>::plural(&()));
    restarting(&component, &shutdown, || {
        watch.clone().run(shutdown.clone())
    })
    .await;
}

/// Returns the watch configuration. `feature` is the value of `KUBE_FEATURE_WatchListClient`; `false` selects paged
/// lists instead of streaming lists (APP-152).
pub(super) fn watch_config(feature: Option<&str>) -> WatchConfig {
    let is_off =
        feature.is_some_and(|value| matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE"));
    WatchConfig {
        streaming: !is_off,
        ..WatchConfig::default()
    }
}

/// The caches as a provider sees them (PROV-20).
impl Caches for SharedCaches {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.list()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        self.services.list()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_lists_can_be_switched_off_in_the_environment() {
        for (value, streaming) in [
            (None, true),
            (Some("true"), true),
            (Some("false"), false),
            (Some("nonsense"), true),
        ] {
            assert_eq!(watch_config(value).streaming, streaming, "{value:?}");
        }
    }
}
