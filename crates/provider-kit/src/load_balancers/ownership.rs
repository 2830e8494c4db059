//! The decision which load balancers belong to a Service, and which must be left alone (D-11, INV-7, P-21).
//!
//! | owner tags | legacy owner tag | the load balancer is |
//! |---|---|---|
//! | ours, for this Service | any | the Service's own |
//! | of another cluster; of this cluster, for another existing Service or for none | any | refused |
//! | of this cluster (by its ID), for a deleted Service | none, or for a deleted Service | adopted |
//! | none | for this Service | the Service's own, unless only an annotation says so |
//! | none | for another existing Service | refused |
//! | none | any, while another existing Service shows the load balancer | refused |
//! | none | none, or for a deleted Service | adopted if the name or the requested ID fits and the provider [adopts](LoadBalancerCloud::adopts) it, else refused |
//!
//! A Service shows a load balancer in its status, or by its ID in an annotation. Of several Services that do, the one
//! whose status shows the load balancer has it, and then the oldest: a copy of a Service takes nothing from the original.
//!
//! An adopted load balancer gets owner tags before any other change, and is not deleted before that. A load balancer
//! that the Service [requests](Naming::requested_id) takes precedence over all that it has: the Service moves there.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use cloud_provider::names::{ANNOTATION_LOAD_BALANCER_ID, ANNOTATION_SUPERSEDED};
use cloud_provider::{
    Caches, Cluster, Error, Ownership, Result, Service, default_load_balancer_name,
};

use super::cloud::Adoption;
#[cfg(doc)]
use super::cloud::LoadBalancerCloud;
use super::model::{ObservedLoadBalancer, OwnerTags, ResourceGraph, Shared, State};
use super::naming::Naming;
use crate::annotations::Parsed;

/// The identity of a Service in the cloud: the properties by which its load balancer is known.
pub struct Identity<'a> {
    /// The cluster of the Service.
    pub cluster: &'a Cluster,
    /// The Service that the load balancer is for.
    pub service: &'a Service,
    /// The name of a new load balancer.
    pub name: String,
    /// Names that a load balancer of the Service may have from earlier times.
    pub other_names: Vec<String>,
    /// The value of the legacy owner tag for this Service.
    pub legacy_owner: Option<String>,
    /// If set, the legacy owner tag is made from [an annotation](Naming::is_legacy_owner_stated).
    pub is_legacy_owner_stated: bool,
    /// If set, the name [proves nothing](Naming::is_name_chosen).
    pub is_name_chosen: bool,
    /// If set, ccm-rs [writes the legacy owner tag](Naming::writes_legacy_owner), too.
    pub writes_legacy_owner: bool,
    /// The ID of the load balancer that the Service requests.
    pub requested_id: Option<String>,
    /// The ID of the load balancer that an [annotation of the cloud](Naming::recorded_id) records.
    pub recorded_id: Option<String>,
    /// Addresses and host names that the Service shows in its status.
    pub published_addresses: Vec<String>,
    /// The [kind](Naming::kind) of load balancer that the Service requests.
    pub kind: &'static str,
    /// The Service in the provider's own form, parsed when it is first needed.
    spec: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl<'a> Identity<'a> {
    pub(super) fn new(cluster: &'a Cluster, service: &'a Service, naming: Naming) -> Self {
        let Naming {
            name,
            former_names,
            legacy_owner,
            is_legacy_owner_stated,
            is_name_chosen,
            writes_legacy_owner,
            requested_id,
            recorded_id,
            published_addresses,
            kind,
        } = naming;
        let other_names = former_names;
        let spec = OnceLock::new();
        Self {
            cluster,
            service,
            name,
            other_names,
            legacy_owner,
            is_legacy_owner_stated,
            is_name_chosen,
            writes_legacy_owner,
            requested_id,
            recorded_id,
            published_addresses,
            kind,
            spec,
        }
    }

    /// Returns whether this is the load balancer that the Service requests by its ID; `None` if it requests none.
    fn requests(&self, actual: &ObservedLoadBalancer) -> Option<bool> {
        let id = actual.id.split('/').next();
        self.requested_id
            .as_deref()
            .map(|requested| Some(requested) == id)
    }

    /// Returns `true` if the Service shows an address of the load balancer.
    pub(super) fn shows(&self, actual: &ObservedLoadBalancer) -> bool {
        is_at(actual, &self.published_addresses)
    }

    /// Returns `true` if the annotation of the Service records the ID of the load balancer.
    pub(super) fn records(&self, actual: &ObservedLoadBalancer) -> bool {
        let recorded = annotation(self.service, ANNOTATION_LOAD_BALANCER_ID);
        recorded == Some(&*actual.id) || self.recorded_id.as_ref() == Some(&actual.id)
    }

    /// Returns the IDs of the load balancers that the Service leaves behind, as its annotation records them.
    pub(super) fn superseded(&self) -> Vec<&str> {
        annotation(self.service, ANNOTATION_SUPERSEDED)
            .iter()
            .flat_map(|ids| ids.split(','))
            .collect()
    }

    /// Returns the Service as `parse` reads it; `parse` is called once.
    pub(super) fn parsed<S: Send + Sync + 'static>(
        &self,
        parse: impl Fn(&Service) -> Parsed<S>,
    ) -> Arc<Parsed<S>> {
        let parsed = self.spec.get_or_init(|| Arc::new(parse(self.service)));
        Arc::clone(parsed)
            .downcast()
            .unwrap_or_else(|_| Arc::new(parse(self.service)))
    }
}

impl Identity<'_> {
    /// Returns the Service's UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.service.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the owner tags for objects that are created for the Service.
    #[must_use]
    pub fn owner_tags(&self) -> OwnerTags {
        let cluster = OwnerTags::cluster(self.cluster).to_owned();
        OwnerTags {
            cluster: Some(cluster),
            service: Some(self.uid().to_owned()),
        }
    }

    /// Returns `true` if the Service does not need a load balancer any more: it is being deleted, or has another type.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        leaves(self.service)
    }

    /// Returns every name, UID and tag by which the load balancer may be found.
    pub(super) fn handles(&self) -> impl Iterator<Item = &str> {
        let names = [&self.name]
            .into_iter()
            .chain(&self.other_names)
            .map(String::as_str);
        names
            .chain([self.uid()])
            .chain(self.legacy_owner.as_deref())
    }
}

/// Returns `true` if the load balancer has one of these addresses or host names.
fn is_at(actual: &ObservedLoadBalancer, addresses: &[String]) -> bool {
    let mut own_ingress = actual
        .ingress
        .iter()
        .flat_map(|ingress| [&ingress.ip, &ingress.hostname])
        .flatten();
    own_ingress.any(|address| addresses.contains(address))
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service
        .metadata
        .annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

fn leaves(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    service.metadata.deletion_timestamp.is_some() || kind.is_some_and(|kind| kind != "LoadBalancer")
}

/// The relation of one load balancer to a Service.
#[derive(Debug)]
enum Claim {
    /// The owner tags name the Service.
    Tagged,
    /// No owner tags, but the legacy owner tag names the Service.
    LegacyTagged,
    /// The owner tags name a deleted Service of this cluster, and the name fits: free to be adopted.
    Orphaned,
    /// No owner, the name fits, and the provider adopts such load balancers.
    Named,
    /// The load balancer belongs to another owner, and is refused.
    Foreign(Error),
}

/// The load balancers that were found, sorted by their relation to the Service.
#[derive(Default)]
pub(super) struct OwnershipResult {
    /// The Service's own, load balancers of the requested kind first. The first of these is the one that counts.
    pub(super) ours: Vec<Shared>,
    /// The number of own load balancers of another kind.
    of_other_kinds: usize,
    /// The load balancer of a deleted Service, under our name.
    pub(super) orphaned: Option<Shared>,
    /// A load balancer without an owner, under our name.
    pub(super) named: Option<Shared>,
    /// The error for a load balancer under our name that cannot be used.
    pub(super) refusal: Option<Error>,
    /// The requested load balancer, if the Service does not own it yet; or the error if it cannot have it.
    pub(super) requested: Option<Result<Shared>>,
    /// The result of the search for the requested load balancer.
    choice: Choice,
    /// If set, the Service's load balancer is being replaced by a new one.
    pub(super) is_replacing: bool,
    /// If set, none of the Service's load balancers fits: a new one is created.
    pub(super) replaces_all: bool,
}

/// The search result for the load balancer that a Service requests.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Choice {
    #[default]
    Unsaid,
    /// The requested load balancer is none of those that were found.
    Elsewhere,
    Found,
}

impl OwnershipResult {
    pub(super) fn new(found: Vec<Shared>, identity: &Identity<'_>, others: &Others<'_>) -> Self {
        let mut result = Self::default();
        for actual in found {
            let is_requested = identity.requests(&actual);
            result.choice = match is_requested {
                Some(true) => Choice::Found,
                Some(false) if result.choice == Choice::Unsaid => Choice::Elsewhere,
                _ => result.choice,
            };
            match claim(&actual, identity, others) {
                Claim::Tagged | Claim::LegacyTagged => result.ours.push(actual),
                // A load balancer of another kind has a name of its own, and is never what a Service gets.
                _ if actual.kind != identity.kind && is_requested != Some(true) => {}
                Claim::Orphaned | Claim::Named if is_requested == Some(true) => {
                    result.requested = Some(Ok(actual));
                }
                Claim::Foreign(err) if is_requested == Some(true) => {
                    result.requested = Some(Err(err));
                }
                Claim::Orphaned => result.orphaned = Some(actual),
                Claim::Named => result.named = Some(actual),
                Claim::Foreign(err) => result.refusal = Some(err),
            }
        }
        let is_shown = |actual: &ObservedLoadBalancer| identity.shows(actual);
        let is_requested = |actual: &ObservedLoadBalancer| identity.requests(actual) == Some(true);
        if result.choice == Choice::Found {
            // Another cluster may have a Service with the same legacy owner tag: this Service owns the ones whose
            // address it shows.
            result.ours.retain(|load_balancer| {
                load_balancer.owner_tags != OwnerTags::default()
                    || is_requested(load_balancer)
                    || is_shown(load_balancer)
            });
        }
        // Of two, the requested one comes first; else the one whose address users know, then the one that serves.
        result.ours.sort_by_cached_key(|actual| {
            let graph = actual.graph.as_ref();
            (
                actual.kind != identity.kind,
                !is_requested(actual),
                !is_shown(actual),
                !identity.records(actual),
                graph.is_none_or(|graph| graph.balancer_attributes().is_none()),
                !graph.is_some_and(ResourceGraph::serves),
                (actual.created.is_none(), actual.created),
                actual.id.clone(),
            )
        });
        result.of_other_kinds = result
            .ours
            .iter()
            .filter(|actual| actual.kind != identity.kind)
            .count();
        result
    }

    /// Returns the Service's own load balancers of the kind that it requests.
    pub(super) fn of_its_kind(&self) -> &[Shared] {
        self.ours
            .get(..self.ours.len() - self.of_other_kinds)
            .unwrap_or_default()
    }

    /// Returns a result with a load balancer that is known to be the Service's own, without a search.
    pub(super) fn of(own: Option<Shared>) -> Self {
        Self {
            ours: own.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the result with the load balancer that counts as it was read again; `None` if it no longer exists.
    pub(super) fn with_first(mut self, seen: Option<Shared>) -> Option<Self> {
        let seen = seen?;
        let known = self
            .ours
            .iter_mut()
            .chain(&mut self.orphaned)
            .chain(&mut self.named);
        let known = known.chain(self.requested.iter_mut().flatten());
        known
            .filter(|actual| actual.id == seen.id)
            .for_each(|actual| actual.clone_from(&seen));
        Some(self)
    }

    /// Returns the Service's own load balancers except for the one that counts.
    pub(super) fn surplus(&self) -> &[Shared] {
        let has_one =
            self.requested.is_none() && !self.of_its_kind().is_empty() && !self.replaces_all;
        let counts = usize::from(has_one);
        self.ours.get(counts..).unwrap_or_default()
    }

    /// Returns `true` if the Service moves to another load balancer: to the requested one, to one of another kind, or to
    /// one that replaces its own.
    pub(super) fn moves(&self) -> bool {
        let is_elsewhere =
            self.choice == Choice::Found || self.of_other_kinds > 0 || self.is_replacing;
        !self.surplus().is_empty() && is_elsewhere
    }

    /// Returns the load balancer of another kind that the Service leaves in this very sync.
    pub(super) fn changes_kind(&self) -> Option<&Shared> {
        let is_new = self.choice != Choice::Found
            && self.of_its_kind().is_empty()
            && self.of_other_kinds > 0;
        let carries = |actual: &&Shared| {
            actual
                .graph
                .as_ref()
                .is_none_or(|graph| graph.balancer_attributes().is_some())
        };
        self.ours.first().filter(carries).filter(|_| is_new)
    }

    /// Returns `true` if the load balancer to which the Service moves is one that was created for the move.
    pub(super) fn creates(&self) -> bool {
        self.choice != Choice::Found && (self.is_replacing || self.of_other_kinds > 0)
    }

    /// Returns `true` if a certain read is needed before any change: the requested load balancer was not seen, or
    /// another Service may own it by now.
    pub(super) fn needs_certain_read(&self) -> bool {
        self.choice == Choice::Elsewhere || self.requested.is_some() || self.is_only_named()
    }

    /// Checks that surplus load balancers may be deleted: only those that carry owner tags. Of two that carry only the
    /// legacy owner tag, which users can write too, it is unknown which one is meant.
    pub(super) fn check_surplus(&self) -> Result<()> {
        if self.choice == Choice::Found {
            return Ok(());
        }
        let untagged = self
            .of_its_kind()
            .iter()
            .skip(1)
            .find(|load_balancer| load_balancer.owner_tags == OwnerTags::default());
        match (self.of_its_kind().first(), untagged) {
            (Some(first), Some(other)) => Err(Error::invalid(format!(
                "{} and {} both carry the legacy owner tag of this Service; remove it from one of them, or delete that one",
                first.place(),
                other.place()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns `true` if no load balancer was found at all.
    pub(super) fn is_empty(&self) -> bool {
        let has_none = self.ours.is_empty() && self.orphaned.is_none() && self.named.is_none();
        has_none && self.requested.is_none() && self.refusal.is_none()
    }

    /// Returns the load balancer that is to be adopted.
    pub(super) fn to_take_over(&self) -> Option<&Shared> {
        if let Some(Ok(requested)) = &self.requested {
            return Some(requested);
        }
        self.orphaned
            .as_ref()
            .or(self.named.as_ref())
            .filter(|_| self.of_its_kind().is_empty())
    }

    /// Returns `true` if the load balancer is to be adopted for its name alone.
    fn is_only_named(&self) -> bool {
        self.of_its_kind().is_empty() && self.orphaned.is_none() && self.named.is_some()
    }

    /// Returns the load balancer that the desired state is applied to.
    pub(super) fn for_changes(&self) -> Result<Option<&Shared>> {
        if let Some(requested) = &self.requested {
            return requested.as_ref().map(Some).map_err(Clone::clone);
        }
        self.check_surplus()?;
        if self.replaces_all {
            return Ok(None);
        }
        let found = self
            .of_its_kind()
            .first()
            .or(self.orphaned.as_ref())
            .or(self.named.as_ref());
        match (found, &self.refusal) {
            (None, Some(refusal)) => Err(refusal.clone()),
            (found, _) => Ok(found),
        }
    }
}

/// The context of an ownership decision: the cluster's other Services, and the provider's rules.
pub(super) struct Others<'a> {
    /// The Services of the cluster.
    pub(super) caches: Option<&'a dyn Caches>,
    /// Returns the properties by which the load balancer of a Service is known.
    pub(super) naming: &'a (dyn Fn(&Service) -> Naming + Sync),
    /// Returns `true` if several Services may share the load balancer.
    pub(super) is_shared: &'a (dyn Fn(&ObservedLoadBalancer) -> bool + Sync),
    /// Decides if the provider adopts a load balancer without an owner.
    pub(super) adopts: &'a (dyn Fn(&ObservedLoadBalancer) -> Adoption + Sync),
}

fn claim(actual: &ObservedLoadBalancer, identity: &Identity<'_>, others: &Others<'_>) -> Claim {
    let cluster = identity.cluster;
    let refused = |whose: &str, what_to_do: &str| {
        let text = format!("{} {whose}; it is left alone. {what_to_do}", actual.place());
        Claim::Foreign(Error::invalid(text))
    };
    let belongs_to = |name: &str| {
        refused(
            &format!("belongs to Service {name} of this cluster"),
            "Give one of the two another name for its load balancer",
        )
    };
    let is_for_this_service = actual.owner_tags.service.as_deref() == Some(identity.uid());
    let has_legacy_tag =
        |services: &[Arc<Service>]| owner_by_legacy_tag(actual, identity, others, services);
    match (
        actual.owner_tags.cluster.as_deref(),
        actual.owner_tags.service.as_deref(),
    ) {
        (None, None) if identity.has_legacy_tag(actual) => {
            match shown_by_another(actual, identity, others) {
                Some(name) => belongs_to(&name),
                None => Claim::LegacyTagged,
            }
        }
        (None, None) => match has_legacy_tag(&others.services()) {
            Owner::Alive(name) => belongs_to(&name),
            owner @ (Owner::Gone | Owner::Unknown) => {
                let is_meant =
                    actual.name == identity.name || identity.requests(actual) == Some(true);
                let adoption = match ((others.adopts)(actual), is_meant) {
                    (Adoption::Adopt | Adoption::RefuseUnless(_), false) => Adoption::Refuse,
                    (adoption, _) => adoption,
                };
                if adoption == Adoption::Adopt && matches!(owner, Owner::Gone) {
                    return match shown_by_another(actual, identity, others) {
                        Some(name) => belongs_to(&name),
                        None => Claim::Named,
                    };
                }
                let owner_tags = format!(
                    "{}={}, {}={}",
                    OwnerTags::CLUSTER,
                    OwnerTags::cluster(cluster),
                    OwnerTags::SERVICE,
                    identity.uid()
                );
                let advice = match adoption {
                    Adoption::RefuseWithAdvice(advice) => advice,
                    Adoption::RefuseUnless(hint) => {
                        format!("add owner tags to have it adopted: {owner_tags}, {hint}")
                    }
                    Adoption::Adopt | Adoption::Refuse => {
                        format!("add owner tags to have it adopted: {owner_tags}")
                    }
                };
                refused(
                    "carries no owner tags of this cluster",
                    &format!("Rename or delete it, or {advice}"),
                )
            }
        },
        // The tags were written before the cluster's ID could be read, or while it cannot be read: a Service's UID is
        // unique.
        (Some(tag), _) if is_for_this_service && (tag == cluster.name || cluster.id.is_none()) => {
            Claim::Tagged
        }
        (Some(tag), _) if tag != OwnerTags::cluster(cluster) => refused(
            &format!("carries the owner tags of another cluster, {tag:?}"),
            "Delete it there, remove its owner tags if that cluster no longer exists, or give this Service another name \
             for its load balancer",
        ),
        (_, Some(_)) if is_for_this_service => Claim::Tagged,
        (_, None) => refused(
            "carries the owner tags of this cluster, but of no Service",
            "Rename or delete it",
        ),
        (tag, Some(other)) => {
            let services = others.services();
            match (
                owner(identity, &services, |owner| {
                    owner.metadata.uid.as_deref() == Some(other)
                }),
                has_legacy_tag(&services),
            ) {
                (Owner::Alive(name), _) | (_, Owner::Alive(name)) => belongs_to(&name),
                // Two clusters may have the same name; only an ID proves that the deleted Service was this cluster's.
                (Owner::Gone, _) if cluster.id.is_some() && tag == cluster.id.as_deref() => {
                    Claim::Orphaned
                }
                _ => refused(
                    &format!(
                        "carries the owner tags of another Service of this cluster, or of one with its name, with UID {other}"
                    ),
                    "Delete it if that Service no longer exists",
                ),
            }
        }
    }
}

/// Returns who owns a load balancer, seen from a Service.
pub(super) fn ownership(
    actual: &ObservedLoadBalancer,
    identity: &Identity<'_>,
    others: &Others<'_>,
) -> Ownership {
    match claim(actual, identity, others) {
        Claim::Tagged | Claim::LegacyTagged => Ownership::Own,
        Claim::Orphaned | Claim::Named => Ownership::Free,
        Claim::Foreign(refusal) => Ownership::Foreign(refusal.to_string()),
    }
}

impl Others<'_> {
    fn services(&self) -> Vec<Arc<Service>> {
        self.caches.map(Caches::services).unwrap_or_default()
    }
}

enum Owner {
    Alive(String),
    Gone,
    Unknown,
}

/// Returns the other Service that the legacy owner tag names.
fn owner_by_legacy_tag(
    actual: &ObservedLoadBalancer,
    identity: &Identity<'_>,
    others: &Others<'_>,
    services: &[Arc<Service>],
) -> Owner {
    let is_ours = actual.legacy_owner == identity.legacy_owner;
    owner(identity, services, |owner| {
        !is_ours
            && actual.legacy_owner.is_some()
            && (others.naming)(owner).legacy_owner == actual.legacy_owner
    })
}

/// Returns the other existing Service that shows a load balancer without owner tags, and has it for that reason: a copy
/// of a Service names the load balancer of the original in an annotation. The name of a load balancer that contains the
/// Service's UID cannot be copied.
fn shown_by_another(
    actual: &ObservedLoadBalancer,
    identity: &Identity<'_>,
    others: &Others<'_>,
) -> Option<String> {
    let is_named_after_us = actual.name == default_load_balancer_name(identity.service);
    if is_named_after_us || identity.shows(actual) || (others.is_shared)(actual) {
        return None;
    }
    let id = actual.id.split('/').next();
    let names = |service: &Service, naming: &Naming| {
        let recorded = naming.recorded_id.as_deref();
        let stated = [
            naming.requested_id.as_deref(),
            recorded,
            annotation(service, ANNOTATION_LOAD_BALANCER_ID),
        ];
        let is_tagged = actual.legacy_owner.is_some() && naming.legacy_owner == actual.legacy_owner;
        is_tagged
            || stated
                .into_iter()
                .flatten()
                .any(|stated| Some(stated) == id)
    };
    let age = |service: &Service| {
        service
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0)
    };
    let services = others.services();
    let rest = services
        .iter()
        .filter(|service| service.metadata.uid.as_deref() != Some(identity.uid()));
    let rest: Vec<_> = rest
        .map(|service| (service, (others.naming)(service)))
        .collect();
    let shows = rest
        .iter()
        .find(|(_, naming)| is_at(actual, &naming.published_addresses));
    let is_older = |service: &Service| match (age(service), age(identity.service)) {
        (Some(theirs), Some(ours)) => theirs < ours,
        _ => false,
    };
    let named = || {
        rest.iter()
            .find(|(service, naming)| names(service, naming) && is_older(service))
    };
    shows.or_else(named).map(|(service, _)| full_name(service))
}

/// Returns the Service for which `is_wanted` holds. A cache that does not even contain the Service at hand proves nothing.
fn owner(
    identity: &Identity<'_>,
    services: &[Arc<Service>],
    is_wanted: impl Fn(&Service) -> bool,
) -> Owner {
    if let Some(owner) = services.iter().find(|service| is_wanted(service)) {
        return Owner::Alive(full_name(owner));
    }
    let knows_us = services
        .iter()
        .any(|service| service.metadata.uid.as_deref() == Some(identity.uid()));
    if knows_us {
        Owner::Gone
    } else {
        Owner::Unknown
    }
}

/// Returns `true` if the load balancer has failed and all Services that share it are leaving: then it is deleted as a
/// whole.
pub(super) fn is_left_by_all(
    actual: &ObservedLoadBalancer,
    identity: &Identity<'_>,
    caches: Option<&dyn Caches>,
) -> bool {
    let all_go = |all: &Vec<OwnerTags>| {
        all.iter()
            .all(|owner_tags| is_going(owner_tags, identity, caches))
    };
    matches!(actual.state, State::Failed(_)) && actual.sharers.as_ref().is_some_and(all_go)
}

/// Returns `true` if these are the owner tags of a Service of this cluster that is leaving or no longer exists.
fn is_going(owner_tags: &OwnerTags, identity: &Identity<'_>, caches: Option<&dyn Caches>) -> bool {
    let services = caches.map(Caches::services).unwrap_or_default();
    let of = |uid: Option<&str>| {
        services
            .iter()
            .find(|service| uid.is_some() && service.metadata.uid.as_deref() == uid)
    };
    // A cache that does not even contain the Service at hand proves nothing; nor does a name that two clusters may
    // have.
    let is_known = of(Some(identity.uid())).is_some() && owner_tags.service.is_some();
    let is_of_cluster = identity.cluster.id.is_some() && owner_tags.cluster == identity.cluster.id;
    is_known
        && is_of_cluster
        && of(owner_tags.service.as_deref()).is_none_or(|service| leaves(service))
}

pub(super) fn full_name(service: &Service) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!(
        "{}/{}",
        part(&service.metadata.namespace),
        part(&service.metadata.name)
    )
}

/// Returns the name of the Service with this UID, if it exists.
pub(super) fn living(uid: &str, caches: Option<&dyn Caches>) -> Option<String> {
    let services = caches.map(Caches::services).unwrap_or_default();
    let found = services
        .iter()
        .find(|service| service.metadata.uid.as_deref() == Some(uid));
    found.map(|service| full_name(service))
}

#[cfg(test)]
mod tests {
    use cloud_provider::Node;
    use serde_json::json;

    use super::*;

    struct Known(Vec<Arc<Service>>);

    impl Caches for Known {
        fn nodes(&self) -> Vec<Arc<Node>> {
            Vec::new()
        }
        fn node(&self, _name: &str) -> Option<Arc<Node>> {
            None
        }
        fn services(&self) -> Vec<Arc<Service>> {
            self.0.clone()
        }
    }

    fn service(uid: &str) -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": uid, "uid": uid}}))
            .unwrap()
    }

    #[derive(Clone, Debug)]
    struct Case {
        cluster: Option<&'static str>,
        service: Option<&'static str>,
        legacy_owner: Option<&'static str>,
        name: &'static str,
        adopts: bool,
        cluster_has_id: bool,
        knows_us: bool,
    }

    fn all_cases() -> Vec<Case> {
        let mut cases = Vec::new();
        let clusters = [None, Some("c1"), Some("kubernetes"), Some("c2")];
        let uids = [None, Some("us"), Some("live"), Some("dead")];
        for (cluster, service) in clusters
            .iter()
            .flat_map(|cluster| uids.iter().map(move |uid| (*cluster, *uid)))
        {
            for (legacy_owner, name) in uids
                .iter()
                .flat_map(|legacy_owner| ["ours", "other"].map(|name| (*legacy_owner, name)))
            {
                for bits in 0..8_u8 {
                    let [adopts, cluster_has_id, knows_us] = [1, 2, 4].map(|bit| bits & bit != 0);
                    cases.push(Case {
                        cluster,
                        service,
                        legacy_owner,
                        name,
                        adopts,
                        cluster_has_id,
                        knows_us,
                    });
                }
            }
        }
        cases
    }

    fn decide(case: &Case) -> Claim {
        let id = case.cluster_has_id.then(|| "c1".to_owned());
        let us = service("us");
        let cluster = Cluster {
            name: "kubernetes".into(),
            id,
        };
        let legacy_owner = |service: &Service| {
            service
                .metadata
                .uid
                .as_ref()
                .map(|uid| format!("tag of {uid}"))
        };
        let naming_of = |service: &Service| Naming {
            legacy_owner: legacy_owner(service),
            ..Naming::of(service)
        };
        let name = "ours".to_owned();
        let legacy_owner_of_us = legacy_owner(&us);
        let naming = Naming {
            name,
            former_names: vec!["other".into()],
            legacy_owner: legacy_owner_of_us,
            writes_legacy_owner: true,
            ..Naming::default()
        };
        let identity = Identity::new(&cluster, &us, naming);
        let known = if case.knows_us {
            vec![service("live"), us.clone()]
        } else {
            Vec::new()
        };
        let known = Known(known.into_iter().map(Arc::new).collect());
        let owner_tags = OwnerTags {
            cluster: case.cluster.map(str::to_owned),
            service: case.service.map(str::to_owned),
        };
        let legacy_owner_of_it = case.legacy_owner.map(|uid| format!("tag of {uid}"));
        let actual = ObservedLoadBalancer {
            id: "lb".into(),
            name: case.name.into(),
            owner_tags,
            legacy_owner: legacy_owner_of_it,
            ..ObservedLoadBalancer::default()
        };
        claim(
            &actual,
            &identity,
            &Others {
                caches: Some(&known),
                naming: &naming_of,
                is_shared: &|_| false,
                adopts: &|_| {
                    if case.adopts {
                        Adoption::Adopt
                    } else {
                        Adoption::Refuse
                    }
                },
            },
        )
    }

    /// The table of the module documentation, inverted: the conditions for each claim.
    #[test]
    fn ownership_is_decided_in_every_case() {
        for case in all_cases() {
            let claim = decide(&case);
            let is_free = case.cluster.is_none() && case.service.is_none();
            let lives = |uid: Option<&str>| uid == Some("live") && case.knows_us;
            let our_tag = if case.cluster_has_id {
                "c1"
            } else {
                "kubernetes"
            };
            let is_ours = case.service == Some("us")
                && case.cluster.is_none_or(|tag| {
                    tag == our_tag || tag == "kubernetes" || !case.cluster_has_id
                });
            let has_legacy_tag = is_free && case.legacy_owner == Some("us");
            let orphaned = case.cluster == Some("c1")
                && case.cluster_has_id
                && case.knows_us
                && case.service == Some("dead")
                && !lives(case.legacy_owner);
            let named = is_free
                && case.adopts
                && case.knows_us
                && case.name == "ours"
                && case.legacy_owner != Some("us")
                && !lives(case.legacy_owner);
            let expected = match (is_ours, has_legacy_tag, orphaned, named) {
                (true, ..) => "Tagged",
                (_, true, ..) => "LegacyTagged",
                (_, _, true, _) => "Orphaned",
                (.., true) => "Named",
                _ => "Foreign",
            };
            let got = format!("{claim:?}");
            assert!(got.starts_with(expected), "{case:?}: {got}");
            let is_another_clusters = case.cluster.is_some_and(|tag| tag != our_tag);
            if let Claim::Foreign(err) = claim
                && !is_another_clusters
                && (lives(case.service) || (is_free && lives(case.legacy_owner)))
            {
                assert!(
                    err.is_invalid()
                        && err
                            .to_string()
                            .contains("Service shop/live of this cluster"),
                    "{err}"
                );
            }
        }
    }

    #[test]
    fn load_balancer_found_by_name_alone_is_neither_own_nor_surplus() {
        let us = service("us");
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: Some("c1".into()),
        };
        let naming = Naming {
            name: "ours".into(),
            ..Naming::default()
        };
        let identity = Identity::new(&cluster, &us, naming);
        let known = Known(vec![Arc::new(us.clone())]);
        let others = Others {
            caches: Some(&known),
            naming: &Naming::of,
            is_shared: &|_| false,
            adopts: &|_| Adoption::Adopt,
        };
        let named = || {
            Arc::new(ObservedLoadBalancer {
                id: "named".into(),
                name: "ours".into(),
                ..ObservedLoadBalancer::default()
            })
        };
        let result = OwnershipResult::new(vec![named(), named()], &identity, &others);
        assert!(result.ours.is_empty() && result.surplus().is_empty() && result.is_only_named());
        assert_eq!(result.for_changes().unwrap().unwrap().id, "named");
        let tagged = ObservedLoadBalancer {
            id: "tagged".into(),
            owner_tags: identity.owner_tags(),
            ..ObservedLoadBalancer::default()
        };
        let result =
            OwnershipResult::new(vec![named(), tagged.into(), named()], &identity, &others);
        assert_eq!(
            (
                result.ours.len(),
                result.surplus().len(),
                result.to_take_over().is_some()
            ),
            (1, 0, false)
        );
        assert_eq!(result.for_changes().unwrap().unwrap().id, "tagged");
    }
}
