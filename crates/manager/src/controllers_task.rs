//! The controllers as one running thing: caches, events, loops.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cloud_provider::names::{
    CONTROLLERS, ControllerNames, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
    VOLUME_LABEL_CONTROLLER,
};
use cloud_provider::{CloudProvider, Cluster, Node, Service};
use controllers::Options;
use runtime::cache::Cache;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caches::{Needed, SharedCaches};
pub use crate::clients::Clients;
use crate::selection::Selection;
use crate::starter::Starter;

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
    let caches = SharedCaches::new();
    provider.set_caches(Arc::new(caches.clone()));
    let starter = Starter::new(settings, provider, cluster, caches.clone(), shutdown.clone());
    let mut needed = Needed::default();
    for names in CONTROLLERS {
        if !settings.wants(names) {
            say_left_out(settings, names);
            continue;
        }
        // A closed list: each has its own way of being made.
        match names {
            NODE_CONTROLLER => _ = starter.node().await?,
            NODE_LIFECYCLE_CONTROLLER => _ = starter.node_lifecycle().await?,
            ROUTE_CONTROLLER => _ = starter.route().await?,
            SERVICE_CONTROLLER => needed.services = starter.service().await?,
            VOLUME_LABEL_CONTROLLER => needed.volumes = starter.volume_label().await?,
            _ => {}
        }
    }
    // Last, so that nobody misses the first objects.
    let client = starter.client("shared-informers").await?;
    let tasks = starter.finish();
    caches.watch(&client, needed, &tasks, &shutdown);
    tasks.close();
    Ok(Handles { tasks, caches })
}

fn say_left_out(settings: &Settings, names: ControllerNames) {
    let controller = names.canonical;
    if settings.controllers.includes(names) {
        tracing::info!(controller, "does not run: --configure-cloud-routes=false");
    } else if Selection::default().includes(names) {
        tracing::warn!(controller, "does not run: it is disabled by --controllers");
    }
}
