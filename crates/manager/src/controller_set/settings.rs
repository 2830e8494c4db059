//! The settings that the controllers start with.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cloud_provider::Fence;
use cloud_provider::names::{ControllerNames, ROUTE_CONTROLLER};
use controllers::Options;
use kube::Client;
use metrics::Metrics;
use runtime::cluster::ClusterIdentity;
use tokio::sync::Notify;

use super::Selection;
use crate::kubernetes::{Clients, Contact, ServiceAccountClients, Wiring};

/// Default of the flag `--min-resync-period`.
pub(crate) const MIN_RESYNC_PERIOD: Duration = Duration::from_secs(12 * 3600);

/// The settings that the controllers start with.
#[derive(Clone)]
pub struct Settings {
    /// Behaviour of the controllers.
    pub options: Options,
    /// Factory of Kubernetes clients.
    pub clients: Clients,
    /// Value of `--min-resync-period`: interval of full resyncs, multiplied by a random factor from 1 to 2 (RT-20).
    pub min_resync_period: Duration,
    /// Value of `--controllers`: the selected controllers.
    pub controllers: Selection,
    /// Value of `--configure-cloud-routes`. If `false`, the route controller does not run (ROUTE-2).
    pub configure_cloud_routes: bool,
    /// Value of `--controller-start-interval`: pause after the start of each controller, multiplied by a random factor
    /// from 1 to 2 (APP-35).
    pub start_interval: Duration,
    /// Metrics of the controllers.
    pub metrics: Metrics,
    /// Time of the API server's last answer.
    pub(crate) contact: Contact,
    /// Identity of the cluster, which notices an API server of another cluster (INV-9).
    pub identity: ClusterIdentity,
    /// Fence that permits or refuses changes (INV-4); `None` leaves the decision to the clients' own options.
    pub fence: Option<Fence>,
    /// Value of `--allow-untagged-cloud`: the provider may lack a cluster ID (PROV-7).
    pub allow_untagged_cloud: bool,
    /// Timeout of a call to the cloud, which subcommands shorten; `None` for the provider's default.
    pub call_timeout: Option<Duration>,
    /// Notified when the cloud accepts the credential again.
    pub credential_accepted: Arc<Notify>,
    /// Factory of ServiceAccount clients for controllers and provider, with `--use-service-account-credentials`.
    pub accounts: Option<ServiceAccountClients>,
}

impl Settings {
    /// Returns the settings of the standard controllers.
    #[must_use]
    pub fn new(options: Options, clients: Clients) -> Self {
        Self {
            options,
            clients,
            min_resync_period: MIN_RESYNC_PERIOD,
            controllers: Selection::default(),
            configure_cloud_routes: true,
            start_interval: Duration::ZERO,
            metrics: Metrics::new(),
            contact: Contact::default(),
            identity: ClusterIdentity::default(),
            fence: None,
            allow_untagged_cloud: false,
            call_timeout: None,
            credential_accepted: Arc::default(),
            accounts: None,
        }
    }

    fn wiring(&self) -> Wiring {
        Wiring {
            metrics: self.contact.noting(self.metrics.requests()),
            fence: self.fence.clone(),
        }
    }

    /// Returns a client for one component.
    pub(crate) async fn client(&self, component: &str) -> Result<Client> {
        let client = self.clients.client(component, self.wiring()).await;
        client.with_context(|| format!("no Kubernetes client for {component}"))
    }

    /// Returns a client for a controller or the provider, with a ServiceAccount of its own if the flags say so
    /// (APP-50).
    pub(crate) async fn client_of_its_own(&self, name: &str) -> Result<Client> {
        match &self.accounts {
            None => self.client(name).await,
            Some(accounts) => Ok(accounts.client(name, self.wiring().metrics).await?),
        }
    }

    /// Returns `true` if the flags select this controller.
    #[must_use]
    pub fn wants(&self, names: ControllerNames) -> bool {
        self.controllers.includes(names)
            && (names != ROUTE_CONTROLLER || self.configure_cloud_routes)
    }
}
