//! The provider: what it is made of, and its start.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{Caches, CloudProvider, Context, Error, Node, Result, Setup, async_trait};
use provider_kit::events::EventWriter;
use provider_kit::transport::{Patience, Transport};

use crate::api::Api;
use crate::config::Config;
use crate::id::{IdError, MachineId};
use crate::network::PrivateNetwork;
use crate::{EVENT_SOURCE, NAME};

/// Where a server finds out about itself.
const METADATA: &str = "http://169.254.169.254/hetzner/v1/metadata";

/// Makes the provider from the environment variables.
///
/// # Errors
/// *Invalid*, with everything that is wrong with them.
pub fn factory(setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    let _ = setup;
    Err(Error::not_implemented())
}

/// The provider.
pub struct Hetzner {
    api: Api,
    config: Config,
    network: Option<PrivateNetwork>,
    metadata: Transport,
    events: EventWriter,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
}

impl Hetzner {
    /// A provider that talks over these: to the cloud's API, to that of dedicated servers if its credential is known, to the
    /// metadata service of the machine that it runs on.
    #[must_use]
    pub fn over(config: Config, cloud: Transport, _robot: Option<Transport>, metadata: Transport) -> Self {
        let api = Api::new(cloud);
        let network = config.network.clone().map(|network| PrivateNetwork::new(api.clone(), network));
        Self { network, metadata, events: EventWriter::new(EVENT_SOURCE), caches: Arc::default(), api, config }
    }

    /// The metadata service of the machine that this runs on.
    fn metadata() -> Result<Transport> {
        let timeout = Duration::from_secs(5);
        Transport::builder(METADATA).patience(Patience { timeout, tries: 2, ..Patience::default() }).build()
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
