//! The provider: its parts, and its start.

use std::sync::{Arc, OnceLock};

use aws_protocol::{Aws, Settings};
use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Result, Routes, Setup,
    async_trait,
};
use provider_kit::cluster::ClusterView;
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::LoadBalancerEngine;
use provider_kit::routes::RouteTable;
use provider_kit::transport::Builder;

use crate::api::Api;
use crate::config::Config;
use crate::instances::Source;
use crate::labels::Labels;
use crate::metrics::Requests;
use crate::nodes::Nodes;
use crate::routes::VpcRoutes;
use crate::tagging::Tagger;
use crate::{EVENT_SOURCE, NAME, diagnosis, load_balancers};

/// Creates the provider from the configuration file, the environment and the flags.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    Ok(Arc::new(Ec2::new(setup, |http| http)?))
}

/// The provider of EC2 clusters.
pub struct Ec2 {
    api: Api,
    cluster: ClusterView,
    nodes: Nodes,
    load_balancers: LoadBalancerEngine,
    routes: RouteTable<VpcRoutes>,
    tagger: Option<Arc<Tagger>>,
    context: OnceLock<Context>,
}

impl Ec2 {
    /// Creates the provider; `furnish` completes each connection, such as with a fake in the same process.
    ///
    /// # Errors
    /// *Invalid*, with everything that is wrong with the configuration.
    pub fn new(
        setup: &Setup,
        furnish: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Result<Self> {
        let config = Config::read(setup)?;
        let settings = Settings {
            region: config.region.clone(),
            role_arn: config.role.clone(),
            source_arn: config.source.clone(),
            overrides: config.overrides.clone(),
        };
        let metrics = &setup.metrics;
        let series = Arc::clone(metrics);
        let aws = Aws::new(setup, settings, move |http| {
            furnish(http.own_series(Requests(Arc::clone(&series))))
        })?;
        let tagger = config.tagging.clone();
        let api = Api::new(aws, config);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let inventory = Inventory::new(Source::new(api.clone())).measured(Arc::clone(metrics));
        let tagger = tagger
            .map(|tagging| Tagger::new(api.clone(), tagging, cluster.clone(), Arc::clone(metrics)));
        let routes = VpcRoutes::new(api.clone(), inventory.clone());
        let labels = Labels::new(api.clone());
        let grace = api.config.grace;
        Ok(Self {
            load_balancers: load_balancers::balancers(api.clone(), inventory.clone(), &cluster),
            routes: RouteTable::new(routes, cluster.clone()),
            nodes: Nodes {
                inventory,
                labels,
                grace,
            },
            tagger: tagger.map(Arc::new),
            context: OnceLock::new(),
            api,
            cluster,
        })
    }
}

#[async_trait]
impl CloudProvider for Ec2 {
    fn name(&self) -> &str {
        NAME
    }

    /// Returns `true` if the configuration names the cluster's ID, or the tags of the instance, which `initialize` reads.
    fn has_cluster_id(&self) -> bool {
        self.api
            .known_identity()
            .map_or(self.api.config.cluster_id.is_some(), |identity| {
                identity.cluster.is_some()
            })
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.context.get_or_init(|| context.clone());
        self.api.identity().await?;
        self.api.zones.list().await.map(drop).map_err(|error| {
            let check = match error.is_unauthorized() {
                true => "the credential, and that its role may call ec2:DescribeAvailabilityZones",
                false => "Region in [Global], [ServiceOverride] and the network",
            };
            error.context(format!("EC2 cannot be used; check {check}"))
        })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        diagnosis::diagnose(&self.api).await
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.load_balancers.set_caches(Arc::clone(&caches));
        self.cluster.set_caches(caches);
        if let (Some(tagger), Some(context)) = (&self.tagger, self.context.get()) {
            let tagger = Arc::clone(tagger);
            let stop = context.shutdown.clone();
            tokio::spawn(async move { stop.run_until_cancelled(tagger.run()).await });
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.nodes)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(&self.load_balancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(&self.routes)
    }
}
