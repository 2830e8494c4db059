//! The provider: what it is made of, and its start.

use std::sync::{Arc, OnceLock};

use cloud_provider::{Caches, CloudProvider, Context, Finding, LoadBalancers, Node, Result, Setup, async_trait};
use provider_kit::events::EventWriter;
use provider_kit::load_balancers::Balancers;
use provider_kit::transport::Transport;

use crate::api::Api;
use crate::balancers::Backing;
use crate::config::Config;
use crate::diagnosis::Diagnosis;
use crate::id::is_ours;
use crate::metrics::Counted;
use crate::network::PrivateNetwork;
use crate::{EVENT_SOURCE, NAME, transports};

/// Makes the provider from the environment variables.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let config = Config::read(setup)?;
    let cloud = transports::cloud(&config, setup).build()?;
    let robot = config.robot.as_ref().and_then(|robot| Some((robot, robot.credential.as_ref()?)));
    let robot = robot.map(|(robot, credential)| transports::robot(robot, credential, setup).build()).transpose()?;
    Ok(Arc::new(Hetzner::over(config, cloud, robot, transports::metadata()?)))
}

/// The provider.
pub struct Hetzner {
    api: Api,
    config: Config,
    network: Option<PrivateNetwork>,
    metadata: Transport,
    robot: Option<Transport>,
    events: EventWriter,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    balancers: Option<Counted<Balancers<Backing>>>,
}

impl Hetzner {
    /// A provider that talks over these: to the cloud's API, to that of dedicated servers if its credential is known, to the
    /// metadata service of the machine that it runs on.
    #[must_use]
    pub fn over(config: Config, cloud: Transport, robot: Option<Transport>, metadata: Transport) -> Self {
        let api = Api::new(cloud);
        let network = config.network.clone().map(|network| PrivateNetwork::new(api.clone(), network));
        let (events, caches, metrics) = (EventWriter::new(EVENT_SOURCE), Arc::default(), api.http.metrics());
        let balancers = config.balancers.clone().map(|balancers| {
            let dedicated = config.robot.as_ref().map(|_| None);
            let (api, network, caches) = (api.clone(), network.clone(), Arc::clone(&caches));
            Balancers::new(Backing::new(api, balancers, network, dedicated, events.clone(), caches))
        });
        let balancers = balancers.map(|inner| Counted { inner, metrics: Arc::clone(&metrics) });
        Self { balancers, events, caches, network, metadata, robot, api, config }
    }
}

#[async_trait]
impl CloudProvider for Hetzner {
    fn name(&self) -> &str {
        NAME
    }

    /// Servers and networks carry no mark of a cluster.
    fn has_cluster_id(&self) -> bool {
        false
    }

    async fn initialize(&self, context: &Context) -> Result<()> {
        self.events.connect(&context.events);
        self.api.check().await.map_err(|error| {
            let check = if error.is_unauthorized() { "HCLOUD_TOKEN" } else { "HCLOUD_ENDPOINT and the network" };
            error.context(format!("Hetzner Cloud at {} cannot be used; check {check}", self.api.http.base()))
        })?;
        if let Some(network) = &self.network {
            network.resolve().await?;
            network.check_attached(&self.metadata).await?;
        }
        Ok(())
    }

    async fn diagnose(&self) -> Vec<Finding> {
        let Self { api, config, network, metadata, robot, .. } = self;
        Diagnosis { api, config, network: network.as_ref(), metadata, robot: robot.as_ref() }.findings().await
    }

    fn set_caches(&self, caches: Arc<dyn Caches>) {
        if let Some(balancers) = &self.balancers {
            balancers.inner.set_caches(Arc::clone(&caches));
        }
        self.caches.get_or_init(|| caches);
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.balancers.as_ref().map(|balancers| balancers as _)
    }

    fn metrics_address(&self) -> Option<String> {
        self.config.metrics_address.clone()
    }

    fn owns(&self, node: &Node) -> bool {
        is_ours(node)
    }
}
