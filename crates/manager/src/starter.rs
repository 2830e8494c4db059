//! Creates each controller and starts its loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use cloud_provider::names::{
    ControllerNames, MANAGER_NAME, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
    VOLUME_LABEL_CONTROLLER,
};
use cloud_provider::{CloudProvider, Cluster, Node};
use controllers::options::GuardOptions;
use controllers::{
    ConstructionError, ControllerContext, NodeController, NodeLifecycleController, RouteController, ServiceController,
    VolumeLabelController,
};
use kube::Client;
use runtime::cache::{HoldObserver, HoldOptions, Resync};
use runtime::clock::SystemClock;
use runtime::cluster::ClusterIdentity;
use runtime::events::{EventRecorder, EventSender, recorder};
use runtime::pulse::Pulse;
use runtime::queue::QueueMetrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caches::{Needed, SharedCaches, Source, watch_config};
use crate::controllers_task::Settings;
use crate::held_nodes::HeldNodes;
use crate::orphans::Orphans;

/// Starts controllers, each with its own client, event recorder and loop (INV-6).
pub(crate) struct Starter {
    settings: Settings,
    provider: Arc<dyn CloudProvider>,
    cluster: Cluster,
    caches: SharedCaches,
    shutdown: CancellationToken,
    resync: Resync,
    /// Tasks of controllers, caches and event senders.
    tasks: TaskTracker,
    /// Loops of the controllers, which are part of `tasks`.
    loops: TaskTracker,
    /// Token that is cancelled only after the controllers have ended, so that events about their last objects are sent.
    stop_events: CancellationToken,
}

/// Arguments that every controller's constructor takes, and the task that sends the controller's events.
struct Parts {
    context: ControllerContext,
    pulse: Pulse,
    events: EventRecorder,
    sender: EventSender,
}

/// A controller whose loop runs.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) names: ControllerNames,
    /// Progress of the controller's work.
    pub(crate) pulse: Pulse,
    /// If set, the controller's loop has ended.
    pub(crate) ended: Arc<AtomicBool>,
}

impl Starter {
    pub(crate) fn new(
        settings: Settings,
        provider: Arc<dyn CloudProvider>,
        cluster: Cluster,
        caches: SharedCaches,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            resync: Resync::jittered(settings.min_resync_period),
            settings,
            provider,
            cluster,
            caches,
            shutdown,
            tasks: TaskTracker::new(),
            loops: TaskTracker::new(),
            stop_events: CancellationToken::new(),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits between the starts of two controllers (APP-35).
    pub(crate) async fn pause(&self) {
        let interval = self.settings.start_interval;
        if !interval.is_zero() {
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = tokio::time::sleep(interval.mul_f64(1.0 + fastrand::f64())) => {}
            }
        }
    }

    /// Starts the cloud-node-controller. Returns `None` if the provider does not support instances.
    pub(crate) async fn node(&self) -> Result<Option<Started>> {
        let Parts { context, pulse, events, sender } = self.parts(NODE_CONTROLLER).await?;
        let (nodes, provider) = (self.caches.nodes.clone(), Arc::clone(&self.provider));
        if provider.instances().is_some() {
            self.settings.metrics.count_nodes(nodes, move |node| provider.owns_node(node));
        }
        let made = NodeController::new(context, &self.settings.options, events, self.settings.metrics.nodes());
        Ok(self.run(NODE_CONTROLLER, pulse, made, sender, |controller| {
            controller.run(self.queues(), self.resync, self.shutdown.clone())
        }))
    }

    /// Starts the cloud-node-lifecycle-controller, if the provider supports it.
    pub(crate) async fn node_lifecycle(&self) -> Result<Option<Started>> {
        let Parts { context, pulse, events, sender } = self.parts(NODE_LIFECYCLE_CONTROLLER).await?;
        let made =
            NodeLifecycleController::new(context, &self.settings.options, events, self.settings.metrics.lifecycle());
        Ok(self.run(NODE_LIFECYCLE_CONTROLLER, pulse, made, sender, |controller| controller.run(self.shutdown.clone())))
    }

    /// Starts the node-route-controller, if the provider supports it.
    pub(crate) async fn route(&self) -> Result<Option<Started>> {
        let Parts { context, pulse, events, sender } = self.parts(ROUTE_CONTROLLER).await?;
        let (cluster, options) = (self.cluster.clone(), &self.settings.options);
        let made = RouteController::new(context, cluster, options, events, self.settings.metrics.routes());
        Ok(self.run(ROUTE_CONTROLLER, pulse, made, sender, |controller| {
            controller.run(self.queues(), self.resync, self.shutdown.clone())
        }))
    }

    /// Starts the service-lb-controller, if the provider supports it.
    pub(crate) async fn service(&self) -> Result<Option<Started>> {
        let Parts { context, pulse, events, sender } = self.parts(SERVICE_CONTROLLER).await?;
        let (cluster, services, options) = (self.cluster.clone(), self.caches.services.clone(), &self.settings.options);
        if self.provider.load_balancers().is_some() {
            self.settings.metrics.count_services(services.clone(), options.service.clone());
            let orphans = Arc::new(Orphans::new(Arc::clone(&self.provider), cluster.clone(), services.clone()));
            tokio::spawn(Arc::clone(&orphans).watch(self.shutdown.clone()));
            self.settings.metrics.count_orphans("load_balancer", move || orphans.count());
        }
        let made =
            ServiceController::new(context, services, cluster, options, events, self.settings.metrics.services());
        // Uses the process's identity, because a controller's own account may lack the permission to read the
        // namespace.
        let informers = self.client("shared-informers").await?;
        let made = made.map(|controller| {
            self.settings.metrics.count_held("service", controller.count_vanished());
            let controller = controller.retried_on(Arc::clone(&self.settings.credential_accepted));
            controller.of_cluster(self.settings.identity.clone(), informers)
        });
        Ok(self.run(SERVICE_CONTROLLER, pulse, made, sender, |controller| {
            controller.run(self.queues(), self.queues(), self.shutdown.clone())
        }))
    }

    /// Starts the persistent-volume-label-controller, if the provider supports it.
    pub(crate) async fn volume_label(&self) -> Result<Option<Started>> {
        let Parts { context, pulse, events, sender } = self.parts(VOLUME_LABEL_CONTROLLER).await?;
        let made = VolumeLabelController::new(context, self.caches.volumes.clone(), events);
        Ok(self.run(VOLUME_LABEL_CONTROLLER, pulse, made, sender, |controller| {
            controller.run(self.queues(), self.resync, self.shutdown.clone())
        }))
    }

    fn queues(&self) -> Arc<dyn QueueMetrics> {
        self.settings.metrics.queues()
    }

    pub(crate) async fn client(&self, component: &str) -> Result<Client> {
        self.settings.client(component).await
    }

    async fn parts(&self, names: ControllerNames) -> Result<Parts> {
        let client = self.settings.client_of_its_own(names.client_identity).await?;
        let clock = Arc::new(SystemClock);
        let (events, sender) = recorder(client.clone(), names.event_source, clock.clone());
        let (nodes, provider) = (self.caches.nodes.clone(), Arc::clone(&self.provider));
        let pulse = Pulse::default();
        let context = ControllerContext { client, nodes, provider, clock, pulse: pulse.clone() };
        Ok(Parts { context, pulse, events, sender })
    }

    /// Starts a controller's loop, or logs that the provider does not support the controller.
    fn run<C, F: Future<Output = ()> + Send + 'static>(
        &self,
        names: ControllerNames,
        pulse: Pulse,
        made: Result<C, ConstructionError>,
        sender: EventSender,
        run: impl FnOnce(Arc<C>) -> F,
    ) -> Option<Started> {
        match made {
            Ok(controller) => {
                self.send_events(sender);
                let started = Started { names, pulse, ended: Arc::default() };
                let runs = self.settings.metrics.controller_runs(names.metric);
                let (run, end) = (run(Arc::new(controller)), End(Arc::clone(&started.ended)));
                self.loops.spawn(async move {
                    let _end = (end, runs);
                    run.await;
                });
                Some(started)
            }
            Err(error) => {
                tracing::warn!(controller = names.canonical, %error, "going on without this controller");
                None
            }
        }
    }

    /// Sends events until the controllers have ended.
    pub(crate) fn send_events(&self, sender: EventSender) {
        self.tasks.spawn(sender.run(self.stop_events.clone()));
    }

    /// Starts the caches that are needed and not `watched` yet.
    pub(crate) fn watch(&self, client: Client, caches: &SharedCaches, watched: Option<Needed>, needed: Needed) {
        let feature = std::env::var("KUBE_FEATURE_WatchListClient").ok();
        let source = Source {
            identity: self.settings.identity.clone(),
            config: watch_config(feature.as_deref()),
            // Nodes are watched from the start.
            hold: self
                .settings
                .options
                .service
                .vanished
                .filter(|_| watched.is_none())
                .map(|guard| self.hold(guard, &client)),
            client,
        };
        caches.watch(&source, watched, needed, &self.tasks, &self.shutdown);
        self.tasks.spawn(end_for_another_cluster(self.settings.identity.clone(), self.shutdown.clone()));
    }

    /// Returns the options of the hold on mass deletions of Nodes (INV-9, D-221), and the observer that records it in
    /// events.
    fn hold(&self, guard: GuardOptions, client: &Client) -> (HoldOptions, Arc<dyn HoldObserver<Node>>) {
        let (events, sender) = recorder(client.clone(), MANAGER_NAME, Arc::new(SystemClock));
        self.send_events(sender);
        let nodes = self.caches.nodes.clone();
        self.settings.metrics.count_held("node", move || nodes.held());
        let GuardOptions { share, delay } = guard;
        let options = HoldOptions { share, smallest: GuardOptions::SMALLEST_LANDSLIDE, delay };
        (options, Arc::new(HeldNodes::new(events, delay)))
    }

    /// Returns all tasks. Event senders end after the controllers.
    pub(crate) fn finish(self) -> TaskTracker {
        let Self { tasks, loops, stop_events, shutdown, .. } = self;
        loops.close();
        tasks.spawn(async move {
            shutdown.cancelled().await;
            loops.wait().await;
            stop_events.cancel();
        });
        tasks.close();
        tasks
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
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
