//! Owners of a load balancer and its resources: names, tags, and the [`Share`]s of a load balancer that several
//! Services share.
//!
//! Each Service that uses a load balancer has its tag on it, `kube_service_<cluster>_<namespace>_<name>`. The kit knows
//! only load balancers of one Service, so a load balancer is shown to the kit once for each Service that uses it: as a
//! [`Share`]. In addition to that legacy owner tag, there is an owner tag of this program, `ccm-rs:<cluster>:<Service's
//! UID>:<the legacy owner tag>`. Without tags (API before 2.5), or on a load balancer that has none yet, its name is
//! read as a legacy owner tag.

use cloud_provider::{Cluster, Service, default_load_balancer_name};
use provider_kit::load_balancers::{Identity, OwnerTags};
use serde_json::Value;

use super::octavia::{text, texts};
use super::published::is_published;

/// Prefix of the names and tags of the Go cloud-controller-manager.
pub(super) const LEGACY: &str = "kube_service_";
/// Prefix of this program's owner tags.
const OWNER: &str = "ccm-rs:";
/// Longest name or tag, in bytes.
const LONGEST: usize = 255;

/// Cuts a text to the length of a name or tag.
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

/// Returns the name of a new load balancer, which is also the Service's tag on every load balancer that it uses.
pub(super) fn legacy_tag(cluster: &Cluster, service: &Service) -> String {
    let (namespace, name) = full_name(service);
    cut(format!("{LEGACY}{}_{namespace}_{name}", cluster.name))
}

/// Returns namespace and name.
pub(super) fn full_name(service: &Service) -> (&str, &str) {
    let metadata = &service.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// Returns namespace and name of the Service that a legacy owner tag names; `None` if the tag was cut. Neither can hold a `_`.
pub(super) fn service_of(tag: &str) -> Option<(&str, &str)> {
    let mut parts = tag.strip_prefix(LEGACY)?.rsplitn(3, '_');
    let name = parts.next()?;
    let namespace = parts.next()?;
    let _cluster = parts.next()?;
    (tag.len() < LONGEST).then_some((namespace, name))
}

/// Returns the cluster that a legacy owner tag names. If the tag was cut within the cluster's name, returns the part
/// that is left.
pub(super) fn cluster_of(tag: &str) -> Option<&str> {
    let at = tag.find(LEGACY)?;
    let mut parts = tag[at + LEGACY.len()..].rsplitn(3, '_').skip(1);
    let namespace = parts.next()?;
    let cluster = parts.next();
    Some(cluster.unwrap_or(namespace)).filter(|cluster| !cluster.is_empty())
}

/// Replaces the cluster in a name or tag.
pub(super) fn renamed(name: &str, from: &str, to: &str) -> String {
    cut(name.replacen(&format!("{LEGACY}{from}_"), &format!("{LEGACY}{to}_"), 1))
}

/// Returns this program's owner tag for a Service.
pub(super) fn owner_tag(identity: &Identity<'_>) -> String {
    let legacy = identity.legacy_owner.as_deref().unwrap_or_default();
    cut(format!(
        "{OWNER}{}:{}:{legacy}",
        OwnerTags::cluster(identity.cluster),
        identity.uid()
    ))
}

/// Reads an owner tag, and the legacy owner tag in it, which may be truncated.
fn read_owner_tag(tag: &str) -> Option<(OwnerTags, &str)> {
    let rest = tag.strip_prefix(OWNER)?;
    let at = rest.find(&format!(":{LEGACY}"))?;
    let (cluster, service) = rest[..at].rsplit_once(':')?;
    Some((
        OwnerTags {
            cluster: Some(cluster.to_owned()),
            service: Some(service.to_owned()),
        },
        &rest[at + 1..],
    ))
}

/// Returns `true` if a tag is this legacy owner tag of a Service, or the owner tag with it.
pub(super) fn belongs_to(tag: &str, legacy: &str) -> bool {
    let stands_beside = |of: &str| of == legacy || (tag.len() == LONGEST && legacy.starts_with(of));
    tag == legacy || read_owner_tag(tag).is_some_and(|(_, of)| stands_beside(of))
}

/// The share of one Service in a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// ID of the view: the load balancer's ID for the Service that it was created for; for any other Service, the ID
    /// followed by the Service's legacy owner tag.
    pub(super) id: String,
    /// The name under which the engine knows it.
    pub(super) name: String,
    /// The legacy owner tag of the Service that it belongs to.
    pub(super) legacy_owner_tag: Option<String>,
    /// Owner tags of the Service.
    pub(super) owner_tags: OwnerTags,
    /// If set, the load balancer was created for this Service.
    pub(super) is_owner: bool,
    /// The legacy owner tags of the other Services that use it.
    pub(super) others: Vec<String>,
}

impl Share {
    /// Returns all views of a load balancer: one for each Service that it is tagged for.
    pub(super) fn all(balancer: &Value) -> Vec<Self> {
        let id = text(balancer, "id");
        let name = text(balancer, "name");
        let mut legacy_owner_tags: Vec<&str> = texts(balancer, "tags")
            .filter(|tag| tag.starts_with(LEGACY))
            .collect();
        if legacy_owner_tags.is_empty() {
            legacy_owner_tags.extend(name.starts_with(LEGACY).then_some(name));
        }
        let view = |legacy_owner_tag: &&str| {
            let owner = texts(balancer, "tags")
                .filter(|tag| belongs_to(tag, legacy_owner_tag))
                .find_map(read_owner_tag);
            let owner_tags = owner.map(|(owner_tags, _)| owner_tags).unwrap_or_default();
            let is_owner = *legacy_owner_tag == name
                || owner_tags
                    .service
                    .as_deref()
                    .is_some_and(|uid| name == legacy_name(uid));
            Self {
                id: if is_owner {
                    id.to_owned()
                } else {
                    format!("{id}/{legacy_owner_tag}")
                },
                name: (*legacy_owner_tag).to_owned(),
                legacy_owner_tag: Some((*legacy_owner_tag).to_owned()),
                owner_tags,
                is_owner,
                others: legacy_owner_tags
                    .iter()
                    .filter(|other| *other != legacy_owner_tag)
                    .map(|legacy_owner_tag| (*legacy_owner_tag).to_owned())
                    .collect(),
            }
        };
        legacy_owner_tags.iter().map(view).collect()
    }

    /// Returns the Service's view of a load balancer; `None` if the Service neither uses the load balancer nor requests
    /// to share it. `is_requested` is set if the Service's annotation names the load balancer.
    pub(super) fn of(
        balancer: &Value,
        identity: &Identity<'_>,
        is_requested: bool,
    ) -> Option<Self> {
        let all = Self::all(balancer);
        let id = text(balancer, "id");
        let name = text(balancer, "name");
        let legacy_owner_tag = identity.legacy_owner.as_deref().unwrap_or_default();
        let is_renamed = |view: &&Self| {
            let ours = service_of(legacy_owner_tag);
            // If this Service never showed the load balancer, the tag belongs to a Service of the same name in another
            // cluster. Only the status proves that: the author of a Service writes its annotations.
            let had_it = is_published(identity.service);
            is_requested
                && had_it
                && ours.is_some()
                && view.legacy_owner_tag.as_deref().and_then(service_of) == ours
        };
        let found = all
            .iter()
            .find(|view| view.is_of(identity))
            .or_else(|| all.iter().find(is_renamed));
        if let Some(view) = found {
            return Some(Self {
                name: identity.name.clone(),
                ..view.clone()
            });
        }
        if all.is_empty() && name == legacy_name(identity.uid()) {
            let legacy_owner_tag = Some(legacy_owner_tag.to_owned());
            return Some(Self {
                name: identity.name.clone(),
                legacy_owner_tag,
                is_owner: true,
                ..Self::untagged(balancer, id)
            });
        }
        // A Service that is deleted has no share in it any more.
        let is_to_have_one = !identity.is_leaving() && (is_requested || name == legacy_owner_tag);
        let id = if name == legacy_owner_tag {
            id.to_owned()
        } else {
            format!("{id}/{legacy_owner_tag}")
        };
        is_to_have_one.then(|| Self::untagged(balancer, &id))
    }

    /// Returns `true` if the load balancer is tagged for this Service.
    pub(super) fn is_of(&self, identity: &Identity<'_>) -> bool {
        self.owner_tags.service.as_deref() == Some(identity.uid())
            || (self.legacy_owner_tag.is_some() && self.legacy_owner_tag == identity.legacy_owner)
    }

    /// Returns the view with this ID.
    pub(super) fn with_id(balancer: &Value, id: &str) -> Self {
        let found = Self::all(balancer).into_iter().find(|view| view.id == id);
        found.unwrap_or_else(|| Self::untagged(balancer, id))
    }

    /// Returns the view of a Service whose tag is not on the load balancer yet, or no longer.
    fn untagged(balancer: &Value, id: &str) -> Self {
        let name = id
            .split_once('/')
            .map_or(text(balancer, "name"), |(_, legacy_owner_tag)| {
                legacy_owner_tag
            });
        let others: Vec<String> = Self::all(balancer)
            .into_iter()
            .filter_map(|view| view.legacy_owner_tag)
            .collect();
        // A load balancer with a legacy name and without tags belongs to the Service whose annotation has its ID.
        let is_legacy = !id.contains('/') && others.is_empty();
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            legacy_owner_tag: None,
            owner_tags: OwnerTags::default(),
            is_owner: name == text(balancer, "name") && (is_legacy || name.starts_with(LEGACY)),
            others,
        }
    }
}

/// Returns the name that load balancers of all clouds had in early versions: `a` and the UID of the Service.
pub(super) fn legacy_name(uid: &str) -> String {
    let mut service = Service::default();
    service.metadata.uid = Some(uid.to_owned());
    default_load_balancer_name(&service)
}

/// Returns the load balancer's own ID, in the ID of a view.
pub(super) fn balancer_id(view: &str) -> &str {
    view.split_once('/').map_or(view, |(id, _)| id)
}

/// Returns all tags of a load balancer with the Service's own among them. `before`: its former legacy owner tag, if it had one.
pub(super) fn with_ours(
    tags: Vec<String>,
    before: Option<&str>,
    identity: &Identity<'_>,
) -> Vec<String> {
    // The owner tag of a deleted Service of the same name is removed as well, because with two owner tags the owner
    // would be unknown.
    let mut tags = without(without(tags, before), identity.legacy_owner.as_deref());
    tags.retain(|tag| {
        read_owner_tag(tag)
            .is_none_or(|(owner_tags, _)| owner_tags.service.as_deref() != Some(identity.uid()))
    });
    tags.extend([
        identity.legacy_owner.clone().unwrap_or_default(),
        owner_tag(identity),
    ]);
    tags
}

/// Returns the tags without those of a Service.
pub(super) fn without(mut tags: Vec<String>, legacy: Option<&str>) -> Vec<String> {
    tags.retain(|tag| legacy.is_none_or(|legacy| !belongs_to(tag, legacy)));
    tags
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str) -> Service {
        serde_json::from_value(
            json!({"metadata": {"namespace": namespace, "name": name, "uid": "u-1"}}),
        )
        .unwrap()
    }

    fn cluster(name: &str) -> Cluster {
        Cluster {
            name: name.into(),
            id: None,
        }
    }

    #[test]
    fn a_name_is_made_of_cluster_namespace_and_service_and_cut() {
        assert_eq!(
            legacy_tag(&cluster("c"), &service("ns", "n")),
            "kube_service_c_ns_n"
        );
        assert_eq!(
            legacy_tag(&cluster(""), &service("", "")),
            "kube_service___"
        );
        let long = legacy_tag(&cluster(&"é".repeat(200)), &service("ns", "n"));
        assert!(long.len() <= 255 && long.len() >= 254 && "kube_service_".len() < long.len());
        assert_eq!(
            service_of(&legacy_tag(&cluster("a_b"), &service("ns", "n"))),
            Some(("ns", "n"))
        );
        assert_eq!(service_of(&long), None);
    }

    #[test]
    fn the_cluster_of_a_name() {
        assert_eq!(
            cluster_of("kube_service_kubernetes_namespace_name"),
            Some("kubernetes")
        );
        assert_eq!(
            cluster_of("listener_0_kube_service_kubernetes_namespace_name"),
            Some("kubernetes")
        );
        assert_eq!(
            cluster_of("kube_service_my_own_cluster_namespace_name"),
            Some("my_own_cluster")
        );
        assert_eq!(
            cluster_of("kube_service_kubernetes_namespac"),
            Some("kubernetes")
        );
        assert_eq!(
            (cluster_of("FOOBAR"), cluster_of("kube_service___")),
            (None, None)
        );
    }

    #[test]
    fn the_cluster_of_a_name_is_replaced_where_it_stands_first() {
        let name = "pool_0_kube_service_kubernetes_kubernetes_kubernetes";
        assert_eq!(
            renamed(name, "kubernetes", "cluster123"),
            "pool_0_kube_service_cluster123_kubernetes_kubernetes"
        );
        assert_eq!(renamed("by hand", "kubernetes", "cluster123"), "by hand");
    }

    #[test]
    fn each_tag_is_a_view_and_its_mark_says_whose_it_is() {
        let balancer = json!({"id": "lb", "name": "kube_service_c_ns_a", "tags": [
            "ccm-rs:5c1d:uid-b:kube_service_c_ns_b", "kube_service_c_ns_a", "kube_service_c_ns_b", "mine",
        ]});
        let views = Share::all(&balancer);
        let told: Vec<_> = views
            .iter()
            .map(|share| {
                (
                    &*share.id,
                    share.is_owner,
                    share.owner_tags.service.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("lb", true, None),
                ("lb/kube_service_c_ns_b", false, Some("uid-b"))
            ]
        );
        assert_eq!(views[1].others, ["kube_service_c_ns_a"]);
        let untagged = json!({"id": "lb", "name": "kube_service_c_ns_a"});
        assert!(
            Share::all(&untagged)[0].is_owner
                && Share::all(&json!({"id": "lb", "name": "by hand"})).is_empty()
        );
    }

    #[test]
    fn a_mark_that_was_cut_still_belongs_to_its_tag() {
        let legacy_owner_tag = cut(format!("{LEGACY}{}_ns_n", "c".repeat(230)));
        let mark = cut(format!("{OWNER}5c1d:uid:{legacy_owner_tag}"));
        assert_eq!(mark.len(), 255);
        assert!(belongs_to(&mark, &legacy_owner_tag) && !belongs_to(&mark, "kube_service_c_ns_n"));
        assert!(
            without(
                vec![mark, legacy_owner_tag.clone(), "mine".to_owned()],
                Some(&legacy_owner_tag)
            ) == ["mine"]
        );
    }
}
