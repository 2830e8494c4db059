//! BLBs of users, and BLBs that nothing connects with the Service that they may have been created for.

use cloud_provider::{Error, EventSubject, Result, Service};
use provider_kit::load_balancers::{
    Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, check_adoptable_tag,
};
use provider_kit::status::shown;
use provider_kit::text_tags::ADOPTED;

use super::legacy::{generated_names, legacy_name};
use super::object::{Blb, DESCRIPTION, KEPT_EIP, LONGEST_DESCRIPTION, POOL, VPC, described};
use super::{BlbLoadBalancers, is_lent, text_on};
use crate::annotations as key;

/// Returns `true` if the owner tags of the BLB name the Service.
fn is_tagged(service: &Service, observed: &ObservedLoadBalancer) -> bool {
    let uid = service.metadata.uid.as_deref();
    uid.is_some() && observed.owner_tags.service.as_deref() == uid
}

/// Returns `true` if the status of the Service shows the BLB. The author of a Service cannot write the status.
fn is_shown(service: &Service, observed: &ObservedLoadBalancer) -> bool {
    shown(service).iter().any(|entry| {
        entry.ip.is_some()
            && observed
                .ingress
                .iter()
                .any(|own_entry| own_entry.ip == entry.ip)
    })
}

/// Returns `true` if the BLB serves the Service already: by its owner tags, or because the Service shows it. An annotation
/// with its ID proves nothing, because the author of the Service can write that, too.
pub(super) fn is_in_use(service: &Service, observed: &ObservedLoadBalancer) -> bool {
    is_tagged(service, observed) || is_shown(service, observed)
}

impl BlbLoadBalancers {
    /// Returns `true` if the BLB was not created for the Service, which uses it because annotations name it: such a BLB is
    /// never deleted, and must not be in use. A BLB without owner tags was created for the Service if this cluster
    /// generated it, and the Service shows it or its name is the generated one.
    pub(super) fn is_adoption(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> bool {
        let service = identity.service;
        if observed.adopted || is_tagged(service, observed) {
            return observed.adopted;
        }
        let name = legacy_name(&observed.name);
        let has_generated_name = generated_names(&self.api.config.cluster, service).contains(&name);
        let is_requested = identity.requested_id.as_ref() == Some(&observed.id);
        let is_created = has_generated_name || is_shown(service, observed) && !is_requested;
        is_lent(service, &observed.id) || !is_created
    }

    /// Refuses to adopt a BLB whose description lacks the word that an administrator requires. A BLB has no tags.
    pub(super) fn check_tag(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> Result<()> {
        if is_tagged(identity.service, observed) || !self.is_adoption(identity, observed) {
            return Ok(());
        }
        let words = observed
            .labels
            .get(DESCRIPTION)
            .into_iter()
            .flat_map(|text| text.split_whitespace());
        check_adoptable_tag(
            &observed.place(),
            self.api.config.adoptable_tag.as_ref(),
            words,
        )
    }

    /// Returns the BLB with words in its description, if the Service only [adopts](Self::is_adoption) it: they say that it
    /// stays, and that the EIP which it has stays bound.
    pub(super) fn signed(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> ObservedLoadBalancer {
        let mut signed = observed.clone();
        if is_tagged(identity.service, observed) || !self.is_adoption(identity, observed) {
            return signed;
        }
        let text = observed
            .labels
            .get(DESCRIPTION)
            .map(String::as_str)
            .filter(|text| !text.is_empty());
        let has_eip = observed
            .ingress
            .iter()
            .any(|ingress| ingress.ip_mode.is_some());
        let words = text
            .into_iter()
            .chain((!observed.adopted).then_some(ADOPTED));
        let words: Vec<_> = words.chain(has_eip.then_some(KEPT_EIP)).collect();
        let whole = words.join(" ");
        let is_short =
            described(&identity.owner_tags(), &whole).chars().count() <= LONGEST_DESCRIPTION;
        if is_short || !observed.adopted {
            signed.labels.insert(DESCRIPTION.to_owned(), whole);
        }
        signed.adopted = true;
        signed
    }

    /// Warns of BLBs that have the name of a leaving Service, and no sign that they were created for it: they stay.
    pub(super) fn report_without_owner(
        &self,
        identity: &Identity<'_>,
        found: &[ObservedLoadBalancer],
    ) {
        let is_without_owner = |load_balancer: &&ObservedLoadBalancer| {
            let is_free = load_balancer.owner_tags == OwnerTags::default()
                && load_balancer.legacy_owner != identity.legacy_owner;
            is_free && load_balancer.adopted && load_balancer.name == identity.name
        };
        for object in found.iter().filter(is_without_owner) {
            self.report_kept(identity.service, &object.place());
        }
    }

    /// Warns of a BLB that stays when its Service is deleted, because nothing says that it was created for the Service.
    pub(super) fn report_kept(&self, service: &Service, place: &str) {
        let text = format!(
            "{place} stays, with its EIP: its description and name do not show that it was created for this Service, so it \
             counts as one of yours. Delete both if you do not need them"
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(service),
            "LoadBalancerKept",
            &text,
        );
    }

    /// Refuses a BLB of the user that has listeners or backends for something else: all TCP and UDP listeners and all
    /// backends of a BLB are those of one Service. Nodes that change must not replace the backends either.
    pub(super) fn check_unused(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        seen: &ResourceGraph,
        identity: &Identity<'_>,
    ) -> Result<()> {
        if !self.is_adoption(identity, observed) || is_in_use(identity.service, observed) {
            return Ok(());
        }
        let listeners: Vec<_> = seen.listeners().map(|(port, _)| port.to_string()).collect();
        let nodes = desired.targets_of(POOL);
        let current_targets = seen.targets_of(POOL);
        let backends: Vec<_> = current_targets
            .iter()
            .filter(|id| !nodes.contains(id))
            .collect();
        if listeners.is_empty() && backends.is_empty() {
            return Ok(());
        }
        let shown = |all: String| {
            if all.is_empty() {
                "none".to_owned()
            } else {
                all
            }
        };
        Err(Error::invalid(format!(
            "{} is in use (listeners: {}; backends that are no Nodes: {}), and a Service needs a BLB of its own; delete its \
             listeners and backends, or name another BLB",
            observed.place(),
            shown(listeners.join(", ")),
            shown(backends.join(", "))
        )))
    }

    /// Refuses a BLB of another VPC, whose backends would not be the Nodes.
    pub(super) fn check_vpc(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> Result<()> {
        match (observed.labels.get(VPC), self.place.known_vpc()) {
            (Some(vpc), Some(service_vpc))
                if vpc != service_vpc && self.is_adoption(identity, observed) =>
            {
                Err(Error::invalid(format!(
                    "{} is in VPC {vpc}, not in VPC {service_vpc} of the cluster; name a BLB of this VPC",
                    observed.place()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Notes the subnet of a BLB in a list.
    pub(super) fn note_subnet(&self, blb: &Blb) {
        if let Some(subnet) = &blb.subnet {
            self.subnets
                .lock()
                .insert(blb.blb_id.clone(), subnet.clone());
        }
    }

    /// Warns of a subnet that has no effect on a BLB that exists.
    pub(super) fn report_subnet(&self, observed: &ObservedLoadBalancer, service: &Service) {
        let current_subnet = self.subnets.lock().get(&observed.id).cloned();
        let wanted = text_on(service, key::SUBNET_ID.key());
        if let (Some(current_subnet), Some(wanted)) = (current_subnet, wanted)
            && current_subnet != wanted
        {
            let text = format!(
                "annotation {} has no effect: {} stays in subnet {current_subnet}, and is not moved to {wanted}; restore the \
                 annotation, or create the Service again",
                key::SUBNET_ID.key(),
                observed.place()
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "QuestionableSetting",
                &text,
            );
        }
    }

    /// Warns of a name that has no effect on a BLB that exists.
    pub(super) fn report_name(&self, observed: &ObservedLoadBalancer, service: &Service) {
        if let Some(name) = text_on(service, key::NAME.key()).filter(|name| *name != observed.name)
        {
            let text = format!(
                "annotation {} has no effect: {} keeps its name, not {name:?}",
                key::NAME.key(),
                observed.place()
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "QuestionableSetting",
                &text,
            );
        }
    }
}
