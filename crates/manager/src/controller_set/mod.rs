//! The set of controllers: their settings, their shared caches, their construction, their loops and their end.

mod builder;
mod caches;
mod held_nodes;
mod liveness;
mod selection;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use cloud_provider::names::{
    CONTROLLERS, ControllerNames, MANAGER_NAME, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER,
    ROUTE_CONTROLLER, SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER,
};
use cloud_provider::{CloudProvider, Cluster, Node, Service};
use controllers::options::GuardOptions;
use kube::Client;
use runtime::cache::{Cache, HoldObserver, HoldOptions};
use runtime::clock::SystemClock;
use runtime::cluster::ClusterIdentity;
use runtime::events::{EventSender, recorder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::builder::{BuiltController, ControllerBuilder};
pub(crate) use self::caches::SharedCaches;
use self::caches::{CacheSource, NeededCaches, watch_config};
use self::held_nodes::HeldNodes;
use self::liveness::busy_controllers;
pub(crate) use self::liveness::{Liveness, RunningController};
pub use self::selection::Selection;
pub(crate) use self::settings::MIN_RESYNC_PERIOD;
pub use self::settings::Settings;
use crate::kubernetes::Clients;

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
    ControllerSet::new(settings.clone(), provider, cluster, shutdown)
        .start_all()
        .await
}

/// The set of started controllers and their shared caches. With leader migration there are two groups, one for each
/// lease (APP-81).
pub(crate) struct ControllerSet {
    settings: Settings,
    builder: ControllerBuilder,
    caches: SharedCaches,
    running: Vec<RunningController>,
    /// Kinds that the controllers need, including those that are already watched.
    needed: NeededCaches,
    watched: Option<NeededCaches>,
    /// Tasks of controllers, caches and event senders.
    tasks: TaskTracker,
    /// Loops of the controllers.
    loops: TaskTracker,
    shutdown: CancellationToken,
    /// Token that is cancelled only after the controllers have ended, so that events about their last objects are sent.
    stop_events: CancellationToken,
}

impl ControllerSet {
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
        Self {
            builder: ControllerBuilder::new(
                settings.clone(),
                provider,
                cluster,
                caches.clone(),
                shutdown.clone(),
            ),
            settings,
            caches,
            running: Vec::new(),
            needed: NeededCaches::default(),
            watched: None,
            tasks: TaskTracker::new(),
            loops: TaskTracker::new(),
            shutdown,
            stop_events: CancellationToken::new(),
        }
    }

    /// Returns the token whose cancellation stops the controllers.
    pub(crate) fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Starts all controllers as one group.
    ///
    /// # Errors
    /// Those of [`start`](Self::start) and [`watch`](Self::watch).
    pub(crate) async fn start_all(mut self) -> Result<Handles> {
        self.start(|_| true).await?;
        self.watch().await?;
        Ok(self.finish())
    }

    /// Starts the selected controllers for which `belongs` returns `true`, one after the other, always in the same
    /// order (APP-35), and returns those that run.
    ///
    /// # Errors
    /// If a controller cannot start. Controllers that already run keep running until the shutdown.
    pub(crate) async fn start(
        &mut self,
        belongs: impl Fn(ControllerNames) -> bool,
    ) -> Result<Vec<RunningController>> {
        let already_running = self.running.len();
        for names in CONTROLLERS.into_iter().filter(|names| belongs(*names)) {
            let controller = names.canonical;
            if !self.settings.wants(names) {
                log_skipped_controller(&self.settings, names);
                continue;
            }
            tracing::info!("Starting {controller:?}");
            // A new controller needs an arm here, because each one is constructed differently.
            let built = match names {
                NODE_CONTROLLER => self.builder.node().await,
                NODE_LIFECYCLE_CONTROLLER => self.builder.node_lifecycle().await,
                ROUTE_CONTROLLER => self.builder.route().await,
                SERVICE_CONTROLLER => self.builder.service().await,
                VOLUME_LABEL_CONTROLLER => self.builder.volume_label().await,
                _ => Ok(None),
            };
            let built = built
                .inspect_err(|error| tracing::error!("Error starting {controller:?}: {error:#}"));
            match built.with_context(|| format!("error running controllers: {controller}"))? {
                Some(built) => {
                    self.spawn(built);
                    tracing::info!("Started {controller:?}");
                    self.pause().await;
                }
                None => tracing::warn!("Skipping {controller:?}"),
            }
        }
        Ok(self.running[already_running..].to_vec())
    }

    /// Spawns the loop of a controller and the task that sends its events.
    fn spawn(&mut self, built: BuiltController) {
        let BuiltController {
            names,
            pulse,
            events,
            run,
        } = built;
        self.send_events(events);
        let shutdown = self.shutdown.clone();
        let running = RunningController {
            names,
            pulse,
            has_ended: Arc::default(),
            shutdown,
        };
        let end = RecordedEnd(Arc::clone(&running.has_ended));
        let runs = self.settings.metrics.controller_runs(names.metric);
        self.loops.spawn(async move {
            let _until_the_end = (end, runs);
            run.await;
        });
        self.needed.services |= names == SERVICE_CONTROLLER;
        self.needed.volumes |= names == VOLUME_LABEL_CONTROLLER;
        self.running.push(running);
    }

    /// Waits between the starts of two controllers (APP-35).
    async fn pause(&self) {
        let interval = self.settings.start_interval;
        if !interval.is_zero() {
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = tokio::time::sleep(interval.mul_f64(1.0 + fastrand::f64())) => {}
            }
        }
    }

    /// Sends events until the controllers have ended.
    pub(crate) fn send_events(&self, sender: EventSender) {
        self.tasks.spawn(sender.run(self.stop_events.clone()));
    }

    /// Starts the caches that the controllers need and that are not watched yet. Called last, so that no controller
    /// misses the first objects (APP-19).
    ///
    /// # Errors
    /// If there is no client for the API server.
    pub(crate) async fn watch(&mut self) -> Result<()> {
        let client = self.settings.client(INFORMER_CLIENT).await?;
        let feature = std::env::var("KUBE_FEATURE_WatchListClient").ok();
        // Nodes are watched from the start.
        let guard = self
            .settings
            .options
            .service
            .vanished
            .filter(|_| self.watched.is_none());
        let source = CacheSource {
            identity: self.settings.identity.clone(),
            config: watch_config(feature.as_deref()),
            hold: guard.map(|guard| self.hold(guard, &client)),
            client,
        };
        self.caches.watch(
            &source,
            self.watched,
            self.needed,
            &self.tasks,
            &self.shutdown,
        );
        self.tasks.spawn(end_for_another_cluster(
            self.settings.identity.clone(),
            self.shutdown.clone(),
        ));
        self.watched = Some(self.needed);
        Ok(())
    }

    /// Returns the options of the hold on mass deletions of Nodes (INV-9, D-221), and the observer that records it in
    /// events.
    fn hold(
        &self,
        guard: GuardOptions,
        client: &Client,
    ) -> (HoldOptions, Arc<dyn HoldObserver<Node>>) {
        let (events, sender) = recorder(client.clone(), MANAGER_NAME, Arc::new(SystemClock));
        self.send_events(sender);
        let nodes = self.caches.nodes.clone();
        self.settings
            .metrics
            .count_held("node", move || nodes.held());
        let GuardOptions { share, delay } = guard;
        let options = HoldOptions {
            share,
            smallest: GuardOptions::SMALLEST_LANDSLIDE,
            delay,
        };
        (options, Arc::new(HeldNodes::new(events, delay)))
    }

    /// Stops accepting work and waits up to `timeout` for the work in progress. Returns `false` if a controller did not
    /// stop cleanly: its requests to the cloud may still be under way.
    pub(crate) async fn stop(mut self, timeout: Duration) -> bool {
        self.shutdown.cancel();
        let running = std::mem::take(&mut self.running);
        let has_ended = tokio::time::timeout(timeout, self.finish().wait())
            .await
            .is_ok();
        let given_up: Vec<_> = running
            .iter()
            .filter(|running_controller| running_controller.pulse.gave_up())
            .map(|running_controller| running_controller.names.canonical)
            .collect();
        if !has_ended {
            tracing::warn!(
                "work in progress did not end within {} s; the next leader takes over: {}",
                timeout.as_secs(),
                busy_controllers(&running)
            );
        }
        let is_clean = has_ended && given_up.is_empty();
        if !is_clean {
            tracing::warn!(
                given_up_by = given_up.join(", "),
                "the cloud may still be carrying out abandoned changes; the lease is left to expire, so that no other \
                 replica works on the same objects before"
            );
        }
        is_clean
    }

    /// Returns the handles. No controller can be added afterwards. Event senders end after the controllers.
    pub(crate) fn finish(self) -> Handles {
        let Self {
            tasks,
            loops,
            shutdown,
            stop_events,
            caches,
            ..
        } = self;
        loops.close();
        tasks.spawn(async move {
            shutdown.cancelled().await;
            loops.wait().await;
            stop_events.cancel();
        });
        tasks.close();
        Handles { tasks, caches }
    }
}

/// Name of the client of the caches.
pub(crate) const INFORMER_CLIENT: &str = "shared-informers";

fn log_skipped_controller(settings: &Settings, names: ControllerNames) {
    let controller = names.canonical;
    if settings.controllers.includes(names) {
        tracing::info!("Skipping {controller:?}: --configure-cloud-routes=false");
    } else if Selection::default().includes(names) {
        tracing::warn!("{controller:?} is disabled");
    }
}

/// Stops the controllers if the API server belongs to another cluster. The fence, which permits writes, is closed
/// before.
async fn end_for_another_cluster(identity: ClusterIdentity, shutdown: CancellationToken) {
    tokio::select! {
        _ = identity.refused() => shutdown.cancel(),
        () = shutdown.cancelled() => {}
    }
}

/// Records the end of a loop, including by a panic.
struct RecordedEnd(Arc<AtomicBool>);

impl Drop for RecordedEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
