//! Whose a load balancer and its parts are (§3.1): names, tags, and the views of one that several Services share.
//!
//! Each Service that uses a load balancer has its tag on it, `kube_service_<cluster>_<namespace>_<name>`, and is a user of its
//! own: what the kit calls a load balancer is one user's view of it. Beside that tag stands our mark,
//! `ccm-rs:<cluster>:<Service's UID>:<the tag>`. Without tags (API before 2.5), or where nobody has tagged it yet, the name
//! counts, if it is such a text.

use cloud_provider::{Cluster, Service, default_load_balancer_name};
use provider_kit::load_balancers::{Identity, Marks};
use serde_json::Value;

use super::octavia::{text, texts};
use super::shown::was_made;

/// What the names and tags of the Go program begin with.
pub(super) const SIGN: &str = "kube_service_";
/// What our marks begin with.
const MARK: &str = "ccm-rs:";
/// So long a name or tag may be, in bytes.
const LONGEST: usize = 255;

/// A text as it fits into a name or tag.
pub(super) fn cut(mut text: String) -> String {
    let mut end = LONGEST.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// The name of a new load balancer, and the tag of a Service on every one that it uses.
pub(super) fn sign(cluster: &Cluster, service: &Service) -> String {
    let (namespace, name) = full_name(service);
    cut(format!("{SIGN}{}_{namespace}_{name}", cluster.name))
}

/// Namespace and name.
pub(super) fn full_name(service: &Service) -> (&str, &str) {
    let metadata = &service.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// Namespace and name of the Service that a sign names; `None` if it was cut. Neither can hold a `_`.
pub(super) fn signed_for(sign: &str) -> Option<(&str, &str)> {
    let mut parts = sign.strip_prefix(SIGN)?.rsplitn(3, '_');
    let (name, namespace, _cluster) = (parts.next()?, parts.next()?, parts.next()?);
    (sign.len() < LONGEST).then_some((namespace, name))
}

/// The cluster that a sign names: that is all of a text which was cut there.
pub(super) fn cluster_of(sign: &str) -> Option<&str> {
    let rest = sign.find(SIGN).map(|at| &sign[at + SIGN.len()..])?;
    let parts: Vec<&str> = rest.split('_').collect();
    match parts.len() {
        0 | 1 => None,
        2 => Some(parts[0]),
        count => Some(&rest[..rest.len() - parts[count - 1].len() - parts[count - 2].len() - 2]),
    }
    .filter(|cluster| !cluster.is_empty())
}

/// A name or tag with another cluster in it.
pub(super) fn renamed(name: &str, from: &str, to: &str) -> String {
    cut(name.replacen(&format!("{SIGN}{from}_"), &format!("{SIGN}{to}_"), 1))
}

/// The tag that is our mark for a Service.
pub(super) fn mark(identity: &Identity<'_>) -> String {
    let sign = identity.sign.as_deref().unwrap_or_default();
    cut(format!("{MARK}{}:{}:{sign}", Marks::cluster(identity.cluster), identity.uid()))
}

/// What a tag says if it is a mark, and the sign, perhaps cut, that it stands beside.
fn read_mark(tag: &str) -> Option<(Marks, &str)> {
    let rest = tag.strip_prefix(MARK)?;
    let at = rest.find(&format!(":{SIGN}"))?;
    let (cluster, service) = rest[..at].rsplit_once(':')?;
    Some((Marks { cluster: Some(cluster.to_owned()), service: Some(service.to_owned()) }, &rest[at + 1..]))
}

/// Whether a tag is the sign of a Service, or our mark beside it.
pub(super) fn belongs_to(tag: &str, sign: &str) -> bool {
    tag == sign || read_mark(tag).is_some_and(|(_, of)| of == sign || (tag.len() == LONGEST && sign.starts_with(of)))
}

/// One Service's part in a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The load balancer's own id, for the Service that it was made for; else with the Service's sign behind it.
    pub(super) id: String,
    /// What it is known by.
    pub(super) name: String,
    /// The Service that it belongs to.
    pub(super) sign: Option<String>,
    /// Our marks for that.
    pub(super) marks: Marks,
    /// Whether the load balancer was made for this Service.
    pub(super) is_owner: bool,
    /// The signs of the other Services that use it.
    pub(super) others: Vec<String>,
}

impl View {
    /// All views of a load balancer: one for each Service that it is tagged for.
    pub(super) fn all(balancer: &Value) -> Vec<Self> {
        let (id, name) = (text(balancer, "id"), text(balancer, "name"));
        let mut signs: Vec<&str> = texts(balancer, "tags").filter(|tag| tag.starts_with(SIGN)).collect();
        if signs.is_empty() {
            signs.extend(name.starts_with(SIGN).then_some(name));
        }
        let marks: Vec<&str> = texts(balancer, "tags").filter(|tag| tag.starts_with(MARK)).collect();
        let view = |sign: &&str| {
            let mark = marks.iter().find(|tag| belongs_to(tag, sign)).and_then(|tag| read_mark(tag));
            let marks = mark.map(|(marks, _)| marks).unwrap_or_default();
            let is_owner = *sign == name || marks.service.as_deref().is_some_and(|uid| name == legacy_name(uid));
            Self {
                id: if is_owner { id.to_owned() } else { format!("{id}/{sign}") },
                name: (*sign).to_owned(),
                sign: Some((*sign).to_owned()),
                marks,
                is_owner,
                others: signs.iter().filter(|other| *other != sign).map(|it| (*it).to_owned()).collect(),
            }
        };
        signs.iter().map(view).collect()
    }

    /// The view of the Service at hand, of a load balancer that was found for it. `is_asked_for`: its annotation names it.
    /// `None`: it has no part in it, and shall have none.
    pub(super) fn of(balancer: &Value, identity: &Identity<'_>, is_asked_for: bool) -> Option<Self> {
        let all = Self::all(balancer);
        let (id, name) = (text(balancer, "id"), text(balancer, "name"));
        let sign = identity.sign.as_deref().unwrap_or_default();
        let is_renamed = |view: &&Self| {
            let ours = signed_for(sign);
            // One that never had it is a namesake from another cluster, which wants to share.
            let had_it = was_made(identity.service);
            is_asked_for && had_it && ours.is_some() && view.sign.as_deref().and_then(signed_for) == ours
        };
        let found = all.iter().find(|view| view.is_of(identity)).or_else(|| all.iter().find(is_renamed));
        if let Some(view) = found {
            return Some(Self { name: identity.name.clone(), ..view.clone() });
        }
        if all.is_empty() && name == legacy_name(identity.uid()) {
            let sign = Some(sign.to_owned());
            return Some(Self { name: identity.name.clone(), sign, is_owner: true, ..Self::untagged(balancer, id) });
        }
        // Whoever goes away has no part in it any more.
        let is_to_have_one = !identity.is_leaving() && (is_asked_for || name == sign);
        let id = if name == sign { id.to_owned() } else { format!("{id}/{sign}") };
        is_to_have_one.then(|| Self::untagged(balancer, &id))
    }

    /// Whether it is marked or tagged for this Service.
    pub(super) fn is_of(&self, identity: &Identity<'_>) -> bool {
        self.marks.service.as_deref() == Some(identity.uid()) || (self.sign.is_some() && self.sign == identity.sign)
    }

    /// The view with this id.
    pub(super) fn with_id(balancer: &Value, id: &str) -> Self {
        let found = Self::all(balancer).into_iter().find(|view| view.id == id);
        found.unwrap_or_else(|| Self::untagged(balancer, id))
    }

    /// One of a Service that has no tag on it, yet or any more.
    fn untagged(balancer: &Value, id: &str) -> Self {
        let name = id.split_once('/').map_or(text(balancer, "name"), |(_, sign)| sign);
        let others: Vec<String> = Self::all(balancer).into_iter().filter_map(|view| view.sign).collect();
        // What has a name of old, and nobody's tag, is the Service's that it is known of by its own id.
        let is_of_old = !id.contains('/') && others.is_empty();
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            sign: None,
            marks: Marks::default(),
            is_owner: name == text(balancer, "name") && (is_of_old || name.starts_with(SIGN)),
            others,
        }
    }
}

/// The name that every cloud's load balancers had once.
pub(super) fn legacy_name(uid: &str) -> String {
    let mut service = Service::default();
    service.metadata.uid = Some(uid.to_owned());
    default_load_balancer_name(&service)
}

/// The load balancer's own id, in the id of a view.
pub(super) fn balancer_id(view: &str) -> &str {
    view.split_once('/').map_or(view, |(id, _)| id)
}

/// All tags of a load balancer when the Service has its own on it. `before`: its sign until now, if it had another one.
pub(super) fn with_ours(tags: Vec<String>, before: Option<&str>, identity: &Identity<'_>) -> Vec<String> {
    // Also the mark of a Service that is gone, whose place it takes: two would not tell whose it is.
    let mut tags = without(without(tags, before), identity.sign.as_deref());
    tags.retain(|tag| read_mark(tag).is_none_or(|(it, _)| it.service.as_deref() != Some(identity.uid())));
    tags.extend([identity.sign.clone().unwrap_or_default(), mark(identity)]);
    tags
}

/// The same without a Service's.
pub(super) fn without(mut tags: Vec<String>, sign: Option<&str>) -> Vec<String> {
    tags.retain(|tag| sign.is_none_or(|sign| !belongs_to(tag, sign)));
    tags
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str) -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name, "uid": "u-1"}})).unwrap()
    }

    fn cluster(name: &str) -> Cluster {
        Cluster { name: name.into(), id: None }
    }

    // §8.14, §8.15
    #[test]
    fn a_name_is_made_of_cluster_namespace_and_service_and_cut() {
        assert_eq!(sign(&cluster("c"), &service("ns", "n")), "kube_service_c_ns_n");
        assert_eq!(sign(&cluster(""), &service("", "")), "kube_service___");
        let long = sign(&cluster(&"é".repeat(200)), &service("ns", "n"));
        assert!(long.len() <= 255 && long.len() >= 254 && "kube_service_".len() < long.len());
        assert_eq!(signed_for(&sign(&cluster("a_b"), &service("ns", "n"))), Some(("ns", "n")));
        assert_eq!(signed_for(&long), None);
    }

    // §8.52
    #[test]
    fn the_cluster_of_a_name() {
        assert_eq!(cluster_of("kube_service_kubernetes_namespace_name"), Some("kubernetes"));
        assert_eq!(cluster_of("listener_0_kube_service_kubernetes_namespace_name"), Some("kubernetes"));
        assert_eq!(cluster_of("kube_service_my_own_cluster_namespace_name"), Some("my_own_cluster"));
        assert_eq!(cluster_of("kube_service_kubernetes_namespac"), Some("kubernetes"));
        assert_eq!((cluster_of("FOOBAR"), cluster_of("kube_service___")), (None, None));
    }

    // §8.53
    #[test]
    fn the_cluster_of_a_name_is_replaced_where_it_stands_first() {
        let name = "pool_0_kube_service_kubernetes_kubernetes_kubernetes";
        assert_eq!(renamed(name, "kubernetes", "cluster123"), "pool_0_kube_service_cluster123_kubernetes_kubernetes");
        assert_eq!(renamed("by hand", "kubernetes", "cluster123"), "by hand");
    }

    #[test]
    fn each_tag_is_a_view_and_its_mark_says_whose_it_is() {
        let balancer = json!({"id": "lb", "name": "kube_service_c_ns_a", "tags": [
            "ccm-rs:5c1d:uid-b:kube_service_c_ns_b", "kube_service_c_ns_a", "kube_service_c_ns_b", "mine",
        ]});
        let views = View::all(&balancer);
        let told: Vec<_> = views.iter().map(|it| (&*it.id, it.is_owner, it.marks.service.as_deref())).collect();
        assert_eq!(told, [("lb", true, None), ("lb/kube_service_c_ns_b", false, Some("uid-b"))]);
        assert_eq!(views[1].others, ["kube_service_c_ns_a"]);
        let untagged = json!({"id": "lb", "name": "kube_service_c_ns_a"});
        assert!(View::all(&untagged)[0].is_owner && View::all(&json!({"id": "lb", "name": "by hand"})).is_empty());
    }

    #[test]
    fn a_mark_that_was_cut_still_belongs_to_its_tag() {
        let sign = cut(format!("{SIGN}{}_ns_n", "c".repeat(230)));
        let mark = cut(format!("{MARK}5c1d:uid:{sign}"));
        assert_eq!(mark.len(), 255);
        assert!(belongs_to(&mark, &sign) && !belongs_to(&mark, "kube_service_c_ns_n"));
        assert!(without(vec![mark, sign.clone(), "mine".to_owned()], Some(&sign)) == ["mine"]);
    }
}
