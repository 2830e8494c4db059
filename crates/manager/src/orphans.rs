//! What is left in the cloud of Services that are gone (P-19).

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::{CloudProvider, Cluster, Service};
use runtime::cache::Cache;

/// The load balancers of a cluster that no Service of it has any more, from what was read of the cloud anyhow.
pub(crate) struct Orphans {
    provider: Arc<dyn CloudProvider>,
    cluster: Cluster,
    services: Cache<Service>,
    /// Those of the last count, so that each is told of once.
    told: Mutex<BTreeSet<String>>,
}

impl Orphans {
    pub(crate) fn new(provider: Arc<dyn CloudProvider>, cluster: Cluster, services: Cache<Service>) -> Self {
        Self { provider, cluster, services, told: Mutex::default() }
    }

    /// How many there are. `None`: nobody knows, because the Services or the cloud's load balancers were not listed yet, or
    /// because the cloud does not tell whose is what.
    pub(crate) fn count(&self) -> Option<usize> {
        if !self.services.is_synced() {
            return None;
        }
        let services = self.services.list();
        let living: HashSet<&str> = services.iter().filter_map(|service| service.metadata.uid.as_deref()).collect();
        let orphans = self.provider.load_balancers()?.orphans(&self.cluster, &|uid| living.contains(uid))?;
        let orphans: BTreeSet<String> = orphans.into_iter().collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for orphan in orphans.difference(&told) {
            tracing::warn!(
                "{orphan} is marked for a Service of this cluster that is gone; delete it if nothing else uses it"
            );
        }
        *told = orphans;
        Some(told.len())
    }
}
