//! A change of one load balancer, and its outcome.

use std::borrow::Cow;

use cloud_provider::SyncCallbacks;

use super::model::{ObservedLoadBalancer, OwnerTags, ResourceGraph, State};
use super::ownership::Identity;
use super::plan::Operation;

/// Operations to carry out on one load balancer.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The owner of the load balancer.
    pub identity: &'a Identity<'a>,
    /// The load balancer as it is now; `None` if there is none yet.
    pub actual: Option<&'a ObservedLoadBalancer>,
    /// The operations, in order; never empty. `apply` must carry out at least the first one.
    pub operations: &'a [Operation],
    /// Observer that is notified of waits, so that the worker can sync other Services meanwhile.
    pub callbacks: &'a dyn SyncCallbacks,
}

impl Change<'_> {
    /// Predicts the load balancer after the first `count` operations; `None` if nothing is left of it.
    #[must_use]
    pub fn outcome(&self, count: usize) -> Option<ObservedLoadBalancer> {
        let operations = &self.operations[..count.min(self.operations.len())];
        let graph = self
            .actual
            .map_or_else(
                || Cow::Owned(ResourceGraph::default()),
                ObservedLoadBalancer::known_graph,
            )
            .after(operations);
        if graph.resources.is_empty() {
            return None;
        }
        let mut outcome = self.actual.cloned().unwrap_or_default();
        if self.actual.is_none() {
            outcome.name.clone_from(&self.identity.name);
            outcome.kind = self.identity.kind;
            outcome.owner_tags = self.identity.owner_tags();
            outcome.legacy_owner.clone_from(&self.identity.legacy_owner);
        }
        for operation in operations {
            match operation {
                Operation::Tag => {
                    outcome.owner_tags = self.identity.owner_tags();
                    outcome.legacy_owner.clone_from(&self.identity.legacy_owner);
                }
                Operation::Untag => {
                    outcome.owner_tags = OwnerTags::default();
                    outcome.legacy_owner = outcome
                        .legacy_owner
                        .filter(|_| !self.identity.writes_legacy_owner);
                }
                _ => {}
            }
        }
        Some(ObservedLoadBalancer {
            graph: Some(graph),
            ..outcome
        })
    }

    /// Predicts the load balancer after all operations; `None` if nothing is left of it.
    #[must_use]
    pub fn outcome_of_all(&self) -> Option<ObservedLoadBalancer> {
        self.outcome(self.operations.len())
    }
}

/// The outcome of [`LoadBalancerCloud::apply`](super::LoadBalancerCloud::apply).
#[derive(Debug)]
pub enum Applied {
    /// The number of operations that were carried out, and the load balancer as the cloud shows it now. If it is
    /// [`State::Busy`], the engine waits for it.
    Shown(usize, Box<ObservedLoadBalancer>),
    /// The number of operations that the cloud has accepted without showing the result. The load balancer is read until
    /// the cloud is done. Not for a load balancer that was just created: its ID must be returned.
    Begun(usize),
    /// Some operations were carried out, and the cloud shows this. After waiting, the engine plans the rest again: for
    /// a cloud that changes more than it was asked to (a network that is detached takes its targets along), or that
    /// chooses an object of its own. Repetition is limited: a plan that comes out the same again is an error that names
    /// the differences.
    PlanAgain(Box<ObservedLoadBalancer>),
    /// The load balancer was not found, so no operation is left. The engine counts it as deleted only after a control
    /// read.
    Gone,
    /// The cloud confirmed the deletion; no operation is left, and no control read is needed.
    Removed,
    /// The cloud confirmed the deletion of what was found; the load balancer is read once more, because an earlier
    /// deletion may have been incomplete. No control read is needed.
    ReadAgain,
    /// The load balancer is protected by a user: it stays, and its deletion is not tried again.
    Protected,
}

impl Applied {
    /// Returns [`Shown`](Self::Shown), for all operations of the change.
    #[must_use]
    pub fn all(change: Change<'_>, actual: ObservedLoadBalancer) -> Self {
        Self::Shown(change.operations.len(), Box::new(actual))
    }

    /// Returns the step that the engine continues with.
    pub(super) fn step(self, change: Change<'_>) -> Step {
        match self {
            Self::Shown(count, actual) => Step::Done(count.max(1), *actual),
            Self::Begun(count) => {
                let count = count.max(1);
                // A load balancer whose deletion has begun still exists.
                match change.outcome(count).or_else(|| change.actual.cloned()) {
                    Some(outcome) => Step::Done(
                        count,
                        ObservedLoadBalancer {
                            state: State::Busy,
                            ..outcome
                        },
                    ),
                    None => Step::Gone,
                }
            }
            Self::PlanAgain(actual) => Step::PlanAgain(*actual),
            Self::Gone => Step::Gone,
            Self::Removed => Step::Removed,
            Self::ReadAgain => Step::ReadAgain,
            Self::Protected => Step::Protected,
        }
    }
}

/// The outcome of one request, in a form that is the same for all clouds.
pub(super) enum Step<T = ObservedLoadBalancer> {
    /// The number of operations that were carried out, and the result.
    Done(usize, T),
    PlanAgain(T),
    Gone,
    Removed,
    ReadAgain,
    Protected,
}

impl<T> Step<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Done(count, actual) => Step::Done(count, change(actual)),
            Self::PlanAgain(actual) => Step::PlanAgain(change(actual)),
            Self::Gone => Step::Gone,
            Self::Removed => Step::Removed,
            Self::ReadAgain => Step::ReadAgain,
            Self::Protected => Step::Protected,
        }
    }
}
