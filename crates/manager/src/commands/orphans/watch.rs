//! Counts load balancers of Services that no longer exist.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, Service};
use parking_lot::Mutex;
use runtime::cache::Cache;
use runtime::loops::sliding;
use tokio_util::sync::CancellationToken;

/// Interval between two counts.
const COUNT_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Counter of load balancers whose Service no longer exists. Uses the Service cache and the provider's cached list, so
/// a count sends no request.
pub(crate) struct OrphanCounter {
    provider: Arc<dyn CloudProvider>,
    cluster: Cluster,
    services: Cache<Service>,
    /// Orphans of the last count, so that each orphan is logged once.
    told: Mutex<BTreeSet<String>>,
}

impl OrphanCounter {
    pub(crate) fn new(
        provider: Arc<dyn CloudProvider>,
        cluster: Cluster,
        services: Cache<Service>,
    ) -> Self {
        Self {
            provider,
            cluster,
            services,
            told: Mutex::default(),
        }
    }

    /// Counts on a timer, so that new orphans are logged although no metrics are scraped.
    pub(crate) async fn watch(self: Arc<Self>, shutdown: CancellationToken) {
        sliding(COUNT_INTERVAL, shutdown, || {
            _ = self.count();
            std::future::ready(())
        })
        .await;
    }

    /// Returns the number of orphans. `None` if the Services or the cloud's load balancers were not listed yet, or if
    /// the cloud does not show owners.
    pub(crate) fn count(&self) -> Option<usize> {
        if !self.services.is_synced() {
            return None;
        }
        let orphans = orphans_among(&*self.provider, &self.cluster, &self.services.list())?;
        let mut told = self.told.lock();
        for orphan in orphans.difference(&told) {
            tracing::warn!("{}", advice(orphan));
        }
        *told = orphans;
        Some(told.len())
    }
}

/// Returns the load balancers that have owner tags of a Service that is not among `services`. `None` if the cloud's
/// load balancers were not listed yet or do not show their owners.
pub(crate) fn orphans_among(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    services: &[Arc<Service>],
) -> Option<BTreeSet<String>> {
    let living: HashSet<&str> = services
        .iter()
        .filter_map(|service| service.metadata.uid.as_deref())
        .collect();
    let orphans = provider
        .load_balancers()?
        .orphans(cluster, &|uid| living.contains(uid))?;
    Some(orphans.into_iter().collect())
}

/// Returns the log message for an orphan.
pub(crate) fn advice(orphan: &str) -> String {
    format!(
        "{orphan} carries the owner tags of a Service of this cluster that no longer exists; the subcommand orphans lists \
         such load balancers, and deletes them on demand"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_provider::Acme;

    fn orphans(id: Option<&str>, services: Cache<Service>) -> OrphanCounter {
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: id.map(str::to_owned),
        };
        OrphanCounter::new(
            Arc::new(Acme {
                balanced: vec!["a", "b", "c"],
                ..Acme::default()
            }),
            cluster,
            services,
        )
    }

    #[test]
    fn load_balancers_of_services_that_live_are_none() {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"name": "a", "uid": "a"}})).unwrap();
        let services = Cache::with([service]);
        let counted = orphans(Some("c1"), services.clone());
        assert_eq!((counted.count(), counted.told.lock().len()), (Some(2), 2));
        let service: Service =
            serde_json::from_value(json!({"metadata": {"name": "b", "uid": "b"}})).unwrap();
        services.insert(service);
        assert_eq!(
            (counted.count(), counted.told.lock().len()),
            (Some(1), 1),
            "it is forgotten"
        );
        assert_eq!(orphans(None, services).count(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn orphans_are_counted_although_nobody_reads_the_metrics() {
        let orphans = Arc::new(orphans(Some("c1"), Cache::with([])));
        let stop = CancellationToken::new();
        let watch = tokio::spawn(Arc::clone(&orphans).watch(stop.clone()));
        tokio::time::sleep(COUNT_INTERVAL).await;
        assert_eq!(orphans.told.lock().len(), 3);
        stop.cancel();
        watch.await.unwrap();
    }

    #[test]
    fn unlisted_services_have_no_orphans() {
        assert_eq!(orphans(Some("c1"), Cache::new()).count(), None);
    }
}
