//! The operations that a sync requires on one load balancer.

use cloud_provider::{Error, Result};

use super::model::{ObservedLoadBalancer, OwnerTags, ResourceGraph, ResourceKey};
use super::ownership::Identity;
use super::plan::{Operation, plan, plan_removal};

/// The goal of a sync for one load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncGoal {
    /// The desired state is reached.
    Ensured,
    /// The targets are the desired ones.
    Targets,
    /// Our owner tags are on the load balancer.
    Tagged,
    /// The load balancer is deleted.
    Deleted,
    /// The load balancer is deleted, except for resources that [outlive](super::Options::outlives) it, because the
    /// Service keeps another load balancer.
    Superseded,
}

impl SyncGoal {
    /// Returns `true` if nothing is left of the load balancer at the end.
    pub(super) const fn deletes(self) -> bool {
        matches!(self, Self::Deleted | Self::Superseded)
    }

    /// Returns `true` if the sync needs the desired state of the Service.
    pub(super) const fn has_desired(self) -> bool {
        matches!(self, Self::Ensured | Self::Targets)
    }
}

/// Returns the operations that lead from `actual` to the goal. `wanted` is the desired state, fitted to `actual`.
pub(super) fn operations(
    wanted: Option<&ResourceGraph>,
    actual: Option<&ObservedLoadBalancer>,
    identity: &Identity<'_>,
    goal: SyncGoal,
) -> Result<Vec<Operation>> {
    let Some(actual) = actual else {
        return Ok(wanted
            .map(|wanted| plan(wanted, &ResourceGraph::default()))
            .unwrap_or_default());
    };
    let graph = actual.known_graph();
    if goal == SyncGoal::Tagged {
        let is_tagged = actual.owner_tags.service.as_deref() == Some(identity.uid());
        return Ok(if is_tagged {
            Vec::new()
        } else {
            vec![Operation::Tag]
        });
    }
    // A load balancer to delete may belong to another Service by now, or may have been released already. A sync of targets
    // adopts nothing: whether the Service may have the load balancer depends on all of its settings.
    if (goal.deletes() || goal == SyncGoal::Targets) && !identity.owns(actual) {
        return Ok(Vec::new());
    }
    if wanted.is_none() && actual.adopted {
        return Ok(vec![Operation::Untag]);
    }
    let Some(wanted) = wanted else {
        return Ok(plan_removal(&graph, !actual.foreign.is_empty()));
    };
    let targets_only;
    let wanted = if goal == SyncGoal::Targets {
        targets_only = graph.with_targets_of(wanted);
        &targets_only
    } else {
        wanted
    };
    if let Some((resource, whose)) = actual
        .foreign
        .iter()
        .find(|(resource, _)| wanted.resources.contains_key(resource))
    {
        let text = format!(
            "{resource} of {} is {whose}; choose another port or another load balancer",
            actual.place()
        );
        return Err(Error::invalid(text));
    }
    let mut operations = plan(wanted, &graph);
    let is_created = operations.iter().any(|operation| {
        matches!(
            operation,
            Operation::Create {
                resource: ResourceKey::Balancer,
                ..
            }
        )
    });
    if !is_created && is_to_be_tagged(actual, identity, !operations.is_empty()) {
        operations.insert(0, Operation::Tag);
    }
    Ok(operations)
}

/// Returns `true` if the owner tags, and the legacy owner tag that goes with them, must be written. A load balancer
/// that is adopted is tagged in any case, and a load balancer that lost its legacy owner tag gets it back, because the
/// tag may be used to find it. A load balancer that carries only the legacy owner tag is tagged along with its next
/// change, so that taking over a cluster writes nothing (D-11).
fn is_to_be_tagged(actual: &ObservedLoadBalancer, identity: &Identity<'_>, changes: bool) -> bool {
    let has_another_legacy_tag = actual.legacy_owner.is_some()
        && identity.legacy_owner.is_some()
        && actual.legacy_owner != identity.legacy_owner;
    let lacks_legacy_tag = identity.writes_legacy_owner
        && actual.legacy_owner.is_none()
        && identity.legacy_owner.is_some();
    let is_outdated = actual.owner_tags != identity.owner_tags() || has_another_legacy_tag;
    !identity.owns(actual) || lacks_legacy_tag || (changes && is_outdated)
}

impl Identity<'_> {
    /// Returns `true` if the load balancer carries the Service's owner tags, or no owner tags and its legacy owner tag.
    pub(super) fn owns(&self, actual: &ObservedLoadBalancer) -> bool {
        let has_legacy_tag_alone =
            actual.owner_tags == OwnerTags::default() && self.has_legacy_tag(actual);
        has_legacy_tag_alone || actual.owner_tags.service.as_deref() == Some(self.uid())
    }
}
