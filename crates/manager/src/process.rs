//! The process from top to bottom: parse, bind, serve, elect, initialise, start the controllers, stop.
//!
//! [`Manager::run`] parses the arguments, [`Process::bind`] opens the ports and creates the provider, [`Process::run`]
//! does the rest. A standby replica serves, too, so serving begins before the election. The files next to this one have
//! the parts of one step each.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cloud_provider::{CloudProvider, Cluster};
use futures::FutureExt as _;
use runtime::clock::SystemClock;
use runtime::events::{EventSender, recorder};
use serving::health::Health;
use tokio_util::sync::CancellationToken;

use crate::build_info::record_build;
use crate::controller_set::{
    ControllerSet, INFORMER_CLIENT, Liveness, RunningController, Settings,
};
use crate::election::{LeaderElection, migration};
use crate::endpoints::{Ports, Routes, situation};
use crate::exit::{Failure, panic_message};
use crate::flags::{Configuration, Flags, PROVIDER_VARIABLE, Parsed, without_entry_point};
use crate::kubernetes::{
    API_SERVER_TIMEOUT, Clients, ProviderClients, ServiceAccountClients, read_cluster,
    wait_until_healthy,
};
use crate::manager::Manager;
use crate::output::{print, print_error};
use crate::permissions::{self, Features};
use crate::provider::{self, CloudConfigWatch, PROVIDER_CLIENT, ProviderInitialization};
use crate::signals::stop_on_signal;
use crate::standby::Standby;
use crate::threads::new_runtime;
use crate::{commands, core_dumps, logging};

/// Suffix of the `User-Agent` of the client for requests that belong to no component, such as events of the election.
const GENERAL_CLIENT: &str = cloud_provider::names::MANAGER_NAME;

impl Manager<'_> {
    /// Runs the program, or one of its subcommands, with the process's arguments, until it has ended.
    #[must_use]
    pub fn run(self) -> ExitCode {
        core_dumps::forbid();
        // Parse.
        let arguments = without_entry_point(std::env::args_os().collect(), self.name());
        let preset = std::env::var(PROVIDER_VARIABLE).unwrap_or_default();
        let program = self.called(
            arguments
                .first()
                .map(OsString::as_os_str)
                .unwrap_or_default(),
            &preset,
        );
        let program = program.with_configuration_of_kubectl(|name| std::env::var_os(name));
        if let Some(code) = commands::run(self.providers, &program, &arguments) {
            return code;
        }
        let flags = match Flags::parse_as(&program, arguments) {
            Parsed::Flags(flags) => *flags,
            Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
            Parsed::Wrong(text) => {
                print_error(&text);
                return ExitCode::FAILURE;
            }
        };
        let configuration = flags.configuration();
        let log = logging::start(&configuration.logging);
        if flags.verbosity > 0 {
            logging::log_flags(flags.dump());
        }
        flags.log_notices();
        // Run, until a signal or a failure.
        let manager = self.log(log.clone());
        let Some(runtime) = new_runtime() else {
            tracing::error!("threads cannot be started");
            log.flush();
            return ExitCode::FAILURE;
        };
        let run = async {
            let stop = CancellationToken::new();
            stop_on_signal(stop.clone(), log.clone());
            match Process::bind(&manager, &configuration, &stop).await {
                Ok(process) => process.run().await,
                // The process was asked to stop before it did anything.
                Err(_) if stop.is_cancelled() => Ok(()),
                Err(failure) => Err(failure),
            }
        };
        // A panic of the main task is a failure with the exit code of the Go program (APP-162).
        let ended = runtime.block_on(AssertUnwindSafe(run).catch_unwind());
        let ended = ended.unwrap_or_else(|panic| Err(Failure::Panic(panic_message(&*panic))));
        // A provider that blocks its thread must not delay the end of the process.
        runtime.shutdown_background();
        let code = match &ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                failure.log();
                failure.into()
            }
        };
        log.flush();
        code
    }
}

/// A process that has bound its ports and created its provider, and is ready to serve and to take part in leader
/// election.
pub struct Process {
    context: ProcessContext,
    election: LeaderElection,
    /// Work of every replica, whether it leads or not.
    standby: Standby,
    /// Token whose cancellation ends the process in order.
    stop: CancellationToken,
}

/// The parts of the process that its steps share.
struct ProcessContext {
    settings: Settings,
    provider: Arc<dyn CloudProvider>,
    /// Name of the cluster (`--cluster-name`).
    cluster_name: String,
    /// Registry of the health checks (APP-17).
    health: Health,
    /// Time after which work on one object fails the controller's health check.
    wedged_after: Duration,
    /// Time that the work in progress may take to finish at a shutdown (APP-162).
    shutdown_timeout: Duration,
    /// State of the provider's initialization.
    initialization: ProviderInitialization,
}

impl Process {
    /// Binds the ports, sets up authentication and creates the provider (APP-1 to APP-13). Starts no controller and
    /// changes nothing in the cluster or the cloud.
    pub(crate) async fn bind(
        manager: &Manager<'_>,
        configuration: &Configuration,
        stop: &CancellationToken,
    ) -> Result<Self, Failure> {
        // Checked before anything that takes time or would hide a misspelt name.
        let is_known = manager.providers.check(&configuration.cloud.provider);
        is_known.map_err(|error| Failure::Fatal(error.into()))?;
        let mut settings = configuration.settings();
        if let Some(clients) = &manager.clients {
            settings.clients = clients.clone();
        }
        let migration = migration(configuration.election.as_ref())?;
        // An unusable kubeconfig is reported before a port is bound.
        let client = settings
            .client(GENERAL_CLIENT)
            .await
            .map_err(Failure::Setup)?;

        let mut ports = Ports::bind(configuration)?;
        let access = ports.authenticate(configuration, &settings, stop).await?;

        let (recorder, events) = recorder(client.clone(), GENERAL_CLIENT, Arc::new(SystemClock));
        let election = LeaderElection::new(
            &settings,
            configuration.election.as_ref(),
            migration.as_ref(),
            &recorder,
        )
        .await?;
        settings.fence = Some(settings.identity.fence(election.fence()));
        settings.accounts = accounts(configuration, &settings).await?;

        let file = configuration.cloud.config_file.clone();
        let on_change = configuration.cloud.on_config_change;
        let cloud_config = file.and_then(|path| CloudConfigWatch::note(path, on_change));
        let provider = provider::create(configuration, &settings, manager.providers)
            .map_err(Failure::Fatal)?;
        ports.add_metrics_of(&*provider);

        record_build(&settings.metrics, &configuration.gates);
        let context = ProcessContext {
            settings,
            provider,
            cluster_name: configuration.cloud.cluster_name.clone(),
            health: Health::new(),
            wedged_after: manager.wedged_after,
            shutdown_timeout: configuration.shutdown_timeout,
            initialization: ProviderInitialization::default(),
        };
        let stop = stop.child_token();
        add_health_checks(&context, &election, &stop);
        let routes = Routes::new(
            configuration,
            migration.as_ref(),
            &context.health,
            &context.settings.metrics,
            manager.log.as_ref(),
            manager.selected_webhooks(configuration, &context.provider),
        );
        let controllers = permissions::controllers_that_run(&context.settings, &*context.provider);
        let features = Features {
            controllers,
            ..Features::of(configuration, migration.as_ref())
        };
        let standby = Standby {
            ports,
            routes,
            access,
            client,
            events,
            features,
            cloud_config,
        };
        Ok(Self {
            context,
            election,
            standby,
            stop,
        })
    }

    /// Returns the routes of the secure port, as an authorized caller sees them.
    pub fn router(&self) -> Router {
        self.standby.routes.secure.clone()
    }

    /// Returns the routes of the webhook port.
    pub fn webhook_router(&self) -> Router {
        self.standby.routes.webhooks.clone()
    }

    /// Serves, takes part in leader election and runs the controllers until the token of [`Manager::prepare`] is
    /// cancelled or a changed configuration requires a restart (APP-89), and then shuts down in order (APP-162).
    ///
    /// # Errors
    /// The reason why the run ended otherwise. A lost lease is returned at once, because the process must end without
    /// waiting.
    pub async fn run(self) -> Result<(), Failure> {
        let Self {
            context,
            mut election,
            standby,
            stop,
        } = self;
        let version = env!("CARGO_PKG_VERSION");
        let provider = context.provider.name();
        tracing::info!(version, provider, "cloud controller manager");
        // Serve, and do what a standby replica does as well.
        let background = standby.start(&context.settings, &context.provider, &stop);

        let lost = election.lost();
        let identity = context.settings.identity.clone();
        // The controllers end with this function, whatever the reason.
        let shutdown = stop.child_token();
        let guard = shutdown.clone().drop_guard();
        let lead = async {
            let mut controllers: Option<ControllerSet> = None;
            let mut result: Result<(), Failure> = Ok(());
            for lease in election.leases() {
                // Elect.
                if !election.acquire(lease, &shutdown).await {
                    break;
                }
                // Initialise, once for the whole process (APP-15, APP-82 *ours*).
                if controllers.is_none() {
                    controllers = initialise(&context, &shutdown).await?;
                }
                // An interrupted start is no failure.
                let Some(controllers) = &mut controllers else {
                    return Ok(());
                };
                // Start the controllers of this lease, and then their caches.
                let assigned = election.assigned(lease);
                let interrupted = controllers.shutdown();
                let start = async {
                    let started = controllers.start(assigned).await.map_err(Failure::Fatal)?;
                    watch(&context, controllers, started).await
                };
                if let Some(Err(failure)) = interrupted.run_until_cancelled(start).await
                    && !interrupted.is_cancelled()
                {
                    result = Err(failure);
                    break;
                }
            }
            // Stop: first the controllers, then the election, so that no other replica works on the same objects.
            let Some(controllers) = controllers else {
                return result;
            };
            if result.is_ok() {
                shutdown.cancelled().await;
            }
            if !controllers.stop(context.shutdown_timeout).await {
                election.leave_to_expire();
            }
            result
        };
        let ended = tokio::select! {
            biased;
            // In both cases the fence is closed, and the work in progress is not awaited.
            failure = lost => Err(failure),
            other = identity.refused() => {
                election.abort();
                Err(Failure::another_cluster(other))
            }
            ended = lead => election.release().await.and(ended),
        };
        drop(guard);
        stop.cancel();
        background.end().await;
        ended
    }
}

/// Waits for the API server, reads the identity of the cluster and initializes the provider (APP-14, APP-15). Returns
/// the set without controllers, or `None` if `stop` is cancelled before.
async fn initialise(
    context: &ProcessContext,
    stop: &CancellationToken,
) -> Result<Option<ControllerSet>, Failure> {
    context.initialization.note(true);
    let shutdown = stop.child_token();
    let initialised = stop
        .run_until_cancelled(initialise_provider(context, &shutdown))
        .await;
    let (cluster, events) = match initialised {
        None => return Ok(None),
        Some(Err(_)) if stop.is_cancelled() => return Ok(None),
        Some(initialised) => initialised?,
    };
    context.initialization.note(false);
    let controllers = ControllerSet::new(
        context.settings.clone(),
        Arc::clone(&context.provider),
        cluster,
        shutdown,
    );
    controllers.send_events(events);
    Ok(Some(controllers))
}

async fn initialise_provider(
    context: &ProcessContext,
    shutdown: &CancellationToken,
) -> Result<(Cluster, EventSender), Failure> {
    let settings = &context.settings;
    let informers = settings
        .client(INFORMER_CLIENT)
        .await
        .map_err(Failure::Fatal)?;
    wait_until_healthy(&informers, &situation(settings)).await?;
    let cluster = read_cluster(
        &context.cluster_name,
        &informers,
        API_SERVER_TIMEOUT,
        shutdown,
    )
    .await;
    let cluster = cluster.map_err(Failure::Fatal)?;
    // The API server may have become that of another cluster while this replica waited for its lease.
    settings
        .identity
        .confirm(cluster.id.as_deref(), "the API server")
        .map_err(Failure::another_cluster)?;
    let writer = settings
        .client(PROVIDER_CLIENT)
        .await
        .map_err(Failure::Fatal)?;
    let (events, sender) = provider::recorder(writer);
    let clients = Arc::new(ProviderClients::PerComponent(Box::new(settings.clone())));
    let provider_context = provider::context(settings, &cluster, clients, events, shutdown);
    let initialised = context
        .initialization
        .run(settings, &*context.provider, &provider_context)
        .await;
    initialised.map_err(Failure::Fatal)?;
    Ok((cluster, sender))
}

/// Adds the health checks of controllers that were started, waits for the API server, and starts the controllers' caches.
async fn watch(
    context: &ProcessContext,
    controllers: &mut ControllerSet,
    started: Vec<RunningController>,
) -> Result<(), Failure> {
    for controller in started {
        let name = controller.names.canonical;
        let check = Liveness {
            controller,
            wedged_after: context.wedged_after,
        };
        context.health.add(name, Arc::new(check));
    }
    let client = context
        .settings
        .client(INFORMER_CLIENT)
        .await
        .map_err(Failure::Fatal)?;
    wait_until_healthy(&client, &situation(&context.settings)).await?;
    controllers.watch().await.map_err(Failure::Fatal)
}

/// Adds the check of leader election to `/healthz`, and those that only `/readyz` has (APP-104).
fn add_health_checks(
    context: &ProcessContext,
    election: &LeaderElection,
    stop: &CancellationToken,
) {
    let health = &context.health;
    if let Some(check) = election.health() {
        health.add("leaderElection", check);
    }
    let stopping = stop.clone();
    health.add_readiness(
        "shutdown",
        Arc::new(move || {
            if stopping.is_cancelled() {
                Err("the process is stopping".to_owned())
            } else {
                Ok(())
            }
        }),
    );
    let contact = context.settings.contact.clone();
    health.add_readiness("api-server", Arc::new(move || contact.check()));
    if let Some(check) = election.readiness() {
        health.add_readiness("lease", check);
    }
    health.add_readiness("provider", Arc::new(context.initialization.clone()));
}

/// Returns the factory of ServiceAccount clients if the flags ask for one (APP-50).
async fn accounts(
    configuration: &Configuration,
    settings: &Settings,
) -> Result<Option<ServiceAccountClients>, Failure> {
    let Clients::Configured(options) = &settings.clients else {
        return Ok(None);
    };
    if !configuration.use_service_account_credentials {
        return Ok(None);
    }
    // TokenRequests and new ServiceAccounts are changes, too (INV-4).
    let general = settings
        .client(GENERAL_CLIENT)
        .await
        .map_err(Failure::Setup)?;
    let accounts = ServiceAccountClients::new(general, (**options).clone());
    Ok(Some(
        accounts.with_fence(settings.fence.clone().unwrap_or_default()),
    ))
}
