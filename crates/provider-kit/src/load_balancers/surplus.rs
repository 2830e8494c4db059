//! The decision about a Service's load balancers besides the one that counts: which ones this program left behind in a
//! move, which ones are twins that stay, and which one must be replaced. Pure.

use std::collections::{HashMap, HashSet};

use cloud_provider::Result;
use parking_lot::Mutex;

use super::cloud::Replacement;
use super::dyn_cloud::DynLoadBalancerCloud;
use super::model::{ObservedLoadBalancer, ResourceGraph, Shared};
use super::ownership::{Identity, OwnershipResult};

impl OwnershipResult {
    /// Chooses the load balancer that an `ensure` changes, if the first one must be replaced: another own one that needs
    /// no replacement (the replacement was interrupted), or none, so that a new one is created. Returns the load balancer
    /// to be replaced, with the order.
    ///
    /// # Errors
    /// *Invalid*, if the user has not allowed the replacement.
    pub(super) fn replace(
        &mut self,
        cloud: &dyn DynLoadBalancerCloud,
        desired: &ResourceGraph,
        identity: &Identity<'_>,
    ) -> Result<Option<(Shared, Replacement)>> {
        let can_be_replaced = |actual: &&Shared| {
            identity.owns(actual)
                && !actual.adopted
                && actual.foreign.is_empty()
                && actual.graph.is_some()
        };
        let Some(first) = self
            .of_its_kind()
            .first()
            .filter(|_| self.requested.is_none())
            .filter(can_be_replaced)
            .cloned()
        else {
            return Ok(None);
        };
        let replacement = cloud.replacement(desired, &first, identity)?;
        if let Replacement::NewFirst(_) = replacement {
            let fits = |actual: &Shared| {
                can_be_replaced(&actual)
                    && matches!(
                        cloud.replacement(desired, actual, identity),
                        Ok(Replacement::None)
                    )
            };
            match self.of_its_kind().iter().position(fits) {
                Some(at) => self.ours[..=at].rotate_right(1),
                None => self.replaces_all = true,
            }
            self.is_replacing = true;
        }
        Ok((replacement != Replacement::None).then_some((first, replacement)))
    }

    /// Returns `true` if the Service gets another load balancer in this very sync: a new one, or one that it takes over.
    pub(super) fn is_moving_now(&self) -> bool {
        self.requested.is_some() || self.replaces_all || self.of_its_kind().is_empty()
    }

    /// Divides the surplus load balancers into those that this program left behind in a move, which are deleted, and
    /// twins, which stay: somebody may have made one with the Service's owner tags, and traffic may reach it.
    ///
    /// A move is proven if it happens in this very sync (`is_now`) for the load balancer that counted until now, if the
    /// Service still shows the surplus load balancer, or if its annotation records that the move has got that far. What
    /// has no load balancer, but only auxiliary resources, carries no traffic.
    pub(super) fn sorted_surplus(
        &self,
        cloud: &dyn DynLoadBalancerCloud,
        desired: Option<&ResourceGraph>,
        identity: &Identity<'_>,
        is_now: bool,
    ) -> (Vec<Shared>, Vec<Shared>) {
        let recorded = identity.superseded();
        let is_replaced = |actual: &ObservedLoadBalancer| {
            let replacement = desired.map(|desired| cloud.replacement(desired, actual, identity));
            self.is_replacing && matches!(replacement, Some(Ok(Replacement::NewFirst(_))))
        };
        let counted = |actual: &ObservedLoadBalancer| {
            self.ours.first().is_some_and(|first| first.id == actual.id)
        };
        let is_left_behind = |actual: &&Shared| {
            let is_remnant = actual
                .graph
                .as_ref()
                .is_some_and(|graph| graph.balancer_attributes().is_none());
            is_remnant
                || recorded.contains(&&*actual.id)
                || self.moves()
                    && (is_now && counted(actual)
                        || identity.shows(actual)
                        || identity.records(actual)
                        || is_replaced(actual))
        };
        self.surplus()
            .iter()
            .cloned()
            .partition(|actual| is_left_behind(&actual))
    }
}

/// Returns the text of the warning that a load balancer is going to be replaced.
pub(super) fn replacing(from: &ObservedLoadBalancer, changes: &str, interrupts: bool) -> String {
    let how = match interrupts {
        true => {
            "it is deleted before a new one is created, so the Service is not reachable in between"
        }
        false => {
            "a new one is created first, and this one is deleted when the Service shows the new address"
        }
    };
    format!(
        "{} cannot be changed in place ({changes}): {how}",
        from.place()
    )
}

/// Returns the text of the warning that a twin stays.
pub(super) fn stays(twin: &ObservedLoadBalancer, kept: &ObservedLoadBalancer) -> String {
    format!(
        "{} carries the owner tags of this Service, which uses {}. It is neither changed nor deleted as long as the \
         Service exists; delete it, or remove its owner tags",
        twin.place(),
        kept.place()
    )
}

/// The warnings that were reported, by the UID of the Service.
#[derive(Default)]
pub(super) struct Warned(Mutex<HashMap<String, HashSet<String>>>);

impl Warned {
    /// Returns `true` the first time that the Service has this warning.
    pub(super) fn is_new(&self, uid: &str, text: &str) -> bool {
        self.0
            .lock()
            .entry(uid.to_owned())
            .or_default()
            .insert(text.to_owned())
    }

    /// Forgets a Service that has no load balancer any more.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
