//! The shared caches: each kind is read once, by whoever needs it.

use std::sync::Arc;

use cloud_provider::{Caches, Node, PersistentVolume, Service};
use kube::{Api, Client};
use runtime::cache::{Cache, WatchConfig, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The caches of one process. One that nobody watches stays empty.
#[derive(Clone)]
pub(crate) struct SharedCaches {
    pub(crate) nodes: Cache<Node>,
    pub(crate) services: Cache<Service>,
    pub(crate) volumes: Cache<PersistentVolume>,
}

/// Kinds that are read only if a controller for them runs; Nodes always are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needed {
    pub(crate) services: bool,
    pub(crate) volumes: bool,
}

impl SharedCaches {
    pub(crate) fn new() -> Self {
        Self { nodes: Cache::new(), services: Cache::new(), volumes: Cache::new() }
    }

    /// Fills what is needed and keeps it fresh until `shutdown`. No kind waits for another (INV-6).
    pub(crate) fn watch(&self, client: &Client, needed: Needed, tasks: &TaskTracker, shutdown: &CancellationToken) {
        let config = WatchConfig::default;
        tasks.spawn(watch::<Node>(Api::all(client.clone()), config(), self.nodes.clone(), shutdown.clone()));
        if needed.services {
            let api = Api::all(client.clone());
            tasks.spawn(watch::<Service>(api, config(), self.services.clone(), shutdown.clone()));
        }
        if needed.volumes {
            let api = Api::all(client.clone());
            tasks.spawn(watch::<PersistentVolume>(api, config(), self.volumes.clone(), shutdown.clone()));
        }
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
