//! The set of running controllers: caches, events and worker loops.

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
        self.controllers.includes(names) && (names != ROUTE_CONTROLLER || self.configure_cloud_routes)
    }
}

/// Handles of the running controllers.
pub struct Handles {
    tasks: TaskTracker,
    caches: SharedCaches,
}

impl Handles {
    /// Returns the shared cache of Nodes.
    #[must_use]
    pub fn nodes(&self) -> &Cache<Node> {
        &self.caches.nodes
    }

    /// Returns the shared cache of Services, which is empty if the service controller does not run.
    #[must_use]
    pub fn services(&self) -> &Cache<Service> {
        &self.caches.services
    }

    /// Waits until all tasks have ended after the shutdown: objects in work are finished, and queued events are sent.
    pub async fn wait(self) {
        self.tasks.wait().await;
    }
}

/// Starts the controllers for an initialized provider and returns at once. The controllers run until `shutdown`.
///
/// Controllers that the provider does not support are left out (NODE-2, LIFE-2, SVC-2, ROUTE-2).
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

/// The set of started controllers and their shared caches. With leader migration there are two groups, one for each
/// lease (APP-81).
pub(crate) struct Fleet {
    starter: Starter,
    caches: SharedCaches,
    /// Kinds that the controllers need, including those that are already watched.
    needed: Needed,
    watched: Option<Needed>,
}

impl Fleet {
    /// Creates a set without controllers, and passes the shared caches to the provider (PROV-20).
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

    /// Starts all controllers as one group.
    ///
    /// # Errors
    /// Those of [`start`](Self::start) and [`watch`](Self::watch).
    pub(crate) async fn start_everything(mut self) -> Result<Handles> {
        self.start(|_| true).await?;
        self.watch().await?;
        Ok(self.finish())
    }

    /// Sends the provider's events until the controllers have ended.
    pub(crate) fn send_events(&self, sender: EventSender) {
        self.starter.send_events(sender);
    }

    /// Starts the wanted controllers of this group, one after the other, always in the same order (APP-35), and returns
    /// those that run.
    ///
    /// # Errors
    /// If a controller cannot start. Controllers that already run keep running until the shutdown.
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

    /// Starts one controller. A new controller needs an arm here, because each one is constructed differently.
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

    /// Starts the caches that the controllers need and that are not watched yet. Called last, so that no controller
    /// misses the first objects (APP-19).
    ///
    /// # Errors
    /// If there is no client for the API server.
    pub(crate) async fn watch(&mut self) -> Result<()> {
        let client = self.starter.client("shared-informers").await?;
        self.starter.watch(client, &self.caches, self.watched, self.needed);
        self.watched = Some(self.needed);
        Ok(())
    }

    /// Returns the handles. No controller can be added afterwards.
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
