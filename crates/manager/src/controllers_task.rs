//! The controllers as one running thing: caches, events, loops.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cloud_provider::names::{
    CONTROLLERS, ControllerNames, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
    VOLUME_LABEL_CONTROLLER,
};
use cloud_provider::{CloudProvider, Cluster, Fence, Node, Service};
use controllers::Options;
use kube::Client;
use metrics::Metrics;
use runtime::cache::Cache;
use runtime::cluster::ClusterIdentity;
use runtime::events::EventSender;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caches::{Needed, SharedCaches};
pub use crate::clients::Clients;
use crate::clients::Wiring;
use crate::readiness::Contact;
use crate::selection::Selection;
use crate::service_accounts::ServiceAccountClients;
use crate::starter::{Started, Starter};

/// What the controllers are started with.
#[derive(Clone)]
pub struct Settings {
    /// How they behave.
    pub options: Options,
    /// How they reach the Kubernetes API.
    pub clients: Clients,
    /// `--min-resync-period`: every object is looked at again after this long, times a factor from 1 to 2 (RT-20).
    pub min_resync_period: Duration,
    /// `--controllers`: those that run.
    pub controllers: Selection,
    /// `--configure-cloud-routes`: whether the route controller may run (ROUTE-2).
    pub configure_cloud_routes: bool,
    /// `--controller-start-interval`: the pause after the start of each controller, times a factor from 1 to 2 (APP-35).
    pub start_interval: Duration,
    /// What is counted of what they do.
    pub metrics: Metrics,
    /// When the API server last answered.
    pub(crate) contact: Contact,
    /// The cluster that is worked for, and whether another one was met (INV-9).
    pub identity: ClusterIdentity,
    /// Whether anything may be changed (INV-4); `None`: whatever the clients' own options say.
    pub fence: Option<Fence>,
    /// Longest time of a call to the cloud, where a person waits for the answer.
    pub call_timeout: Option<Duration>,
    /// Notified when the cloud accepts the credential again.
    pub credential_accepted: Arc<Notify>,
    /// Where `--use-service-account-credentials`, who makes the clients of controllers and provider.
    pub accounts: Option<ServiceAccountClients>,
}

impl Settings {
    /// The standard controllers.
    #[must_use]
    pub fn new(options: Options, clients: Clients) -> Self {
        Self {
            options,
            clients,
            min_resync_period: Duration::from_secs(12 * 3600),
            controllers: Selection::default(),
            configure_cloud_routes: true,
            start_interval: Duration::ZERO,
            metrics: Metrics::new(),
            contact: Contact::default(),
            identity: ClusterIdentity::default(),
            fence: None,
            call_timeout: None,
            credential_accepted: Arc::default(),
            accounts: None,
        }
    }

    fn wiring(&self) -> Wiring {
        Wiring { metrics: self.contact.noting(self.metrics.requests()), fence: self.fence.clone() }
    }

    /// A client for one component.
    pub(crate) async fn client(&self, component: &str) -> Result<Client> {
        let client = self.clients.client(component, self.wiring()).await;
        client.with_context(|| format!("no Kubernetes client for {component}"))
    }

    /// A client for a controller or the provider: with an account of its own, if it is to have one (APP-50).
    pub(crate) async fn client_of_its_own(&self, name: &str) -> Result<Client> {
        match &self.accounts {
            None => self.client(name).await,
            Some(accounts) => Ok(accounts.client(name, self.wiring().metrics).await?),
        }
    }

    /// Whether this controller is asked for, by all flags together.
    #[must_use]
    pub fn wants(&self, names: ControllerNames) -> bool {
        self.controllers.includes(names) && (names != ROUTE_CONTROLLER || self.configure_cloud_routes)
    }
}

/// Running controllers.
pub struct Handles {
    tasks: TaskTracker,
    caches: SharedCaches,
}

impl Handles {
    /// The shared cache of Nodes.
    #[must_use]
    pub fn nodes(&self) -> &Cache<Node> {
        &self.caches.nodes
    }

    /// The shared cache of Services; empty where the service controller does not run.
    #[must_use]
    pub fn services(&self) -> &Cache<Service> {
        &self.caches.services
    }

    /// Returns when everything has ended after the shutdown: keys in work are finished, queued events are sent.
    pub async fn wait(self) {
        self.tasks.wait().await;
    }
}

/// Starts the controllers for an initialised provider; returns at once. They run until `shutdown`.
///
/// A controller that the provider has no use for is left out (NODE-2, LIFE-2, SVC-2, ROUTE-2).
///
/// # Errors
/// If there is no client for the API server.
pub async fn start_controllers(
    settings: &Settings,
    provider: Arc<dyn CloudProvider>,
    cluster: Cluster,
    shutdown: CancellationToken,
) -> Result<Handles> {
    Fleet::new(settings.clone(), provider, cluster, shutdown).start_everything().await
}

/// Controllers that are set running, in one group or in several (APP-81), and the caches that they share.
pub(crate) struct Fleet {
    starter: Starter,
    caches: SharedCaches,
    /// What the controllers need, and what of it is read already.
    needed: Needed,
    watched: Option<Needed>,
}

impl Fleet {
    /// None yet. The provider learns of the caches here (PROV-20).
    pub(crate) fn new(
        settings: Settings,
        provider: Arc<dyn CloudProvider>,
        cluster: Cluster,
        shutdown: CancellationToken,
    ) -> Self {
        settings.identity.learn(cluster.id.clone());
        if let Clients::Configured(options) = &settings.clients {
            options.require_cluster(&settings.identity);
        }
        let caches = SharedCaches::new();
        provider.set_caches(Arc::new(caches.clone()));
        let starter = Starter::new(settings, provider, cluster, caches.clone(), shutdown);
        Self { starter, caches, needed: Needed::default(), watched: None }
    }

    /// All controllers in one group.
    ///
    /// # Errors
    /// As [`start`](Self::start) and [`watch`](Self::watch).
    pub(crate) async fn start_everything(mut self) -> Result<Handles> {
        self.start(|_| true).await?;
        self.watch().await?;
        Ok(self.finish())
    }

    /// Sends the provider's events, until the controllers have ended.
    pub(crate) fn send_events(&self, sender: EventSender) {
        self.starter.send_events(sender);
    }

    /// Starts those of this group that are wanted, one after the other, always in the same order (APP-35); those that run.
    ///
    /// # Errors
    /// One cannot start. What runs already goes on until the shutdown.
    pub(crate) async fn start(&mut self, belongs: impl Fn(ControllerNames) -> bool) -> Result<Vec<Started>> {
        let mut all = Vec::new();
        for names in CONTROLLERS.into_iter().filter(|names| belongs(*names)) {
            let controller = names.canonical;
            if !self.starter.settings().wants(names) {
                say_left_out(self.starter.settings(), names);
                continue;
            }
            tracing::info!("Starting {controller:?}");
            let started = self.start_one(names).await;
            let started = started.inspect_err(|error| tracing::error!("Error starting {controller:?}: {error:#}"));
            match started.with_context(|| format!("error running controllers: {controller}"))? {
                Some(started) => {
                    tracing::info!("Started {controller:?}");
                    all.push(started);
                    self.starter.pause().await;
                }
                None => tracing::warn!("Skipping {controller:?}"),
            }
        }
        Ok(all)
    }

    /// A closed list: each has its own way of being made.
    async fn start_one(&mut self, names: ControllerNames) -> Result<Option<Started>> {
        let started = match names {
            NODE_CONTROLLER => self.starter.node().await?,
            NODE_LIFECYCLE_CONTROLLER => self.starter.node_lifecycle().await?,
            ROUTE_CONTROLLER => self.starter.route().await?,
            SERVICE_CONTROLLER => self.starter.service().await?,
            VOLUME_LABEL_CONTROLLER => self.starter.volume_label().await?,
            _ => None,
        };
        self.needed.services |= names == SERVICE_CONTROLLER && started.is_some();
        self.needed.volumes |= names == VOLUME_LABEL_CONTROLLER && started.is_some();
        Ok(started)
    }

    /// Reads what the controllers need and is not read yet. Last, so that none of them misses the first objects (APP-19).
    ///
    /// # Errors
    /// There is no client for the API server.
    pub(crate) async fn watch(&mut self) -> Result<()> {
        let client = self.starter.client("shared-informers").await?;
        self.starter.watch(client, &self.caches, self.watched, self.needed);
        self.watched = Some(self.needed);
        Ok(())
    }

    /// No controller comes any more.
    pub(crate) fn finish(self) -> Handles {
        Handles { tasks: self.starter.finish(), caches: self.caches }
    }
}

fn say_left_out(settings: &Settings, names: ControllerNames) {
    let controller = names.canonical;
    if settings.controllers.includes(names) {
        tracing::info!("Skipping {controller:?}: --configure-cloud-routes=false");
    } else if Selection::default().includes(names) {
        tracing::warn!("{controller:?} is disabled");
    }
}
