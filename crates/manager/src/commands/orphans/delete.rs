//! The deletion of orphans, one after another.

use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, OwnedResource, RemovalOutcome};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::find::is_route;
use super::judge::Owners;
use super::report::{Orphan, OrphanReport, OrphanState};
use crate::commands::ask_within;
use crate::kubernetes::read_cluster;

/// Timeout of one deletion. Clouds take minutes to delete some load balancers.
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Deletes the deletable orphans of a report one after the other, until the first failure or `stop`. Deletes nothing if
/// the report has errors. `client` is used for reads only; `ended` is called with each orphan and its result.
pub async fn delete(
    client: &Client,
    provider: &dyn CloudProvider,
    report: &mut OrphanReport,
    stop: &CancellationToken,
    mut ended: impl FnMut(&Orphan),
) {
    if !report.errors.is_empty() {
        return;
    }
    let cluster = report.cluster.clone();
    let mut is_over = false;
    for orphan in report
        .orphans
        .iter_mut()
        .filter(|orphan| orphan.state == OrphanState::Deletable)
    {
        is_over |= stop.is_cancelled();
        orphan.state = match is_over {
            true => OrphanState::NotTried,
            false => delete_one(client, provider, &cluster, &orphan.resource).await,
        };
        is_over |= matches!(orphan.state, OrphanState::Failed(_));
        ended(orphan);
    }
}

async fn delete_one(
    client: &Client,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    resource: &OwnedResource,
) -> OrphanState {
    match check(client, cluster, resource).await {
        Ok(owners) if owners.exists(&resource.owner) => {
            OrphanState::Kept("its owner exists by now".to_owned())
        }
        Ok(owners) => {
            let deletion = async {
                match (provider.load_balancers(), provider.routes()) {
                    (_, Some(routes)) if is_route(resource) => {
                        routes.delete_owned(cluster, resource).await
                    }
                    (Some(balancers), _) => {
                        balancers
                            .delete_owned(cluster, resource, &owners.services)
                            .await
                    }
                    _ => Ok(RemovalOutcome::NotFound),
                }
            };
            match ask_within(DEADLINE, provider.name(), deletion).await {
                Ok(RemovalOutcome::Deleted) => OrphanState::Deleted,
                Ok(RemovalOutcome::Released) => OrphanState::Released,
                Ok(RemovalOutcome::NotFound) => OrphanState::NotFound,
                Err(error) => OrphanState::Failed(error.to_string()),
            }
        }
        Err(error) => OrphanState::Failed(error),
    }
}

/// Checks right before a deletion that the cluster is still the same, and reads the owners again.
async fn check(
    client: &Client,
    cluster: &Cluster,
    resource: &OwnedResource,
) -> Result<Owners, String> {
    let now = read_cluster(
        &cluster.name,
        client,
        Duration::ZERO,
        &CancellationToken::new(),
    )
    .await;
    let now = now.map_err(|error| format!("{error:#}"))?;
    if now != *cluster || cluster.id.is_none() {
        return Err(
            "namespace kube-system has another UID than before: this may be another cluster"
                .to_owned(),
        );
    }
    Owners::read(client, is_route(resource)).await
}
