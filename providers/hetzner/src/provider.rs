//! The provider: its parts, and its start.

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Context, Finding, Instances, LoadBalancers, Node, Result, Routes, Setup,
    async_trait,
};
use provider_kit::cluster::ClusterView;
use provider_kit::instrumented::InstrumentedCapability;

use provider_kit::load_balancers::{LoadBalancerEngine, Options};
use provider_kit::routes::RouteTable;
use provider_kit::transport::Transport;

use crate::api::Api;
use crate::balancers::{HcloudLoadBalancers, PRICE};
use crate::config::Config;
use crate::id::is_ours;
use crate::metrics::counted;
use crate::network::PrivateNetwork;
use crate::robot::Robot;
use crate::routes::{self, NetworkRoutes};
use crate::servers::Servers;
use crate::{EVENT_SOURCE, NAME, transports};

/// Builds the provider from the environment variables.
///
/// # Errors
/// *Invalid*, with all mistakes in the variables.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let cloud = transports::cloud(&config, setup).build()?;
    let robot = config
        .robot
        .as_ref()
        .and_then(|robot| Some((robot, robot.credential.as_ref()?)));
    let robot = robot
        .map(|(robot, credential)| transports::robot(robot, credential, setup).build())
        .transpose()?;
    Ok(Arc::new(Hetzner::over(
        config,
        cloud,
        robot,
        transports::metadata()?,
    )))
}

/// The cloud provider for Hetzner.
pub struct Hetzner {
    pub(crate) api: Api,
    pub(crate) config: Config,
    pub(crate) network: Option<PrivateNetwork>,
    pub(crate) metadata: Transport,
    pub(crate) robot: Option<Robot>,
    cluster: ClusterView,
    servers: InstrumentedCapability<Servers>,
    balancers: Option<InstrumentedCapability<LoadBalancerEngine>>,
    routes: Option<InstrumentedCapability<RouteTable<NetworkRoutes>>>,
}

impl Hetzner {
    /// Returns a provider with one client for each API: `cloud` for the Cloud API, `robot` for dedicated servers
    /// (`None` without a credential), `metadata` for the metadata service of this machine.
    #[must_use]
    pub fn over(
        config: Config,
        cloud: Transport,
        robot: Option<Transport>,
        metadata: Transport,
    ) -> Self {
        let api = Api::new(cloud);
        let cluster = ClusterView::new(EVENT_SOURCE);
        let metrics = api.http.metrics();
        let network = config
            .network
            .clone()
            .map(|network| PrivateNetwork::new(api.clone(), network));
        let family = config.instances.address_family;
        let robot = config.robot.as_ref().zip(robot);
        let robot =
            robot.map(|(config, http)| Robot::new(http, config, family, cluster.events().clone()));

        let servers = Servers::new(
            api.clone(),
            robot.clone(),
            &config,
            network.clone(),
            cluster.clone(),
        );
        let routes = network.clone().filter(|_| {
            config
                .network
                .as_ref()
                .is_some_and(|network| network.routes)
        });
        let routes = routes
            .map(|network| routes::routes(api.clone(), network, servers.cloud(), cluster.clone()));
        let routes = routes.map(|routes| counted(routes, &metrics));
        let balancers = config.load_balancers.clone().map(|defaults| {
            let dedicated = config.robot.as_ref().map(|_| robot.clone());
            let balancers = HcloudLoadBalancers::new(
                api.clone(),
                defaults,
                network.clone(),
                dedicated,
                servers.cloud(),
                cluster.clone(),
            );
            let machines = Arc::new(servers.cloud().source().clone());
            let adoptable_tag = config.adoptable_tag.clone();
            let options = Options {
                price: PRICE,
                adoptable_tag,
                ..Options::default()
            };
            counted(
                LoadBalancerEngine::of(balancers, machines, options),
                &metrics,
            )
        });
        let servers = counted(servers, &metrics);
        Self {
            api,
            config,
            network,
            metadata,
            robot,
            cluster,
            servers,
            balancers,
            routes,
        }
    }
}

#[async_trait]
impl CloudProvider for Hetzner {
    fn name(&self) -> &str {
        NAME
    }

    /// Returns `false`, because servers and networks have no tags that name their cluster.
    fn has_cluster_id(&self) -> bool {
        false
    }

    /// Returns `true`: load balancers carry the UID of their Service, and routes lead to a Node of the cluster.
    fn needs_cluster_id(&self) -> bool {
        false
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.cluster.connect(context);
        self.api.check().await.map_err(|error| {
            let token = "HCLOUD_TOKEN, or the file that HCLOUD_TOKEN_FILE names";
            let check = if error.is_unauthorized() {
                token
            } else {
                "HCLOUD_ENDPOINT and the network"
            };
            error.context(format!(
                "Hetzner Cloud at {} cannot be used; check {check}",
                self.api.http.base()
            ))
        })?;
        if let Some(network) = &self.network {
            network.resolve().await?;
            network.check_attached(&self.metadata).await?;
        }
        Ok(())
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.findings().await
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        if let Some(balancers) = &self.balancers {
            balancers.inner().set_caches(Arc::clone(&caches));
        }
        self.cluster.set_caches(caches);
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.servers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        self.routes.as_ref().map(|routes| routes as _)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.balancers.as_ref().map(|balancers| balancers as _)
    }

    fn metrics_address(&self) -> Option<String> {
        self.config.metrics_address.clone()
    }

    fn owns_node(&self, node: &Node) -> bool {
        is_ours(node)
    }
}
