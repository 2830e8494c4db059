//! The controllers as one running thing: caches, events, loops.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cloud_provider::names::{NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER};
use cloud_provider::{Caches, CloudProvider, Node, Service};
use controllers::lifecycle::NoLifecycleMetrics;
use controllers::node::NoNodeMetrics;
use controllers::{ControllerContext, NodeController, NodeLifecycleController, Options};
use kube::Api;
use runtime::cache::{Cache, Resync, WatchConfig, watch};
use runtime::clock::SystemClock;
use runtime::events::recorder;
use runtime::queue::NoMetrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::clients::Clients;

/// What the controllers are started with.
#[derive(Clone)]
pub struct Settings {
    /// How they behave.
    pub options: Options,
    /// How they reach the Kubernetes API.
    pub clients: Clients,
    /// `--min-resync-period`: every object is looked at again after this long, times a factor from 1 to 2 (RT-20).
    pub min_resync_period: Duration,
}

/// Running controllers.
pub struct Handles {
    tasks: TaskTracker,
    nodes: Cache<Node>,
}

impl Handles {
    /// The shared cache of Nodes.
    #[must_use]
    pub fn nodes(&self) -> &Cache<Node> {
        &self.nodes
    }

    /// Returns when everything has ended after the shutdown: keys in work are finished, queued events are sent.
    pub async fn wait(self) {
        self.tasks.wait().await;
    }
}

/// The caches as a provider sees them (PROV-20).
struct SharedCaches(Cache<Node>);

impl Caches for SharedCaches {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.0.list()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.0.get(name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

/// Starts the controllers for an initialised provider; returns at once. They run until `shutdown`.
///
/// # Errors
/// If there is no client for the API server.
pub async fn start_controllers(
    settings: &Settings,
    provider: Arc<dyn CloudProvider>,
    shutdown: CancellationToken,
) -> Result<Handles> {
    let (tasks, loops) = (TaskTracker::new(), TaskTracker::new());
    // Ends only after the controllers have: what they say of their last keys is sent too.
    let stop_events = CancellationToken::new();
    let nodes: Cache<Node> = Cache::new();
    provider.set_caches(Arc::new(SharedCaches(nodes.clone())));
    let client = |component: &'static str| async move {
        settings.clients.client(component).await.with_context(|| format!("no Kubernetes client for {component}"))
    };

    let context = |client| ControllerContext {
        client,
        nodes: nodes.clone(),
        provider: Arc::clone(&provider),
        clock: Arc::new(SystemClock),
    };
    let resync = Resync::jittered(settings.min_resync_period);

    let names = NODE_CONTROLLER;
    let api = client(names.client_identity).await?;
    let (events, sender) = recorder(api.clone(), names.event_source, Arc::new(SystemClock));
    match NodeController::new(context(api), &settings.options, events, Arc::new(NoNodeMetrics)) {
        Ok(controller) => {
            tasks.spawn(sender.run(stop_events.clone()));
            loops.spawn(Arc::new(controller).run(Arc::new(NoMetrics), resync, shutdown.clone()));
        }
        Err(error) => tracing::warn!(controller = names.canonical, %error, "going on without this controller"),
    }

    let names = NODE_LIFECYCLE_CONTROLLER;
    let api = client(names.client_identity).await?;
    let (events, sender) = recorder(api.clone(), names.event_source, Arc::new(SystemClock));
    match NodeLifecycleController::new(context(api), &settings.options, events, Arc::new(NoLifecycleMetrics)) {
        Ok(controller) => {
            tasks.spawn(sender.run(stop_events.clone()));
            loops.spawn(Arc::new(controller).run(shutdown.clone()));
        }
        Err(error) => tracing::warn!(controller = names.canonical, %error, "going on without this controller"),
    }

    // Last, so that nobody misses the first objects.
    let api = Api::all(client("shared-informers").await?);
    tasks.spawn(watch::<Node>(api, WatchConfig::default(), nodes.clone(), shutdown.clone()));
    loops.close();
    tasks.spawn(async move {
        shutdown.cancelled().await;
        loops.wait().await;
        stop_events.cancel();
    });
    tasks.close();
    Ok(Handles { tasks, nodes })
}
