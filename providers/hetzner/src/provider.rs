//! The provider: what it is made of, and its start.

use std::sync::{Arc, OnceLock};

use cloud_provider::{Caches, CloudProvider, Context, Finding, Node, Result, Setup, async_trait};
use provider_kit::events::EventWriter;
use provider_kit::transport::Transport;

use crate::api::Api;
use crate::config::Config;
use crate::diagnosis::Diagnosis;
use crate::id::{IdError, MachineId};
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
}

impl Hetzner {
    /// A provider that talks over these: to the cloud's API, to that of dedicated servers if its credential is known, to the
    /// metadata service of the machine that it runs on.
    #[must_use]
    pub fn over(config: Config, cloud: Transport, robot: Option<Transport>, metadata: Transport) -> Self {
        let api = Api::new(cloud);
        let network = config.network.clone().map(|network| PrivateNetwork::new(api.clone(), network));
        Self { network, metadata, robot, events: EventWriter::new(EVENT_SOURCE), caches: Arc::default(), api, config }
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
        self.caches.get_or_init(|| caches);
    }

    fn metrics_address(&self) -> Option<String> {
        self.config.metrics_address.clone()
    }

    fn owns(&self, node: &Node) -> bool {
        node.provider_id().is_none_or(|id| !matches!(MachineId::read(id), Err(IdError::UnknownPrefix(_))))
    }
}
