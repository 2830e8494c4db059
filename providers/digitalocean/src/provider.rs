//! The provider: its parts, and its start.

use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Setup, async_trait,
};
use provider_kit::cluster::ClusterView;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{LoadBalancerEngine, Options, OwnerTags};
use provider_kit::transport::Transport;

use crate::api::{self, Api};
use crate::config::Config;
use crate::droplets::Droplets;
use crate::firewall::WorkerFirewall;
use crate::load_balancers::DigitalOceanLoadBalancers;
use crate::load_balancers::disown::SkipDisowned;
use crate::metrics::FirewallMetrics;
use crate::tags::ClusterTag;
use crate::{EVENT_SOURCE, NAME, debug, diagnosis};

/// Creates the provider from the environment variables.
///
/// # Errors
/// *Invalid*, with all mistakes in the variables.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let cloud = api::cloud(&config, setup)?.build()?;
    let metadata = api::metadata(&config, setup)?;
    Ok(Arc::new(DigitalOcean::new(config, cloud, metadata)))
}

/// The cloud provider for DigitalOcean.
pub struct DigitalOcean {
    api: Api,
    config: Config,
    metadata: Transport,
    cluster: ClusterView,
    droplets: Droplets,
    load_balancers: SkipDisowned<LoadBalancerEngine>,
    context: OnceLock<Context>,
}

impl DigitalOcean {
    /// Creates a provider over these connections: to the API, and to the metadata service of its machine.
    #[must_use]
    pub fn new(config: Config, cloud: Transport, metadata: Transport) -> Self {
        let api = Api::new(cloud);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let droplets = Droplets {
            inventory: Inventory::new(api.clone()),
            api: api.clone(),
            vpc: config.vpc.clone(),
        };
        let cloud = DigitalOceanLoadBalancers::new(api.clone(), config.clone(), &cluster);
        let price = &["type", "size", "size_unit", "region"];
        let options = Options {
            targets_follow_addresses: true,
            annotates_id: true,
            adoptable_tag: config.adoptable_tag.clone(),
            price,
            ..Options::default()
        };
        let load_balancers = SkipDisowned(LoadBalancerEngine::of(
            cloud,
            Arc::new(api.clone()),
            options,
        ));
        Self {
            api,
            config,
            metadata,
            cluster,
            droplets,
            load_balancers,
            context: OnceLock::new(),
        }
    }

    /// Starts the background tasks, which run until the process ends.
    fn start(&self, context: &Context, caches: &Arc<dyn Caches>) {
        let until = |task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            let stop = context.shutdown.clone();
            tokio::spawn(async move { stop.run_until_cancelled(task).await });
        };
        if let Some(tag) = self.config.cluster_tag() {
            let owner = OwnerTags::cluster(&context.cluster).to_owned();
            let tag = ClusterTag {
                api: self.api.clone(),
                tag,
                owner,
            };
            until(Box::pin(tag.run(Arc::clone(caches))));
        }
        if let Some(config) = self.config.firewall.clone() {
            let metrics = FirewallMetrics(self.api.http.metrics());
            let api = self.api.clone();
            let deduplicator = EventDeduplicator::new(self.cluster.events().clone());
            let firewall = WorkerFirewall {
                api,
                config,
                default: self.config.load_balancer_type,
                metrics,
                deduplicator,
            };
            until(Box::pin(firewall.run(Arc::clone(caches))));
        }
        if let Some(address) = self.config.debug_address.clone() {
            until(Box::pin(debug::serve(address, self.api.clone())));
        }
    }
}

#[async_trait]
impl CloudProvider for DigitalOcean {
    fn name(&self) -> &str {
        NAME
    }

    /// Returns `true`: load balancers carry the cluster's own ID in a tag.
    fn has_cluster_id(&self) -> bool {
        false
    }

    fn needs_cluster_id(&self) -> bool {
        false
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.context.get_or_init(|| context.clone());
        self.api
            .find_region(self.config.region.as_deref(), &self.metadata)
            .await
            .map_err(|error| {
                let check = if error.is_unauthorized() {
                    "DO_ACCESS_TOKEN"
                } else {
                    "DO_OVERRIDE_URL, REGION and the network"
                };
                error.context(format!(
                    "DigitalOcean at {} cannot be used; check {check}",
                    self.api.http.base()
                ))
            })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        diagnosis::findings(&self.api, &self.config, &self.metadata).await
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.0.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(Arc::clone(&caches));
        if let Some(context) = self.context.get() {
            self.start(context, &caches);
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.droplets)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.load_balancers)
    }

    fn metrics_address(&self) -> Option<String> {
        self.config.metrics_address.clone()
    }
}
