//! Detects another cloud controller manager in the cluster, which would fight over Nodes and load balancers.

use cloud_provider::Finding;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};

use super::lease::{ElectedBy, age};
use crate::commands::seconds;

/// Parts of the names of the leases of cloud controller managers.
const NAMES: [&str; 2] = ["cloud-controller-manager", "cloud-provider"];

/// Looks for other leases that are renewed. Returns nothing if the identity may not list leases, because the manager
/// does not need that permission.
pub(super) async fn check(
    client: &Client,
    ours: Option<&ElectedBy>,
    now: Timestamp,
) -> Vec<Finding> {
    let namespace = ours.map_or("kube-system", |lease| &lease.namespace);
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match api.list(&ListParams::default()).await {
        Ok(leases) => leases
            .items
            .iter()
            .filter_map(|lease| judge(lease, ours, now))
            .collect(),
        Err(_) => Vec::new(),
    }
}

fn judge(lease: &Lease, ours: Option<&ElectedBy>, now: Timestamp) -> Option<Finding> {
    let name = lease.metadata.name.as_deref()?;
    if ours.is_some_and(|ours| ours.name == name) || !NAMES.iter().any(|part| name.contains(part)) {
        return None;
    }
    let (holder, age, lasts) = age(lease, now)?;
    let namespace = lease.metadata.namespace.as_deref().unwrap_or_default();
    (age <= lasts).then(|| {
        Finding::warning(
            "rivals",
            format!(
                "another manager seems to work here: lease {namespace}/{name} is held by {holder}, renewed {} ago",
                seconds(age)
            ),
            "stop one of them, or give them disjoint --controllers; two that run the same controller undo each other's work",
        )
    })
}
