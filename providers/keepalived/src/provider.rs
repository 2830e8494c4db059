//! The provider: its parts, and its start.

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, LoadBalancers, Node, Result, Setup, async_trait,
};
use parking_lot::Mutex;
use provider_kit::cluster::ClusterView;
use provider_kit::shared_document::{DocumentStore, SharedDocuments};

use crate::config::Config;
use crate::config_map::ConfigMapStore;
use crate::load_balancers::VirtualAddresses;
use crate::metrics::AddressMetrics;
use crate::{EVENT_SOURCE, NAME};

/// Creates the provider from the environment variables.
///
/// # Errors
/// *Invalid*, with all mistakes in the variables.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    Ok(Arc::new(Keepalived::new(setup)?))
}

/// The cloud provider for keepalived, whose cloud is the Kubernetes API.
pub struct Keepalived {
    addresses: VirtualAddresses,
    cluster: ClusterView,
}

impl Keepalived {
    /// Creates the provider from the environment variables.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes in the variables.
    pub fn new(setup: &Setup) -> Result<Self> {
        let config = Arc::new(Config::read(setup)?);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let store = ConfigMapStore {
            config: Arc::clone(&config),
            cluster: cluster.clone(),
            fence: setup.fence.clone(),
            metrics: AddressMetrics::new(Arc::clone(&setup.metrics), config.pools.size()),
            last: Mutex::default(),
        };
        Ok(Self {
            addresses: VirtualAddresses {
                config,
                books: SharedDocuments::new(store),
            },
            cluster,
        })
    }
}

#[async_trait]
impl CloudProvider for Keepalived {
    fn name(&self) -> &str {
        NAME
    }

    fn has_cluster_id(&self) -> bool {
        false
    }

    /// The ConfigMap is an object of the cluster, so no other cluster shares it.
    fn needs_cluster_id(&self) -> bool {
        false
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.addresses.books.store().read(&()).await?;
        let addresses = self.addresses.clone();
        let stop = context.shutdown.clone();
        tokio::spawn(async move {
            stop.run_until_cancelled(addresses.release_unused_addresses())
                .await
        });
        Ok(())
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.cluster.set_caches(caches);
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let place = self.addresses.config.place();
        match self.addresses.books.store().read(&()).await {
            Ok(book) => {
                let used = book.document.used();
                let size = self.addresses.config.pools.size();
                vec![Finding::ok(
                    "addresses",
                    format!("{used} in use, {size} in the ranges, in {place}"),
                )]
            }
            Err(error) => {
                vec![Finding::failure(
                    "addresses",
                    error.to_string(),
                    format!("make {place} readable, and its annotation valid"),
                )]
            }
        }
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.addresses)
    }

    /// Nodes belong to another provider, or to none.
    fn owns_node(&self, _: &Node) -> bool {
        false
    }
}
