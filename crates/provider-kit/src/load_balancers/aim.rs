//! The operations that a sync requires on one load balancer.

use cloud_provider::{Error, Result};

use super::model::{Actual, OwnerTags, Part, Tree};
use super::ownership::Identity;
use super::plan::{Operation, plan, plan_removal};

/// The goal of a sync for one load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The desired state is reached.
    Ensured,
    /// The targets are the desired ones.
    Targets,
    /// Our owner tags are on the load balancer.
    Tagged,
    /// The load balancer is deleted.
    Deleted,
    /// The load balancer is deleted, except for parts that [outlive](super::Options::outlives) it, because the Service
    /// keeps another load balancer.
    Superseded,
}

impl Aim {
    /// Returns `true` if nothing is left of the load balancer at the end.
    pub(super) const fn deletes(self) -> bool {
        matches!(self, Self::Deleted | Self::Superseded)
    }

    /// Returns `true` if the sync needs the desired state of the Service.
    pub(super) const fn has_desired(self) -> bool {
        matches!(self, Self::Ensured | Self::Targets)
    }
}

/// Returns the operations that lead from `actual` to the aim. `wanted` is the desired state, fitted to `actual`.
pub(super) fn operations(
    wanted: Option<&Tree>,
    actual: Option<&Actual>,
    identity: &Identity<'_>,
    aim: Aim,
) -> Result<Vec<Operation>> {
    let Some(actual) = actual else {
        return Ok(wanted.map(|wanted| plan(wanted, &Tree::default())).unwrap_or_default());
    };
    let tree = actual.known_tree();
    if aim == Aim::Tagged {
        let is_tagged = actual.owner_tags.service.as_deref() == Some(identity.uid());
        return Ok(if is_tagged { Vec::new() } else { vec![Operation::Tag] });
    }
    // The load balancer may belong to another Service by now, or may have been released already.
    if aim.deletes() && !identity.owns(actual) {
        return Ok(Vec::new());
    }
    if wanted.is_none() && actual.adopted {
        return Ok(vec![Operation::Untag]);
    }
    let Some(wanted) = wanted else { return Ok(plan_removal(&tree, !actual.foreign.is_empty())) };
    let targets_only;
    let wanted = if aim == Aim::Targets {
        targets_only = tree.with_targets_of(wanted);
        &targets_only
    } else {
        wanted
    };
    if let Some((part, whose)) = actual.foreign.iter().find(|(part, _)| wanted.parts.contains_key(part)) {
        let text = format!("{part} of {} is {whose}; choose another port or another load balancer", actual.place());
        return Err(Error::invalid(text));
    }
    let mut operations = plan(wanted, &tree);
    let is_created = operations.iter().any(|it| matches!(it, Operation::Create { part: Part::Balancer, .. }));
    if !is_created && is_to_be_tagged(actual, identity, !operations.is_empty()) {
        operations.insert(0, Operation::Tag);
    }
    Ok(operations)
}

/// Returns `true` if the owner tags, and the legacy owner tag that goes with them, must be written. A load balancer
/// that is adopted is tagged in any case, and a load balancer that lost its legacy owner tag gets it back, because the
/// tag may be used to find it. A load balancer that carries only the legacy owner tag is tagged along with its next
/// change, so that taking over a cluster writes nothing (D-11).
fn is_to_be_tagged(actual: &Actual, identity: &Identity<'_>, changes: bool) -> bool {
    let has_another_legacy_tag = actual.legacy_owner.is_some()
        && identity.legacy_owner.is_some()
        && actual.legacy_owner != identity.legacy_owner;
    let lacks_legacy_tag =
        identity.writes_legacy_owner && actual.legacy_owner.is_none() && identity.legacy_owner.is_some();
    let is_outdated = actual.owner_tags != identity.owner_tags() || has_another_legacy_tag;
    !identity.owns(actual) || lacks_legacy_tag || (changes && is_outdated)
}

impl Identity<'_> {
    /// Returns `true` if the load balancer carries the Service's owner tags, or no owner tags and its legacy owner tag.
    pub(super) fn owns(&self, actual: &Actual) -> bool {
        let has_legacy_tag_alone = actual.owner_tags == OwnerTags::default()
            && actual.legacy_owner.is_some()
            && actual.legacy_owner == self.legacy_owner;
        has_legacy_tag_alone || actual.owner_tags.service.as_deref() == Some(self.uid())
    }
}
