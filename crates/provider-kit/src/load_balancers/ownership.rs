//! Which load balancers are a Service's, and which must be left alone (D-11, INV-7, P-21).

use cloud_provider::{Caches, Cluster, Error, Result, Service};

use super::model::{Actual, Marks, Shared};

/// By what a Service's load balancer is known.
pub struct Identity<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The Service.
    pub service: &'a Service,
    /// The name that a new one gets.
    pub name: String,
    /// Names that it may have from earlier times.
    pub other_names: Vec<String>,
    /// What the reference's own sign on it would say.
    pub sign: Option<String>,
}

impl Identity<'_> {
    /// The Service's UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.service.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The marks of what is made for it.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let cluster = Marks::cluster(self.cluster).to_owned();
        Marks { cluster: Some(cluster), service: Some(self.uid().to_owned()) }
    }

    /// Whether the Service will not have a load balancer any more: it is being deleted, or of another type by now.
    pub(super) fn is_leaving(&self) -> bool {
        let kind = self.service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
        self.service.metadata.deletion_timestamp.is_some() || kind.is_some_and(|kind| kind != "LoadBalancer")
    }

    /// Everything that it can be found by.
    pub(super) fn handles(&self) -> impl Iterator<Item = &str> {
        let names = [&self.name].into_iter().chain(&self.other_names).map(String::as_str);
        names.chain([self.uid()]).chain(self.sign.as_deref())
    }
}

/// What one load balancer is to a Service.
#[derive(Debug)]
enum Claim {
    /// Marked as its own.
    Marked,
    /// Not marked, but with the reference's sign for it.
    Signed,
    /// Marked for a Service of this cluster that is gone, and of the right name: free to be taken over.
    Orphaned,
    /// Somebody else's.
    Foreign(Error),
}

/// What was found, sorted.
#[derive(Default)]
pub(super) struct Sorted {
    /// The Service's own: the first is the one that counts.
    pub(super) ours: Vec<Shared>,
    /// Of a dead Service, in our place.
    pub(super) orphaned: Option<Shared>,
    /// Why what stands in our place cannot be used.
    pub(super) refusal: Option<Error>,
}

impl Sorted {
    pub(super) fn new(found: Vec<Shared>, identity: &Identity<'_>, caches: Option<&dyn Caches>) -> Self {
        let mut sorted = Self::default();
        for actual in found {
            match claim(&actual, identity, caches) {
                Claim::Marked | Claim::Signed => sorted.ours.push(actual),
                Claim::Orphaned => sorted.orphaned = Some(actual),
                Claim::Foreign(err) => sorted.refusal = Some(err),
            }
        }
        // Of two, the one whose address users know.
        let known = published(identity.service);
        sorted.ours.sort_by_cached_key(|actual| {
            let is_published = actual.ingress.iter().any(|it| it.ip.is_some() && known.contains(&it.ip.as_deref()));
            (
                !is_published,
                actual.tree.as_ref().is_none_or(|tree| tree.balancer_attributes().is_none()),
                actual.id.clone(),
            )
        });
        sorted
    }

    /// Those of the Service's own that are too many.
    pub(super) fn doubles(&self) -> &[Shared] {
        self.ours.get(1..).unwrap_or_default()
    }

    /// Whether nothing at all was found.
    pub(super) fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.orphaned.is_none() && self.refusal.is_none()
    }

    /// The one that a Service's wish is applied to.
    pub(super) fn for_changes(&self) -> Result<Option<&Shared>> {
        match (self.ours.first().or(self.orphaned.as_ref()), &self.refusal) {
            (None, Some(refusal)) => Err(refusal.clone()),
            (found, _) => Ok(found),
        }
    }
}

fn published(service: &Service) -> Vec<Option<&str>> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.as_deref()).unwrap_or_default();
    ingress.iter().map(|it| it.ip.as_deref()).collect()
}

fn claim(actual: &Actual, identity: &Identity<'_>, caches: Option<&dyn Caches>) -> Claim {
    let cluster = identity.cluster;
    let refused = |whose: &str, what_to_do: &str| {
        let text = format!("{} {whose}; it is left alone. {what_to_do}", actual.place());
        Claim::Foreign(Error::invalid(text))
    };
    let is_for_this_service = actual.marks.service.as_deref() == Some(identity.uid());
    let is_signed = actual.sign.is_some() && actual.sign == identity.sign;
    match (actual.marks.cluster.as_deref(), actual.marks.service.as_deref()) {
        (None, None) if is_signed => Claim::Signed,
        (None, None) => {
            let marks =
                format!("{}={}, {}={}", Marks::CLUSTER, Marks::cluster(cluster), Marks::SERVICE, identity.uid());
            refused(
                "carries no mark of this cluster",
                &format!("Rename or delete it, or mark it to have it taken over: {marks}"),
            )
        }
        // Marked before the cluster's id could be read, or as long as it cannot: a Service's UID is given only once.
        (Some(mark), _) if is_for_this_service && (mark == cluster.name || cluster.id.is_none()) => Claim::Marked,
        (Some(mark), _) if mark != Marks::cluster(cluster) => refused(
            &format!("is marked for another cluster, {mark:?}"),
            "Delete it there, or take its marks off if that cluster is gone, or give this Service another name for its load \
             balancer",
        ),
        (_, Some(_)) if is_for_this_service => Claim::Marked,
        (_, None) => refused("is marked for this cluster, but for no Service", "Rename or delete it"),
        (mark, Some(other)) => match owner(other, identity, caches) {
            // Two clusters may have one name; only an id says that the dead Service was this cluster's.
            Owner::Gone if cluster.id.is_some() && mark == cluster.id.as_deref() => Claim::Orphaned,
            Owner::Alive(name) => refused(
                &format!("belongs to Service {name} of this cluster"),
                "Give one of the two another name for its load balancer",
            ),
            Owner::Unknown | Owner::Gone => refused(
                &format!("is marked for another Service of this cluster, or of one with its name, with UID {other}"),
                "Delete it if that Service is gone",
            ),
        },
    }
}

enum Owner {
    Alive(String),
    Gone,
    Unknown,
}

/// Who has this UID. A cache that does not even know the Service at hand proves nothing.
fn owner(uid: &str, identity: &Identity<'_>, caches: Option<&dyn Caches>) -> Owner {
    let services = caches.map(Caches::services).unwrap_or_default();
    let with = |uid: &str| services.iter().find(|service| service.metadata.uid.as_deref() == Some(uid));
    match (with(uid), with(identity.uid())) {
        (Some(owner), _) => {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            Owner::Alive(format!("{}/{}", part(&owner.metadata.namespace), part(&owner.metadata.name)))
        }
        (None, Some(_)) => Owner::Gone,
        (None, None) => Owner::Unknown,
    }
}
