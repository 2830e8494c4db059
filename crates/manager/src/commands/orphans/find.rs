//! The search for orphans: reads the cloud first, then Kubernetes.

use cloud_provider::{CloudProvider, Cluster, OwnedResource, Owner};
use jiff::Timestamp;
use kube::Client;

use super::judge::{Owners, reason_to_keep};
use super::report::{Orphan, OrphanReport, OrphanState};
use crate::commands::ask;

/// Number of resources from which a majority without owners counts as a mass deletion, for example after a restore from
/// an old backup.
const MASS: usize = 4;

/// Lists resources with owner tags of the cluster whose owner no longer exists. `client` is used for reads only.
pub async fn find(
    client: &Client,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    now: Timestamp,
) -> OrphanReport {
    let mut report = OrphanReport::new(provider.name(), cluster, now);
    let owned = owned(provider, cluster, &mut report).await;
    if owned.is_empty() {
        return report;
    }
    // Read after the cloud: an owner that is missing now was deleted, and is not just being created.
    let owners = match Owners::read(client, owned.iter().any(is_route)).await {
        Ok(owners) => owners,
        Err(error) => {
            report.errors.push(error);
            return report;
        }
    };
    let all = owned.len();
    for resource in owned
        .into_iter()
        .filter(|resource| !owners.exists(&resource.owner))
    {
        match whole(provider, cluster, resource, &owners).await {
            Ok(Some(resource)) => {
                let reason = reason_to_keep(&resource, cluster, now);
                let state = reason.map_or(OrphanState::Deletable, OrphanState::Kept);
                report.orphans.push(Orphan { resource, state });
            }
            Ok(None) => {}
            Err(error) => report.errors.push(error),
        }
    }
    report.are_too_many = all >= MASS && report.orphans.len() * 2 > all;
    if report.are_too_many {
        report.notes.push(format!(
            "{} of {all} resources with owner tags of this cluster have no owner; if the API server was restored from a backup, \
             bring the Services back first",
            report.orphans.len()
        ));
    }
    report.orphans.sort_by(|a, b| {
        let key = |orphan: &Orphan| {
            (
                orphan.resource.kind,
                orphan.resource.created,
                orphan.resource.id.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    report
}

/// Lists the resources in the cloud that have the cluster's owner tags.
async fn owned(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    report: &mut OrphanReport,
) -> Vec<OwnedResource> {
    let name = provider.name();
    let mut owned = Vec::new();
    match provider.load_balancers() {
        None => report.notes.push(format!(
            "cloud provider {name:?} runs no load balancers with this configuration"
        )),
        // The call is inside the future, so that a panic before the first await is caught too.
        Some(balancers) => match ask(name, async { balancers.owned(cluster).await }).await {
            Ok(found) => owned.extend(found),
            Err(error) if error.is_not_implemented() => {
                report.is_supported = false;
                report.errors.push(format!(
                    "cloud provider {name:?} cannot list load balancers by their owner tags"
                ));
            }
            Err(error) => report
                .errors
                .push(format!("cannot list the cloud's load balancers: {error}")),
        },
    }
    if let Some(routes) = provider.routes() {
        match ask(name, async { routes.owned(cluster).await }).await {
            Ok(found) => owned.extend(found),
            Err(error) => report
                .errors
                .push(format!("cannot list the cloud's routes: {error}")),
        }
    }
    owned
}

/// Reads the details that the list did not include; returns `None` if the resource no longer exists.
async fn whole(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    resource: OwnedResource,
    owners: &Owners,
) -> Result<Option<OwnedResource>, String> {
    match provider.load_balancers() {
        Some(balancers) if !is_route(&resource) => {
            let read = async {
                balancers
                    .read_owned(cluster, &resource.id, &owners.services)
                    .await
            };
            let read = ask(provider.name(), read)
                .await
                .map_err(|error| format!("cannot read {resource}: {error}"))?;
            Ok(read.filter(|read| !owners.exists(&read.owner)))
        }
        _ => Ok(Some(resource)),
    }
}

/// Returns `true` if the resource is a route, whose owner is a Node.
pub(super) fn is_route(resource: &OwnedResource) -> bool {
    matches!(resource.owner, Owner::PodCidr(_))
}
