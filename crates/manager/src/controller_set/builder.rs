//! The construction of each controller, with its own client, event recorder and loop (INV-6).

use std::sync::Arc;

use anyhow::Result;
use cloud_provider::names::{
    ControllerNames, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER,
};
use cloud_provider::{CloudProvider, Cluster};
use controllers::{
    ConstructionError, ControllerContext, NodeController, NodeLifecycleController, RouteController,
    ServiceController, VolumeLabelController,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use runtime::cache::Resync;
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, EventSender, recorder};
use runtime::pulse::Pulse;
use runtime::queue::QueueMetrics;
use tokio_util::sync::CancellationToken;

use super::{INFORMER_CLIENT, Settings, SharedCaches};
use crate::commands::orphans::OrphanCounter;

/// Builds controllers from the settings, the provider and the shared caches.
pub(super) struct ControllerBuilder {
    settings: Settings,
    provider: Arc<dyn CloudProvider>,
    cluster: Cluster,
    caches: SharedCaches,
    shutdown: CancellationToken,
    resync: Resync,
}

/// Arguments that every controller's constructor takes, and the task that sends the controller's events.
struct ControllerParts {
    context: ControllerContext,
    pulse: Pulse,
    events: EventRecorder,
    sender: EventSender,
}

/// A controller that does not run yet.
pub(super) struct BuiltController {
    pub(super) names: ControllerNames,
    /// Progress of the controller's work.
    pub(super) pulse: Pulse,
    /// Task that sends the controller's events.
    pub(super) events: EventSender,
    /// Loop of the controller, which ends after the shutdown.
    pub(super) run: BoxFuture<'static, ()>,
}

impl ControllerBuilder {
    pub(super) fn new(
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
        }
    }

    /// Builds the cloud-node-controller. Returns `None` if the provider does not support instances.
    pub(super) async fn node(&self) -> Result<Option<BuiltController>> {
        let ControllerParts {
            context,
            pulse,
            events,
            sender,
        } = self.parts(NODE_CONTROLLER).await?;
        let nodes = self.caches.nodes.clone();
        let provider = Arc::clone(&self.provider);
        if provider.instances().is_some() {
            self.settings
                .metrics
                .count_nodes(nodes, move |node| provider.owns_node(node));
        }
        let controller = NodeController::new(
            context,
            &self.settings.options,
            events,
            self.settings.metrics.nodes(),
        );
        let Some(controller) = supported(NODE_CONTROLLER, controller) else {
            return Ok(None);
        };
        let run = controller
            .run(self.queues(), self.resync, self.shutdown.clone())
            .boxed();
        Ok(Some(BuiltController {
            names: NODE_CONTROLLER,
            pulse,
            events: sender,
            run,
        }))
    }

    /// Builds the cloud-node-lifecycle-controller, if the provider supports it.
    pub(super) async fn node_lifecycle(&self) -> Result<Option<BuiltController>> {
        let ControllerParts {
            context,
            pulse,
            events,
            sender,
        } = self.parts(NODE_LIFECYCLE_CONTROLLER).await?;
        let options = &self.settings.options;
        let metrics = self.settings.metrics.lifecycle();
        let controller = NodeLifecycleController::new(context, options, events, metrics);
        let Some(controller) = supported(NODE_LIFECYCLE_CONTROLLER, controller) else {
            return Ok(None);
        };
        let run = controller.run(self.shutdown.clone()).boxed();
        Ok(Some(BuiltController {
            names: NODE_LIFECYCLE_CONTROLLER,
            pulse,
            events: sender,
            run,
        }))
    }

    /// Builds the node-route-controller, if the provider supports it.
    pub(super) async fn route(&self) -> Result<Option<BuiltController>> {
        let ControllerParts {
            context,
            pulse,
            events,
            sender,
        } = self.parts(ROUTE_CONTROLLER).await?;
        let cluster = self.cluster.clone();
        let options = &self.settings.options;
        let controller = RouteController::new(
            context,
            cluster,
            options,
            events,
            self.settings.metrics.routes(),
        );
        let Some(controller) = supported(ROUTE_CONTROLLER, controller) else {
            return Ok(None);
        };
        let run = controller
            .run(self.queues(), self.resync, self.shutdown.clone())
            .boxed();
        Ok(Some(BuiltController {
            names: ROUTE_CONTROLLER,
            pulse,
            events: sender,
            run,
        }))
    }

    /// Builds the service-lb-controller, if the provider supports it.
    pub(super) async fn service(&self) -> Result<Option<BuiltController>> {
        let ControllerParts {
            context,
            pulse,
            events,
            sender,
        } = self.parts(SERVICE_CONTROLLER).await?;
        let cluster = self.cluster.clone();
        let services = self.caches.services.clone();
        let options = &self.settings.options;
        if self.provider.load_balancers().is_some() {
            self.settings
                .metrics
                .count_services(services.clone(), options.service.clone());
            let orphans = Arc::new(OrphanCounter::new(
                Arc::clone(&self.provider),
                cluster.clone(),
                services.clone(),
            ));
            tokio::spawn(Arc::clone(&orphans).watch(self.shutdown.clone()));
            self.settings
                .metrics
                .count_orphans("load_balancer", move || orphans.count());
        }
        let metrics = self.settings.metrics.services();
        let controller =
            ServiceController::new(context, services, cluster, options, events, metrics);
        // Uses the process's identity, because a controller's own account may lack the permission to read the
        // namespace.
        let informers = self.settings.client(INFORMER_CLIENT).await?;
        let controller = controller.map(|controller| {
            self.settings
                .metrics
                .count_held("service", controller.count_vanished());
            let controller = controller.retried_on(Arc::clone(&self.settings.credential_accepted));
            controller.of_cluster(self.settings.identity.clone(), informers)
        });
        let Some(controller) = supported(SERVICE_CONTROLLER, controller) else {
            return Ok(None);
        };
        let run = controller
            .run(self.queues(), self.queues(), self.shutdown.clone())
            .boxed();
        Ok(Some(BuiltController {
            names: SERVICE_CONTROLLER,
            pulse,
            events: sender,
            run,
        }))
    }

    /// Builds the persistent-volume-label-controller, if the provider supports it.
    pub(super) async fn volume_label(&self) -> Result<Option<BuiltController>> {
        let ControllerParts {
            context,
            pulse,
            events,
            sender,
        } = self.parts(VOLUME_LABEL_CONTROLLER).await?;
        let controller = VolumeLabelController::new(context, self.caches.volumes.clone(), events);
        let Some(controller) = supported(VOLUME_LABEL_CONTROLLER, controller) else {
            return Ok(None);
        };
        let run = controller
            .run(self.queues(), self.resync, self.shutdown.clone())
            .boxed();
        Ok(Some(BuiltController {
            names: VOLUME_LABEL_CONTROLLER,
            pulse,
            events: sender,
            run,
        }))
    }

    fn queues(&self) -> Arc<dyn QueueMetrics> {
        self.settings.metrics.queues()
    }

    async fn parts(&self, names: ControllerNames) -> Result<ControllerParts> {
        let client = self
            .settings
            .client_of_its_own(names.client_identity)
            .await?;
        let clock = Arc::new(SystemClock);
        let (events, sender) = recorder(client.clone(), names.event_source, clock.clone());
        let nodes = self.caches.nodes.clone();
        let provider = Arc::clone(&self.provider);
        let pulse = Pulse::default();
        let context = ControllerContext {
            client,
            nodes,
            provider,
            clock,
            pulse: pulse.clone(),
        };
        Ok(ControllerParts {
            context,
            pulse,
            events,
            sender,
        })
    }
}

/// Returns the controller, or logs that the provider does not support it.
fn supported<C>(
    names: ControllerNames,
    controller: Result<C, ConstructionError>,
) -> Option<Arc<C>> {
    let logged = |error: &ConstructionError| {
        tracing::warn!(controller = names.canonical, %error, "going on without this controller");
    };
    controller.inspect_err(logged).ok().map(Arc::new)
}
