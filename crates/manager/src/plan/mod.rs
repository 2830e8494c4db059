//! `cloud-controller-manager plan`: what the controllers would change, without changing it (P-31).
//!
//! One paged list of each kind is read from Kubernetes, the provider is asked its questions (look-up, plan, list), and the
//! controllers' own decisions are applied to the answers. Services and routes are planned as if the Nodes were already
//! what they are going to be, so that a fresh cluster's plan is whole.
//!
//! Nothing is changed: the Kubernetes client refuses whatever is not a read before it is sent, and of the provider
//! nothing but reads is called.

mod ask;
mod command;
mod nodes;
mod output;
mod read;
mod report;
mod routes;
mod services;
mod volumes;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use cloud_provider::names::{SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER};
use cloud_provider::{CloudProvider, Cluster, Node, PersistentVolume, Service};
use kube::Client;
use runtime::cache::{Cache, Cached};

use crate::caches::SharedCaches;
use crate::controllers_task::Settings;
pub(crate) use command::main;
pub use output::{JSON_VERSION, json, render, text};
pub(crate) use read::list;
pub use report::{Key, Kind, ObjectPlan, Outcome, Report, Side, Step, Totals};

/// The name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "plan";

/// Plans for the whole cluster. The provider is initialised; it is given caches that hold what was read.
///
/// # Errors
/// If there is no client for the API server, or the Nodes cannot be read. What goes wrong with anything else is part of
/// the report.
pub async fn plan(settings: &Settings, provider: &dyn CloudProvider, cluster: &Cluster) -> Result<Report> {
    let client = read_only_client(settings, SUBCOMMAND).await?;
    let mut report = Report::new(provider.name(), cluster);
    let caches = SharedCaches {
        nodes: Cache::with(read::list::<Node>(&client).await.map_err(|error| anyhow!(error))?),
        services: filled::<Service>(&client, settings.wants(SERVICE_CONTROLLER), &mut report).await,
        volumes: filled::<PersistentVolume>(&client, settings.wants(VOLUME_LABEL_CONTROLLER), &mut report).await,
    };
    provider.set_caches(Arc::new(caches.clone()));
    let nodes = nodes::plan(settings, provider, &caches.nodes.list(), &mut report).await;
    show(&caches.nodes, &nodes);
    routes::plan(settings, provider, cluster, &nodes, &mut report).await;
    services::plan(settings, provider, cluster, &nodes, &caches.services.list(), &mut report).await;
    volumes::plan(settings, provider, &caches.volumes.list(), &mut report).await;
    Ok(report)
}

/// A client of which a write never leaves this process.
pub(crate) async fn read_only_client(settings: &Settings, component: &str) -> Result<Client> {
    Ok(read::read_only(settings.client(component).await?))
}

/// A cache of what there is, if it is wanted and can be read.
async fn filled<T: Cached>(client: &Client, wanted: bool, report: &mut Report) -> Cache<T> {
    if !wanted {
        return Cache::with([]);
    }
    match read::list::<T>(client).await {
        Ok(objects) => Cache::with(objects),
        Err(error) => {
            report.errors.push(error);
            Cache::with([])
        }
    }
}

/// Makes the provider see the Nodes as they are going to be.
fn show(cache: &Cache<Node>, nodes: &[Arc<Node>]) {
    for before in cache.list() {
        match nodes.iter().find(|after| after.name == before.name) {
            Some(after) if Arc::ptr_eq(after, &before) => {}
            Some(after) => {
                // A cache takes no object of a version that it has.
                cache.remove(&before.name);
                cache.insert(Node::clone(after));
            }
            None => cache.remove(&before.name),
        }
    }
}
