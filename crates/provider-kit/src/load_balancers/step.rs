//! The types between the step functions of a sync and its I/O: actions, their answers, and reports.

use cloud_provider::{Caches, Plan, Result};

use super::change::Step;
use super::dyn_cloud::DynLoadBalancerCloud;
use super::model::{ObservedLoadBalancer, ResourceGraph, Shared};
use super::ownership::{Identity, OwnershipResult};
use super::plan::Operation;
use super::targets::Targets;

/// The next I/O of a sync.
#[derive(Debug)]
pub(super) enum Action {
    /// Find the Service's load balancers; if `is_fresh`, without the cache.
    Find { is_fresh: bool },
    /// Claim a load balancer for adoption, unless another Service does.
    Claim(Shared),
    /// Take the lock, and read the load balancer again if another Service has changed it since it was read.
    Lock { key: String, actual: Shared },
    /// Carry out the first operations.
    Send {
        actual: Option<Shared>,
        operations: Vec<Operation>,
    },
    /// Wait until the cloud has finished its change of the load balancer.
    Wait {
        actual: Shared,
        resources: ResourceSource,
    },
    /// Read the load balancer.
    Read(Shared),
    /// Read the load balancer if its cached state is what this process wrote, and not what the cloud showed.
    Refresh(Shared),
    /// Read the Service from the cache again, and decide if it still leaves `from`. If `is_replaced`, the Service leaves
    /// it because the Service's settings require a replacement.
    Recheck { from: Shared, is_replaced: bool },
    /// Read the health of the targets of both load balancers, and decide if `kept` serves as well as `from`.
    Compare { kept: Shared, from: Shared },
    /// Show the load balancer's address on the Service.
    Publish(Shared),
    /// Verify that the Service has no load balancer left; without a control read if the cloud confirmed the deletion.
    VerifyAbsence { is_confirmed: bool },
    /// End with this outcome.
    Done(Result<Option<Shared>>),
}

/// The result of an action.
pub(super) enum Answer {
    /// The answer to [`Action::Find`] and [`Action::VerifyAbsence`].
    Found(OwnershipResult),
    Claimed,
    /// The answer to [`Action::Lock`], [`Action::Wait`], [`Action::Read`] and [`Action::Refresh`].
    Seen(Option<Shared>),
    Sent(Step<Shared>),
    /// The answer to [`Action::Recheck`]: `true` if the Service still leaves the load balancer.
    Rechecked(bool),
    /// The answer to [`Action::Compare`]: `true` if traffic may move.
    Compared(bool),
    Published,
}

/// The source of the known resources of a load balancer that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceSource {
    /// The cloud reported the future resources when it changed them.
    Reported,
    /// The resources were read in the middle of a change.
    Read,
}

/// A report that is due before the next action.
#[derive(Debug)]
pub(super) enum Report {
    /// The Service's annotations follow this load balancer.
    Annotated(Shared),
    /// The plan is about to be carried out.
    Planned(Plan),
    /// Targets find no room in the pool. `changes`: the load balancer is changed.
    LeftOut {
        pool: String,
        targets: Targets,
        changes: bool,
    },
    /// The Service has moved, and the load balancer that it had is going to be deleted.
    Moved { from: Shared, to: Shared },
    /// The load balancer is going to be replaced, because settings differ; if `interrupts`, it is deleted first.
    Replacing {
        from: Shared,
        changes: String,
        interrupts: bool,
    },
    /// A second load balancer carries the Service's owner tags, and stays.
    Twin { twin: Shared, kept: Shared },
    /// The Service leaves these load balancers behind: they are recorded before they are deleted. Empty: none is left.
    Superseded(Vec<Shared>),
    /// The cloud confirmed that the Service has no load balancer any more.
    Removed,
    /// The cached state of the Service's load balancers is out of date.
    Outdated,
    /// The lock is released.
    Unlocked,
}

/// The input and the progress that all steps of a sync share.
pub(super) struct Context<'a> {
    pub(super) cloud: &'a dyn DynLoadBalancerCloud,
    pub(super) identity: &'a Identity<'a>,
    pub(super) caches: Option<&'a dyn Caches>,
    /// The desired state; `None` for a deletion.
    pub(super) desired: Option<ResourceGraph>,
    /// If set, the cloud refused to go over a quota: nothing is created before something is removed.
    pub(super) removals_first: bool,
    /// If set, the plan was reported.
    pub(super) is_announced: bool,
    /// Reports that are due before the next action.
    pub(super) reports: Vec<Report>,
}

impl Context<'_> {
    /// Returns `true` if the Service's settings require that the load balancer is replaced, and the user permits it.
    pub(super) fn replaces(&self, actual: &ObservedLoadBalancer) -> bool {
        let replacement = |desired| self.cloud.replacement(desired, actual, self.identity);
        let replacement = self
            .desired
            .as_ref()
            .filter(|_| actual.graph.is_some())
            .map(replacement);
        replacement
            .is_some_and(|replacement| replacement.is_ok_and(|replacement| replacement.is_due()))
    }
}
