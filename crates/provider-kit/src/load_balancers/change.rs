//! A change of one load balancer, and what came of it.

use std::borrow::Cow;

use cloud_provider::SyncObserver;

use super::model::{Actual, OwnerTags, State, Tree};
use super::ownership::Identity;
use super::plan::Operation;

/// What is to be done now.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// For whom.
    pub identity: &'a Identity<'a>,
    /// What is there; `None`: nothing yet.
    pub actual: Option<&'a Actual>,
    /// What is to be done, in order; never empty. Do at least the first.
    pub operations: &'a [Operation],
    /// Told of waits within it, so that somebody else may work meanwhile.
    pub observer: &'a dyn SyncObserver,
}

impl Change<'_> {
    /// What will be there when the first `count` operations are done, as far as it can be told beforehand; `None`: nothing.
    #[must_use]
    pub fn outcome(&self, count: usize) -> Option<Actual> {
        let operations = &self.operations[..count.min(self.operations.len())];
        let tree = self.actual.map_or_else(|| Cow::Owned(Tree::default()), Actual::known_tree).after(operations);
        if tree.parts.is_empty() {
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
                    outcome.legacy_owner = outcome.legacy_owner.filter(|_| !self.identity.writes_legacy_owner);
                }
                _ => {}
            }
        }
        Some(Actual { tree: Some(tree), ..outcome })
    }

    /// What will be there when all is done.
    #[must_use]
    pub fn outcome_of_all(&self) -> Option<Actual> {
        self.outcome(self.operations.len())
    }
}

/// What [`LoadBalancerCloud::apply`](super::LoadBalancerCloud::apply) has done.
#[derive(Debug)]
pub enum Applied {
    /// The first so many operations, and this is what the cloud shows now. If it is [`State::Busy`], it is awaited.
    Shown(usize, Box<Actual>),
    /// The cloud has begun with the first so many and showed nothing; it is read until it is done. Not for what is new: its
    /// id must be told.
    Begun(usize),
    /// Some of it, and this is what the cloud shows now. The rest is planned anew from that, after it was awaited: for a cloud
    /// that changes more than it was told (a network that is detached takes its targets along), or makes something new from
    /// what it likes. Not endlessly: what comes to the same plan again is an error that names what keeps differing.
    PlanAgain(Box<Actual>),
    /// All of them: it was not there any more, or nobody knows. Nothing is left of it, if a control read verifies that.
    Gone,
    /// All of them: the cloud said that it removed it just now, which needs no control read.
    Removed,
    /// A person has protected it: it is left as it is, and nothing more is to be done about its removal.
    Kept,
}

impl Applied {
    /// [`Shown`](Self::Shown), for all of the change's operations.
    #[must_use]
    pub fn all(change: Change<'_>, actual: Actual) -> Self {
        Self::Shown(change.operations.len(), Box::new(actual))
    }

    /// What is known now.
    pub(super) fn step(self, change: Change<'_>) -> Step {
        match self {
            Self::Shown(count, actual) => Step::Done(count.max(1), *actual),
            Self::Begun(count) => {
                let count = count.max(1);
                // What will be gone is still there.
                match change.outcome(count).or_else(|| change.actual.cloned()) {
                    Some(outcome) => Step::Done(count, Actual { state: State::Busy, ..outcome }),
                    None => Step::Gone,
                }
            }
            Self::PlanAgain(actual) => Step::PlanAgain(*actual),
            Self::Gone => Step::Gone,
            Self::Removed => Step::Removed,
            Self::Kept => Step::Kept,
        }
    }
}

/// The outcome of one request, the same for all clouds.
pub(super) enum Step<T = Actual> {
    /// The first so many operations.
    Done(usize, T),
    PlanAgain(T),
    Gone,
    Removed,
    Kept,
}

impl<T> Step<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Done(count, actual) => Step::Done(count, change(actual)),
            Self::PlanAgain(actual) => Step::PlanAgain(change(actual)),
            Self::Gone => Step::Gone,
            Self::Removed => Step::Removed,
            Self::Kept => Step::Kept,
        }
    }
}
