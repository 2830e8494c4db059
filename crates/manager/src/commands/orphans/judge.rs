//! Judgement of orphans: existing owners, and reasons to keep an orphan. Pure except for reading the owners.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Cluster, Node, OwnedResource, Owner, Service};
use ipnet::IpNet;
use jiff::Timestamp;
use kube::Client;

use crate::commands::list;
use crate::commands::seconds;

/// Minimum age of an orphan to be deleted; a manager may still be working on younger ones.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// The Kubernetes objects that own resources in the cloud.
pub(super) struct Owners {
    pub(super) services: Vec<Arc<Service>>,
    uids: HashSet<String>,
    pod_cidrs: HashSet<IpNet>,
}

impl Owners {
    /// Reads the owners of such resources.
    ///
    /// # Errors
    /// If a list fails or is empty, because such an answer proves nothing.
    pub(super) async fn read(client: &Client, has_routes: bool) -> Result<Self, String> {
        let services = list::<Service>(client).await?;
        if services.is_empty() {
            return Err("the API server lists no Service at all, not even default/kubernetes, so nothing is treated \
                        as an orphan; check that --kubeconfig leads to the right cluster"
                .to_owned());
        }
        let nodes = if has_routes {
            list::<Node>(client).await?
        } else {
            Vec::new()
        };
        if has_routes && nodes.is_empty() {
            return Err("the API server lists no Nodes, so no route is treated as an orphan; check that --kubeconfig \
                        leads to the right cluster"
                .to_owned());
        }
        Ok(Self::new(services, &nodes))
    }

    fn new(services: Vec<Service>, nodes: &[Node]) -> Self {
        let uids = services
            .iter()
            .filter_map(|service| service.metadata.uid.clone())
            .collect();
        let cidrs = nodes.iter().flat_map(|node| node.pod_cidrs.iter());
        let pod_cidrs = cidrs
            .filter_map(|cidr| cidr.parse::<IpNet>().ok())
            .map(|range| range.trunc())
            .collect();
        Self {
            services: services.into_iter().map(Arc::new).collect(),
            uids,
            pod_cidrs,
        }
    }

    /// Returns `true` if the owner exists or its existence cannot be determined.
    pub(super) fn exists(&self, owner: &Owner) -> bool {
        match owner {
            Owner::Unnamed => false,
            Owner::Service(uid) => self.uids.contains(uid),
            Owner::PodCidr(range) => range
                .parse::<IpNet>()
                .is_ok_and(|range| self.pod_cidrs.contains(&range.trunc())),
        }
    }
}

/// Returns the reason why an orphan is not deleted; `None` if the orphan can be deleted.
pub(super) fn reason_to_keep(
    orphan: &OwnedResource,
    cluster: &Cluster,
    now: Timestamp,
) -> Option<String> {
    let Some(id) = &cluster.id else {
        let text = "namespace kube-system cannot be read, so the cluster is known by its name alone, which another cluster may \
                    have, too; allow to get that namespace";
        return Some(text.to_owned());
    };
    if orphan.cluster != *id {
        return Some(format!(
            "its owner tags name the cluster by its name, {:?}, which another cluster may have, too",
            orphan.cluster
        ));
    }
    if orphan.owner == Owner::Unnamed {
        return Some("its owner tags name no Service".to_owned());
    }
    if let Some(adopting_service) = &orphan.adopting_service {
        return Some(format!("Service {adopting_service} may take it over"));
    }
    let age = age(orphan.created?, now);
    (age < RECENT).then(|| {
        format!(
            "it was created {} ago: a manager may be at work on it; try again later",
            seconds(age)
        )
    })
}

/// Returns the time since the creation; zero if the clock is behind.
pub(super) fn age(created: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(created)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn orphan() -> OwnedResource {
        OwnedResource {
            cluster: "c1".into(),
            owner: Owner::Service("dead".into()),
            created: Some("2026-01-01T11:00:00Z".parse().unwrap()),
            ..OwnedResource::default()
        }
    }

    fn kept(orphan: &OwnedResource, id: Option<&str>) -> Option<String> {
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: id.map(str::to_owned),
        };
        reason_to_keep(orphan, &cluster, NOW.parse().unwrap())
    }

    #[test]
    fn orphan_is_deleted_only_if_it_is_this_clusters_for_certain() {
        assert_eq!(kept(&orphan(), Some("c1")), None);
        assert_eq!(
            kept(
                &OwnedResource {
                    created: None,
                    ..orphan()
                },
                Some("c1")
            ),
            None,
            "some clouds tell no age"
        );
        let of_name = OwnedResource {
            cluster: "kubernetes".into(),
            ..orphan()
        };
        let created = |time: &str| OwnedResource {
            created: Some(time.parse().unwrap()),
            ..orphan()
        };
        for (orphan, id, reason) in [
            (orphan(), None, "namespace kube-system cannot be read"),
            (
                of_name.clone(),
                None,
                "namespace kube-system cannot be read",
            ),
            (
                of_name,
                Some("c1"),
                "its owner tags name the cluster by its name, \"kubernetes\"",
            ),
            (
                orphan(),
                Some("c2"),
                "its owner tags name the cluster by its name, \"c1\"",
            ),
            (
                OwnedResource {
                    owner: Owner::Unnamed,
                    ..orphan()
                },
                Some("c1"),
                "its owner tags name no Service",
            ),
            (
                OwnedResource {
                    adopting_service: Some("shop/web".into()),
                    ..orphan()
                },
                Some("c1"),
                "Service shop/web may take it over",
            ),
            (
                created("2026-01-01T11:51:00Z"),
                Some("c1"),
                "it was created 9 min ago",
            ),
            (
                created("2026-01-01T12:51:00Z"),
                Some("c1"),
                "it was created 0 s ago",
            ),
        ] {
            let text = kept(&orphan, id).unwrap_or_default();
            assert!(text.starts_with(reason), "{text:?} instead of {reason:?}");
        }
        assert_eq!(kept(&created("2026-01-01T11:49:59Z"), Some("c1")), None);
    }

    #[test]
    fn owner_exists_if_its_uid_or_its_pod_cidr_does() {
        let service =
            serde_json::from_value(json!({"metadata": {"name": "web", "uid": "u-1"}})).unwrap();
        let node = Node {
            pod_cidrs: ["10.244.1.0/24".into()].into(),
            ..Node::default()
        };
        let owners = Owners::new(vec![service], &[node]);
        for (owner, exists) in [
            (Owner::Service("u-1".into()), true),
            (Owner::Service("u-2".into()), false),
            (Owner::PodCidr("10.244.1.0/24".into()), true),
            (Owner::PodCidr("10.244.1.7/24".into()), true),
            (Owner::PodCidr("10.244.2.0/24".into()), false),
            (Owner::Unnamed, false),
        ] {
            assert_eq!(owners.exists(&owner), exists, "{owner:?}");
        }
    }
}
