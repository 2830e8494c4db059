//! `cloud-controller-manager plan`: shows the changes that the controllers would make, without making them (P-31).
//!
//! `plan` lists each kind once from Kubernetes, page by page, reads from the provider (look-ups, plans, lists), and
//! applies the controllers' own decisions to the answers. Services and routes are planned for the Nodes as they will
//! be, so that the plan of a new cluster is complete.
//!
//! `plan` is read-only: its Kubernetes client refuses requests that are not reads before they are sent, and the
//! provider is only read from.

mod command;
mod nodes;
mod output;
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

use crate::commands::{list, read_only_client};
use crate::controller_set::{Settings, SharedCaches};
pub(crate) use command::main;
pub(crate) use nodes::NodeAnswers;
pub use output::{JSON_VERSION, json, text};
pub use report::{Key, Kind, ObjectPlan, Outcome, Report, Side, Step, Totals};
pub(crate) use services::{RUN_ELSEWHERE, irregular_balancers, restores_balancer};

/// Name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "plan";

/// Plans for the whole cluster. The provider is initialized and gets caches that hold the listed objects.
///
/// # Errors
/// If there is no client for the API server, or if the Nodes cannot be listed. Other errors are part of the report.
pub async fn plan(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
) -> Result<Report> {
    let client = read_only_client(settings, SUBCOMMAND).await?;
    let mut report = Report::new(provider.name(), cluster);
    let caches = SharedCaches {
        nodes: Cache::with(
            list::<Node>(&client)
                .await
                .map_err(|error| anyhow!(error))?,
        ),
        services: filled::<Service>(&client, settings.wants(SERVICE_CONTROLLER), &mut report).await,
        volumes: filled::<PersistentVolume>(
            &client,
            settings.wants(VOLUME_LABEL_CONTROLLER),
            &mut report,
        )
        .await,
    };
    provider.set_caches(Arc::new(caches.clone()));
    let nodes = plan_nodes(settings, provider, &caches.nodes, &mut report)
        .await
        .0;
    routes::plan(settings, provider, cluster, &nodes, &mut report).await;
    let services = caches.services.list();
    services::plan(settings, provider, cluster, &nodes, &services, &mut report).await;
    services::note_orphans(settings, provider, cluster, &services, &mut report);
    volumes::plan(settings, provider, &caches.volumes.list(), &mut report).await;
    Ok(report)
}

/// Plans for the Nodes of a cache, and updates the cache that the provider sees to the Nodes as they will be.
async fn plan_nodes(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cache: &Cache<Node>,
    report: &mut Report,
) -> (Vec<Arc<Node>>, Option<NodeAnswers>) {
    let before = cache.list();
    let looked_up = nodes::ask_cloud(settings, provider, &before, report).await;
    let after = nodes::plan(settings, provider, &before, looked_up.as_ref(), report);
    show(cache, &after);
    (after, looked_up)
}

/// Plans for one Service, after the Nodes. The provider must have the caches.
pub(crate) async fn plan_service(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    nodes: &Cache<Node>,
    service: &Arc<Service>,
) -> Report {
    let mut report = Report::new(provider.name(), cluster);
    let (nodes, _) = plan_nodes(settings, provider, nodes, &mut report).await;
    // Only the Service matters here; problems of Nodes are explained with the Nodes.
    report.objects.clear();
    services::plan(
        settings,
        provider,
        cluster,
        &nodes,
        std::slice::from_ref(service),
        &mut report,
    )
    .await;
    report
}

/// Plans for the Nodes and their routes, and returns the cloud's answer about each Node. The provider must have the
/// caches.
pub(crate) async fn plan_nodes_and_routes(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    nodes: &Cache<Node>,
) -> (Report, Option<NodeAnswers>) {
    let mut report = Report::new(provider.name(), cluster);
    let (after, looked_up) = plan_nodes(settings, provider, nodes, &mut report).await;
    routes::plan(settings, provider, cluster, &after, &mut report).await;
    (report, looked_up)
}

/// Returns a cache of all objects of a kind; empty if the kind is not wanted or cannot be listed.
async fn filled<T: Cached>(client: &Client, wanted: bool, report: &mut Report) -> Cache<T> {
    if !wanted {
        return Cache::with([]);
    }
    match list::<T>(client).await {
        Ok(objects) => Cache::with(objects),
        Err(error) => {
            report.errors.push(error);
            Cache::with([])
        }
    }
}

/// Updates the cache that the provider sees to the Nodes as they will be.
fn show(cache: &Cache<Node>, nodes: &[Arc<Node>]) {
    for before in cache.list() {
        match nodes.iter().find(|after| after.name == before.name) {
            Some(after) if Arc::ptr_eq(after, &before) => {}
            Some(after) => {
                // A cache rejects an object with a version that it has.
                cache.remove(&before.name);
                cache.insert(Node::clone(after));
            }
            None => cache.remove(&before.name),
        }
    }
}
