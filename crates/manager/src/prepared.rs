//! Start-up of the process before serving and leader election, and its run from then on (APP-1 to APP-13).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cloud_provider::names::CONTROLLERS;
use kube::Client;
use metrics::{Build, Gate, Metrics};
use runtime::clock::SystemClock;
use runtime::election::migration::{Assignment, LeaderMigration};
use runtime::election::{ElectionConfig, Elector, identity};
use runtime::events::{EventRecorder, EventSender, recorder};
use runtime::loops::restarting;
use serving::access::Access;
use serving::health::Health;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::callers;
use crate::candidacy::Candidacy;
use crate::cloud_config::CloudConfig;
use crate::controllers_task::{Clients, Settings};
use crate::endpoints::{self, Ports, Routes, Servers};
use crate::exit::Failure;
use crate::flags::{ElectionSettings, Flags, GATES, Stage};
use crate::manager::Manager;
use crate::permissions::{self, Features};
use crate::provider_start::ProviderStart;
use crate::service_accounts::ServiceAccountClients;
use crate::start;
use crate::webhooks;
use crate::work::{Means, Work};

/// Suffix of the `User-Agent` of the client for requests that belong to no component, such as events of the election.
const GENERAL: &str = cloud_provider::names::MANAGER_NAME;
/// Suffix of the `User-Agent` of the client for the lease (APP-40).
const LEASE: &str = "leader-election";
/// Time that remains for sending events and other pending data at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A process that is ready to serve and to take part in leader election.
pub struct Prepared {
    means: Means,
    candidacy: Option<Candidacy>,
    ports: Ports,
    routes: Routes,
    access: Option<Access>,
    general: Client,
    sender: EventSender,
    features: Features,
    cloud_config: Option<CloudConfig>,
    /// Token whose cancellation ends the process in order.
    stop: CancellationToken,
}

impl Prepared {
    pub(crate) async fn new(manager: &Manager<'_>, flags: &Flags, stop: &CancellationToken) -> Result<Self, Failure> {
        flags.log_inert();
        // Checked before anything that takes time or would hide a misspelt name.
        let is_known = manager.providers.check(&flags.cloud.cloud_provider);
        is_known.map_err(|error| Failure::Fatal(error.into()))?;
        let mut settings = flags.settings();
        settings.start_interval = flags.controller_start_interval();
        if let Some(clients) = &manager.clients {
            settings.clients = clients.clone();
        }
        let election = flags.election();
        let migration = migration(election.as_ref())?;
        // An unusable kubeconfig is reported before a port is bound.
        let general = settings.client(GENERAL).await.map_err(Failure::Setup)?;
        let mut ports = Ports::bind(flags)?;
        let access = match ports.secure.take() {
            None => None,
            Some(listener) => {
                let access = callers::access(flags, &settings, stop).await?;
                ports.secure = Some(listener.with_client_cas(access.client_cas()));
                Some(access)
            }
        };
        let (events, sender) = recorder(general.clone(), GENERAL, Arc::new(SystemClock));
        let candidacy = match &election {
            Some(election) => Some(candidacy(&settings, election, migration.as_ref(), &events).await?),
            None => None,
        };
        let leads = candidacy.as_ref().map(Candidacy::fence).unwrap_or_default();
        settings.fence = Some(settings.identity.fence(leads));
        settings.accounts = accounts(flags, &settings).await?;

        let file = flags.cloud.cloud_config.to_path_buf();
        let cloud_config = file.and_then(|path| CloudConfig::note(path, flags.cloud.cloud_config_change));
        let provider = start::provider(flags, &settings, manager.providers).map_err(Failure::Fatal)?;
        ports.add_metrics_of(&*provider);
        let (health, metrics) = (Health::new(), settings.metrics.clone());
        identify(&metrics, flags);
        if let Some(candidacy) = &candidacy {
            health.add("leaderElection", candidacy.health());
        }
        let means = Means {
            settings,
            provider,
            cluster_name: flags.cloud.cluster_name.clone(),
            health: health.clone(),
            wedged_after: manager.wedged_after,
            grace: flags.shutdown_timeout(),
            provider_start: ProviderStart::default(),
            leases: candidacy.as_ref().map(Candidacy::leases).unwrap_or_default(),
        };
        let stop = stop.child_token();
        readiness(&health, &means, candidacy.as_ref(), &stop);
        let selected = flags.webhooks();
        let served = manager.webhooks.iter().filter(|(name, _)| selected.includes(name));
        let served = served.map(|(_, make)| make(Arc::clone(&means.provider)));
        let own = webhooks::selected(flags, &means.provider);
        let routes = Routes {
            secure: endpoints::secure(flags, migration.as_ref(), &health, &metrics, manager.log.as_ref()),
            metrics: endpoints::plain(&health, &metrics),
            webhooks: endpoints::webhooks(own.into_iter().chain(served).collect(), &metrics),
        };
        let features = features(flags, &means, migration.as_ref());
        Ok(Self { means, candidacy, ports, routes, access, general, sender, features, cloud_config, stop })
    }

    /// Returns the routes of the secure port, as an authorized caller sees them.
    pub fn router(&self) -> Router {
        self.routes.secure.clone()
    }

    /// Returns the routes of the webhook port.
    pub fn webhook_router(&self) -> Router {
        self.routes.webhooks.clone()
    }

    /// Serves, takes part in leader election and runs the controllers until `stop` is cancelled or a changed
    /// configuration requires a restart (APP-89), and then shuts down in order (APP-162).
    ///
    /// # Errors
    /// The reason why the run ended otherwise. A lost lease is returned at once, because the process must end without
    /// waiting.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), Failure> {
        // `stop` may differ from the token that the process was prepared with.
        let halt = self.stop.clone();
        let mut running = std::pin::pin!(self.run_all());
        tokio::select! {
            ended = &mut running => return ended,
            () = stop.cancelled() => halt.cancel(),
        }
        running.await
    }

    async fn run_all(self) -> Result<(), Failure> {
        let Self { means, candidacy, ports, mut routes, access, general, sender, features, cloud_config, stop } = self;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            provider = means.provider.name(),
            "cloud controller manager"
        );
        let (aside, over) = (TaskTracker::new(), CancellationToken::new());
        if let Some(access) = access {
            routes.secure = access.guard(routes.secure);
            let over = over.clone();
            aside.spawn(async move {
                restarting("access", &over, || access.clone().reload_cas(over.clone())).await;
            });
        }
        let servers = Servers::start(ports, routes, &means.settings.metrics);
        aside.spawn(sender.run(over.clone()));
        aside.spawn(over.clone().run_until_cancelled_owned(check_permissions(general.clone(), features)));
        let (contact, stopped) = (means.settings.contact.clone(), over.clone());
        aside.spawn(async move {
            restarting("contact", &stopped, || contact.clone().keep(general.clone(), stopped.clone())).await;
        });
        if let Some(cloud_config) = cloud_config {
            let (provider, halt) = (Arc::clone(&means.provider), stop.clone());
            let metrics = means.settings.metrics.clone();
            let follow = async move {
                cloud_config.follow(provider, metrics).await;
                halt.cancel();
            };
            aside.spawn(over.clone().run_until_cancelled_owned(follow));
        }
        aside.close();
        let ended = match candidacy {
            Some(candidacy) => candidacy.run(means, &stop).await,
            None => alone(means, &stop).await,
        };
        stop.cancel();
        over.cancel();
        let last_words = async { tokio::join!(aside.wait(), servers.end()) };
        _ = tokio::time::timeout(LAST_WORDS, last_words).await;
        ended
    }
}

/// Records the build and the enabled feature gates in the metrics.
fn identify(metrics: &Metrics, flags: &Flags) {
    let (revision, rustc) = (env!("CCM_REVISION"), env!("CCM_RUSTC"));
    metrics.build(Build { version: env!("CARGO_PKG_VERSION"), revision, rustc });
    let gates = flags.gates();
    let acting = GATES.iter().map(|gate| Gate {
        name: gate.name.to_owned(),
        stage: match gate.stage {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Bulk => "",
        },
        enabled: gates.enabled(gate.name),
    });
    metrics.gates(acting.collect());
}

/// Runs the controllers without leader election (APP-69).
async fn alone(means: Means, stop: &CancellationToken) -> Result<(), Failure> {
    let identity = means.settings.identity.clone();
    let Some(work) = Work::begin(means, |_| true, stop).await? else { return Ok(()) };
    tokio::select! {
        biased;
        other = identity.refused() => return Err(Failure::another_cluster(other)),
        () = stop.cancelled() => {}
    }
    work.end().await;
    Ok(())
}

/// Adds the checks that `/readyz` has in addition to those of `/healthz` (APP-104).
fn readiness(health: &Health, means: &Means, candidacy: Option<&Candidacy>, stop: &CancellationToken) {
    let stopping = stop.clone();
    health.add_readiness(
        "shutdown",
        Arc::new(move || if stopping.is_cancelled() { Err("the process is stopping".to_owned()) } else { Ok(()) }),
    );
    let contact = means.settings.contact.clone();
    health.add_readiness("api-server", Arc::new(move || contact.check()));
    if let Some(candidacy) = candidacy {
        health.add_readiness("lease", candidacy.readiness());
    }
    health.add_readiness("provider", Arc::new(means.provider_start.clone()));
}

/// Returns the elections that the flags configure (APP-60, APP-75).
async fn candidacy(
    settings: &Settings,
    election: &ElectionSettings,
    migration: Option<&LeaderMigration>,
    events: &EventRecorder,
) -> Result<Candidacy, Failure> {
    let main = ElectionConfig {
        namespace: election.namespace.clone(),
        name: election.name.clone(),
        identity: identity(),
        lease_duration: election.lease_duration,
        renew_deadline: election.renew_deadline,
        retry_period: election.retry_period,
        release_on_stop: election.release_on_stop,
    };
    let clients = settings.clients.with(|options| main.client_options(options));
    let client = Settings { clients, ..settings.clone() }.client(LEASE).await.map_err(Failure::Setup)?;
    let elector = |config| Elector::new(client.clone(), config, events.clone(), settings.metrics.elections());
    let second = migration.map(|migration| {
        // The same namespace, identity and timings as the main lease (APP-81).
        let config = ElectionConfig { name: migration.leader_name.clone(), ..main.clone() };
        let assignment = Assignment::new(migration, &CONTROLLERS.map(Into::into));
        for name in assignment.unknown() {
            tracing::warn!(name, "leader migration: no controller has this name, so the entry has no effect");
        }
        (elector(config).for_migration(), assignment)
    });
    Ok(Candidacy::new(elector(main), second))
}

/// Returns the leader migration that the flags configure (APP-76, APP-78).
pub(crate) fn migration(election: Option<&ElectionSettings>) -> Result<Option<LeaderMigration>, Failure> {
    let Some(election) = election else { return Ok(None) };
    let Some(settings) = &election.migration else { return Ok(None) };
    let migration = match &settings.file {
        None => LeaderMigration::default(),
        Some(path) => LeaderMigration::read(path).map_err(Failure::setup)?,
    };
    if migration.leader_name == election.name {
        return Err(Failure::Setup(anyhow::anyhow!(
            "leader migration and leader election use the same lease, {}/{}: change leaderName in the file of \
             --leader-migration-config, or --leader-elect-resource-name",
            election.namespace,
            election.name
        )));
    }
    Ok(Some(migration))
}

/// Returns the factory of ServiceAccount clients if the flags ask for one (APP-50).
async fn accounts(flags: &Flags, settings: &Settings) -> Result<Option<ServiceAccountClients>, Failure> {
    let Clients::Configured(options) = &settings.clients else { return Ok(None) };
    if !flags.use_service_account_credentials() {
        return Ok(None);
    }
    // TokenRequests and new ServiceAccounts are changes, too (INV-4).
    let general = settings.client(GENERAL).await.map_err(Failure::Setup)?;
    let accounts = ServiceAccountClients::new(general, (**options).clone());
    Ok(Some(accounts.with_fence(settings.fence.clone().unwrap_or_default())))
}

/// Checks once that the identity has every permission that will be needed, and logs the missing ones (DEP-31).
async fn check_permissions(client: Client, features: Features) {
    permissions::check(&client, &features).await.log();
}

/// Returns the features that determine the needed permissions.
fn features(flags: &Flags, means: &Means, migration: Option<&LeaderMigration>) -> Features {
    let controllers = permissions::controllers_that_run(&means.settings, &*means.provider);
    Features { controllers, ..Features::of(flags, migration) }
}
