//! BLBs of users, and BLBs that nothing connects with the Service that they may have been created for.

use cloud_provider::{Error, EventSubject, Result, Service};
use provider_kit::load_balancers::{Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph};
use provider_kit::status::shown;

use super::object::POOL;
use super::{BlbLoadBalancers, text_on};
use crate::annotations as key;

/// Returns `true` if the BLB serves the Service already: by its owner tags, or because the Service shows it.
pub(super) fn is_in_use(service: &Service, observed: &ObservedLoadBalancer) -> bool {
    let uid = service.metadata.uid.as_deref();
    uid.is_some() && observed.owner_tags.service.as_deref() == uid
        || text_on(service, key::ADDED_ID.key()).as_ref() == Some(&observed.id)
        || shown(service).iter().any(|it| it.ip.is_some() && observed.ingress.iter().any(|own| own.ip == it.ip))
}

impl BlbLoadBalancers {
    /// Warns of BLBs that have the name of a leaving Service, and no sign that they were created for it: they stay.
    pub(super) fn report_without_owner(&self, identity: &Identity<'_>, found: &[ObservedLoadBalancer]) {
        let is_without_owner = |it: &&ObservedLoadBalancer| {
            let is_free = it.owner_tags == OwnerTags::default() && it.legacy_owner != identity.legacy_owner;
            is_free && it.adopted && it.name == identity.name
        };
        for it in found.iter().filter(is_without_owner) {
            self.report_kept(identity.service, &it.place());
        }
    }

    /// Warns of a BLB that stays when its Service is deleted, because nothing says that it was created for the Service.
    pub(super) fn report_kept(&self, service: &Service, place: &str) {
        let generated = self.api.config.description();
        let text = format!(
            "{place} stays, with its EIP: its description does not say {generated:?}, so it counts as one of yours. Delete \
             both if you do not need them"
        );
        self.deduplicator.warn(true, EventSubject::Service(service), "LoadBalancerKept", &text);
    }

    /// Refuses a BLB of the user that has listeners or backends for something else: all TCP and UDP listeners and all
    /// backends of a BLB are those of one Service. Nodes that change must not replace the backends either.
    pub(super) fn check_unused(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        seen: &ResourceGraph,
        service: &Service,
    ) -> Result<()> {
        if !observed.adopted || is_in_use(service, observed) {
            return Ok(());
        }
        let listeners: Vec<_> = seen.listeners().map(|(port, _)| port.to_string()).collect();
        let nodes = desired.targets_of(POOL);
        let there = seen.targets_of(POOL);
        let backends: Vec<_> = there.iter().filter(|id| !nodes.contains(id)).collect();
        if listeners.is_empty() && backends.is_empty() {
            return Ok(());
        }
        let shown = |all: String| if all.is_empty() { "none".to_owned() } else { all };
        Err(Error::invalid(format!(
            "{} is in use (listeners: {}; backends that are no Nodes: {}), and a Service needs a BLB of its own; delete its \
             listeners and backends, or name another BLB",
            observed.place(),
            shown(listeners.join(", ")),
            shown(backends.join(", "))
        )))
    }

    /// Warns of a name that has no effect on a BLB that exists.
    pub(super) fn report_name(&self, observed: &ObservedLoadBalancer, service: &Service) {
        if let Some(name) = text_on(service, key::NAME.key()).filter(|name| *name != observed.name) {
            let text = format!(
                "annotation {} has no effect: {} keeps its name, not {name:?}",
                key::NAME.key(),
                observed.place()
            );
            self.deduplicator.warn(true, EventSubject::Service(service), "QuestionableSetting", &text);
        }
    }
}
