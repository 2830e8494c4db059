//! The sync of one Service, as a step function without I/O: the goal of each load balancer, their order, and the
//! reactions to a cloud whose state differs from what was assumed.

use std::sync::Arc;
use std::vec::IntoIter;

use cloud_provider::{Caches, Error, Result};

use super::balancer_sync::{BalancerSync, Ending};
use super::cloud::Replacement;
use super::dyn_cloud::DynLoadBalancerCloud;
use super::model::{ResourceGraph, Shared, State};
use super::ownership::{Identity, OwnershipResult};
use super::step::{Action, Answer, Context, Report};
use super::sync_errors::{failed_twice, replaced_twice, unexpected, unhealthy, withdrawn};
use super::sync_goal::SyncGoal;

/// The number of attempts of a sync. Each attempt starts from the state of the cloud, because that state was not as
/// assumed.
const ATTEMPTS: usize = 3;

/// The sync of one Service: its state between two actions of `ensure`, `update_targets` or `delete`.
pub(super) struct ServiceSync<'a> {
    goal: SyncGoal,
    context: Context<'a>,
    /// The number of the attempt, from 1.
    attempt: usize,
    /// If set, a load balancer that failed was deleted in this sync.
    has_replaced: bool,
    phase: Phase,
    /// The load balancer that is being brought to its goal.
    balancer: Option<BalancerSync>,
}

/// The purpose of the next answer, or of the load balancer that is being synced.
#[derive(Default)]
enum Phase {
    #[default]
    Finding,
    /// The load balancer is read again, because its cached state lacks what the cloud chose.
    Refreshing(OwnershipResult),
    /// The load balancer is claimed before it is changed.
    Claiming {
        found: OwnershipResult,
        actual: Option<Shared>,
    },
    /// The load balancer that counts is brought to the goal.
    Ensuring(OwnershipResult),
    /// The desired load balancer failed: the Service's other load balancers stay in use, and get the current targets.
    ServingOn {
        rest: IntoIter<Shared>,
        failure: Failure,
    },
    /// Each load balancer of the Service is brought to the goal.
    AllOwn {
        rest: IntoIter<Shared>,
        outcome: Result<Option<Shared>, Failure>,
        endings: Vec<Ending>,
    },
    VerifyingAbsence {
        is_protected: bool,
    },
    /// The Service is read again before it shows another load balancer.
    Rechecking {
        kept: Shared,
        surplus: Vec<Shared>,
        /// If set, the Service's move created the load balancer that is kept.
        is_created: bool,
    },
    /// The health of targets is read before the Service shows a load balancer that was created for it.
    Comparing {
        kept: Shared,
        surplus: Vec<Shared>,
    },
    /// Surplus load balancers get our owner tags before one of them is deleted, in case the process ends in between.
    Tagging {
        kept: Shared,
        surplus: Vec<Shared>,
        rest: IntoIter<Shared>,
    },
    Publishing {
        kept: Shared,
        surplus: Vec<Shared>,
    },
    ReadingSurplus {
        kept: Shared,
        rest: IntoIter<Shared>,
    },
    DeletingSurplus {
        kept: Shared,
        rest: IntoIter<Shared>,
    },
    DeletingFailed(Shared),
    /// The load balancer is deleted before the one that replaces it is created.
    DeletingReplaced(Shared),
}

/// The reason why an attempt ended.
struct Failure {
    error: Error,
    /// The load balancer, if it failed, never worked and is to be replaced.
    failed: Option<Shared>,
    /// If set, the plan contained a deletion.
    removes: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            failed: None,
            removes: false,
        }
    }
}

impl<'a> ServiceSync<'a> {
    /// Returns a sync at its beginning, and its first action.
    pub(super) fn start(
        goal: SyncGoal,
        desired: Option<ResourceGraph>,
        cloud: &'a dyn DynLoadBalancerCloud,
        identity: &'a Identity<'a>,
        caches: Option<&'a dyn Caches>,
    ) -> (Self, Action) {
        let context = Context {
            cloud,
            identity,
            caches,
            desired,
            removals_first: false,
            is_announced: false,
            reports: Vec::new(),
        };
        let phase = Phase::Finding;
        let sync = Self {
            goal,
            context,
            attempt: 1,
            has_replaced: false,
            phase,
            balancer: None,
        };
        (sync, Action::Find { is_fresh: false })
    }

    /// Returns the action that follows from the answer to the last one.
    pub(super) fn step(&mut self, answer: Result<Answer>) -> Action {
        if let Some(mut balancer) = self.balancer.take() {
            let flow = answer.and_then(|answer| balancer.step(answer, &mut self.context));
            return self.advance(balancer, flow);
        }
        match (std::mem::take(&mut self.phase), answer) {
            (Phase::Finding, Ok(Answer::Found(found))) => self.found(found),
            (Phase::Refreshing(found), Ok(Answer::Seen(seen))) => match found.with_first(seen) {
                Some(found) => self.choose(found),
                None => self.find_again(),
            },
            (Phase::Claiming { found, actual }, Ok(Answer::Claimed)) => self.ensure(found, actual),
            (Phase::Claiming { found, .. }, Err(error)) => self.not_ensured(&found, error.into()),
            (Phase::VerifyingAbsence { is_protected }, Ok(Answer::Found(left))) => {
                match left.ours.first() {
                    Some(left) if !is_protected => {
                        self.retry(Error::conflict(format!("{} exists again", left.place())).into())
                    }
                    _ => {
                        self.context
                            .reports
                            .extend((!is_protected).then_some(Report::Removed));
                        Action::Done(Ok(None))
                    }
                }
            }
            (
                Phase::Rechecking {
                    kept,
                    surplus,
                    is_created,
                },
                Ok(Answer::Rechecked(leaves)),
            ) => self.rechecked(kept, surplus, is_created, leaves),
            (Phase::Comparing { kept, surplus }, Ok(Answer::Compared(serves))) => {
                self.compared(kept, surplus, serves)
            }
            (Phase::Publishing { kept, surplus }, Ok(Answer::Published)) => {
                self.read_surplus(kept, surplus.into_iter())
            }
            (Phase::ReadingSurplus { kept, rest }, Ok(Answer::Seen(seen))) => {
                self.delete_surplus(kept, rest, seen)
            }
            (_, Err(error)) => self.retry(error.into()),
            _ => Action::Done(Err(unexpected())),
        }
    }

    /// Returns the reports that are due before the action of the last step.
    pub(super) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.context.reports)
    }

    fn found(&mut self, found: OwnershipResult) -> Action {
        if self.goal.deletes() || (self.goal == SyncGoal::Targets && !found.ours.is_empty()) {
            let mut own_balancers = found.ours.clone();
            if self.goal == SyncGoal::Targets {
                // A twin keeps its targets, whoever made it.
                let Context {
                    cloud,
                    identity,
                    desired,
                    ..
                } = &self.context;
                let (_, twins) =
                    found.sorted_surplus(*cloud, desired.as_ref(), identity, found.is_moving_now());
                own_balancers.retain(|actual| !twins.iter().any(|twin| twin.id == actual.id));
            }
            return match found.check_surplus() {
                Ok(()) => self.next_own(own_balancers.into_iter(), Ok(None), Vec::new()),
                Err(error) => self.retry(error.into()),
            };
        }
        let known = found.for_changes().ok().flatten();
        let graph = known
            .filter(|_| self.goal == SyncGoal::Ensured)
            .and_then(|actual| actual.graph.as_ref());
        let lacks = |graph: &ResourceGraph| {
            self.context
                .desired
                .as_ref()
                .is_some_and(|desired| graph.lacks_fixed_of(desired))
        };
        match known.cloned() {
            Some(known) if graph.is_some_and(lacks) => {
                self.phase = Phase::Refreshing(found);
                Action::Refresh(known)
            }
            _ => self.choose(found),
        }
    }

    /// Chooses the load balancer that is brought to the goal.
    fn choose(&mut self, mut found: OwnershipResult) -> Action {
        match self.replace(&mut found) {
            Err(error) => return self.not_ensured(&found, error.into()),
            Ok(Some(_)) if self.has_replaced => return Action::Done(Err(replaced_twice())),
            Ok(Some(old)) => {
                self.has_replaced = true;
                self.phase = Phase::DeletingReplaced(Arc::clone(&old));
                return self.begin(BalancerSync::new(SyncGoal::Superseded, Some(old), false));
            }
            Ok(None) => {}
        }
        match found.for_changes().map(Option::<&Shared>::cloned) {
            Err(error) => self.not_ensured(&found, error.into()),
            // There is no load balancer whose targets could be set; a later `ensure` creates one.
            Ok(None) if self.goal == SyncGoal::Targets => Action::Done(Ok(None)),
            Ok(actual) => match found.to_take_over().cloned() {
                Some(free) => {
                    self.phase = Phase::Claiming { found, actual };
                    Action::Claim(free)
                }
                None => self.ensure(found, actual),
            },
        }
    }

    /// Decides if the load balancer must be replaced. Returns the one that is deleted before the new one is created.
    fn replace(&mut self, found: &mut OwnershipResult) -> Result<Option<Shared>> {
        let Context {
            cloud,
            identity,
            desired,
            reports,
            ..
        } = &mut self.context;
        let Some(desired) = desired.as_ref().filter(|_| self.goal == SyncGoal::Ensured) else {
            return Ok(None);
        };
        let Some((from, replacement)) = found.replace(*cloud, desired, identity)? else {
            return Ok(None);
        };
        let (changes, interrupts) = match replacement {
            Replacement::NewFirst(changes) => (changes, false),
            Replacement::OldFirst(changes) => (changes, true),
            Replacement::None => return Ok(None),
        };
        reports.push(Report::Replacing {
            from: Arc::clone(&from),
            changes,
            interrupts,
        });
        Ok(interrupts.then_some(from))
    }

    fn ensure(&mut self, found: OwnershipResult, actual: Option<Shared>) -> Action {
        if let Some(from) = found
            .changes_kind()
            .filter(|_| self.goal == SyncGoal::Ensured)
        {
            let changes = format!("kind: {} → {}", from.kind, self.context.identity.kind);
            self.context.reports.push(Report::Replacing {
                from: Arc::clone(from),
                changes,
                interrupts: false,
            });
        }
        let is_moving = found.moves();
        self.phase = Phase::Ensuring(found);
        self.begin(BalancerSync::new(
            self.goal,
            actual,
            self.goal == SyncGoal::Ensured && !is_moving,
        ))
    }

    fn ensured(&mut self, found: &OwnershipResult, actual: Option<Shared>) -> Action {
        if self.goal != SyncGoal::Ensured {
            return Action::Done(Ok(actual));
        }
        let Context {
            cloud,
            identity,
            desired,
            ..
        } = &self.context;
        let (surplus, twins) =
            found.sorted_surplus(*cloud, desired.as_ref(), identity, found.is_moving_now());
        for (twin, kept) in twins.into_iter().zip(actual.iter().cycle()) {
            self.context.reports.push(Report::Twin {
                twin,
                kept: Arc::clone(kept),
            });
        }
        if surplus.is_empty() && !self.context.identity.superseded().is_empty() {
            self.context.reports.push(Report::Superseded(Vec::new()));
        }
        match actual {
            Some(kept) if !surplus.is_empty() => {
                let is_created =
                    found.creates() && !kept.adopted && !self.context.identity.shows(&kept);
                let replaced = surplus.iter().find(|actual| self.context.replaces(actual));
                let is_replaced = replaced.is_some();
                let from = replaced.or_else(|| surplus.first()).cloned();
                let Some(from) = from else {
                    return Action::Done(Ok(Some(kept)));
                };
                self.phase = Phase::Rechecking {
                    kept,
                    surplus,
                    is_created,
                };
                Action::Recheck { from, is_replaced }
            }
            actual => Action::Done(Ok(actual)),
        }
    }

    /// Continues after the Service was read again. A Service that was changed while its new load balancer was created,
    /// and that does not leave the old one any more, keeps showing the old one.
    fn rechecked(
        &mut self,
        kept: Shared,
        surplus: Vec<Shared>,
        is_created: bool,
        leaves: bool,
    ) -> Action {
        if let Some(from) = surplus.first().filter(|_| leaves && is_created).cloned() {
            self.phase = Phase::Comparing {
                kept: Arc::clone(&kept),
                surplus,
            };
            return Action::Compare { kept, from };
        }
        self.moved(kept, surplus, is_created, leaves)
    }

    /// Moves traffic to the new load balancer, or leaves it where it is until a target of the new one is healthy.
    fn compared(&mut self, kept: Shared, surplus: Vec<Shared>, serves: bool) -> Action {
        if serves {
            return self.moved(kept, surplus, true, true);
        }
        let error = unhealthy(&kept, &surplus);
        self.serve_on(surplus.into_iter(), error.into())
    }

    fn moved(
        &mut self,
        kept: Shared,
        surplus: Vec<Shared>,
        is_created: bool,
        leaves: bool,
    ) -> Action {
        if leaves {
            let works = |actual: &&Shared| !matches!(actual.state, State::Failed(_));
            let rest: Vec<Shared> = surplus.iter().filter(works).cloned().collect();
            return self.tag_surplus(kept, surplus, rest.into_iter());
        }
        // Nobody knows the address of the new load balancer: it is deleted when the Service has settled on the old one.
        if is_created {
            self.context.reports.push(Report::Superseded(vec![kept]));
        }
        Action::Done(Err(surplus
            .first()
            .map_or_else(unexpected, |old| withdrawn(old))))
    }

    /// Serves a Service that moves from its old load balancers until the new one works.
    fn not_ensured(&mut self, found: &OwnershipResult, failure: Failure) -> Action {
        let others = if found.moves() {
            found.surplus().to_vec()
        } else {
            Vec::new()
        };
        self.serve_on(others.into_iter(), failure)
    }

    fn serve_on(&mut self, mut rest: IntoIter<Shared>, failure: Failure) -> Action {
        match rest.next() {
            Some(actual) => {
                self.phase = Phase::ServingOn { rest, failure };
                self.begin(BalancerSync::new(SyncGoal::Targets, Some(actual), false))
            }
            None => self.retry(failure),
        }
    }

    /// Continues with the Service's next load balancer. A load balancer that cannot be changed does not keep the next
    /// one from being synced.
    fn next_own(
        &mut self,
        mut rest: IntoIter<Shared>,
        outcome: Result<Option<Shared>, Failure>,
        endings: Vec<Ending>,
    ) -> Action {
        if let Some(actual) = rest.next() {
            self.phase = Phase::AllOwn {
                rest,
                outcome,
                endings,
            };
            return self.begin(BalancerSync::new(self.goal, Some(actual), false));
        }
        match outcome {
            Err(failure) => self.retry(failure),
            // A credential of another project gets "not found" as well.
            Ok(_) if endings.contains(&Ending::NotFound) && self.goal.deletes() => {
                self.phase = Phase::VerifyingAbsence {
                    is_protected: endings.contains(&Ending::Protected),
                };
                Action::VerifyAbsence {
                    is_confirmed: false,
                }
            }
            Ok(_) if endings.contains(&Ending::ReadAgain) && self.goal.deletes() => {
                self.phase = Phase::VerifyingAbsence {
                    is_protected: endings.contains(&Ending::Protected),
                };
                Action::VerifyAbsence { is_confirmed: true }
            }
            Ok(_) if self.goal.deletes() => {
                let is_confirmed = !endings.is_empty()
                    && endings.iter().all(|ending| *ending == Ending::Confirmed);
                self.context
                    .reports
                    .extend(is_confirmed.then_some(Report::Removed));
                Action::Done(Ok(None))
            }
            Ok(actual) => Action::Done(Ok(actual)),
        }
    }

    fn tag_surplus(
        &mut self,
        kept: Shared,
        surplus: Vec<Shared>,
        mut rest: IntoIter<Shared>,
    ) -> Action {
        if let Some(actual) = rest.next() {
            self.phase = Phase::Tagging {
                kept,
                surplus,
                rest,
            };
            return self.begin(BalancerSync::new(SyncGoal::Tagged, Some(actual), false));
        }
        // No load balancer is deleted before the Service shows the address of the one that stays.
        self.context
            .reports
            .push(Report::Annotated(Arc::clone(&kept)));
        self.context
            .reports
            .push(Report::Superseded(surplus.clone()));
        self.phase = Phase::Publishing {
            kept: Arc::clone(&kept),
            surplus,
        };
        Action::Publish(kept)
    }

    /// Reads the next surplus load balancer again, because it may have changed meanwhile.
    fn read_surplus(&mut self, kept: Shared, mut rest: IntoIter<Shared>) -> Action {
        match rest.next() {
            Some(actual) => {
                self.phase = Phase::ReadingSurplus { kept, rest };
                Action::Read(actual)
            }
            None => {
                self.context.reports.push(Report::Superseded(Vec::new()));
                Action::Done(Ok(Some(kept)))
            }
        }
    }

    fn delete_surplus(
        &mut self,
        kept: Shared,
        rest: IntoIter<Shared>,
        seen: Option<Shared>,
    ) -> Action {
        let Some(from) = seen.filter(|actual| self.context.identity.owns(actual)) else {
            return self.read_surplus(kept, rest);
        };
        tracing::warn!(
            id = from.id,
            name = from.name,
            "surplus load balancer of a Service is deleted"
        );
        self.context.reports.push(Report::Moved {
            from: Arc::clone(&from),
            to: Arc::clone(&kept),
        });
        self.phase = Phase::DeletingSurplus { kept, rest };
        self.begin(BalancerSync::new(SyncGoal::Superseded, Some(from), false))
    }

    fn begin(&mut self, mut balancer: BalancerSync) -> Action {
        let flow = balancer.start(&mut self.context);
        self.advance(balancer, flow)
    }

    fn advance(&mut self, balancer: BalancerSync, flow: Result<Option<Action>>) -> Action {
        let outcome = match flow {
            Ok(Some(action)) => {
                self.balancer = Some(balancer);
                return action;
            }
            Ok(None) => Ok(balancer.actual.clone()),
            Err(error) => Err(Failure {
                error,
                failed: balancer.failed.clone(),
                removes: balancer.removes(),
            }),
        };
        self.context.reports.push(Report::Unlocked);
        self.ended(outcome, balancer.ending)
    }

    /// Continues after the sync of a load balancer has ended.
    fn ended(&mut self, outcome: Result<Option<Shared>, Failure>, ending: Ending) -> Action {
        match (std::mem::take(&mut self.phase), outcome) {
            (Phase::Ensuring(found), Ok(actual)) => self.ensured(&found, actual),
            (Phase::Ensuring(found), Err(failure)) => self.not_ensured(&found, failure),
            (Phase::ServingOn { rest, failure }, outcome) => {
                if let Err(Failure { error, .. }) = outcome {
                    tracing::warn!(%error, "cannot update targets of the load balancer that the Service still uses");
                }
                self.serve_on(rest, failure)
            }
            (
                Phase::AllOwn {
                    rest,
                    outcome: before,
                    mut endings,
                },
                outcome,
            ) => {
                endings.push(ending);
                self.next_own(rest, before.and(outcome), endings)
            }
            (
                Phase::Tagging {
                    kept,
                    surplus,
                    rest,
                },
                Ok(_),
            ) => self.tag_surplus(kept, surplus, rest),
            // The next sync decides about both; nothing is deleted for a record that this sync has written.
            (Phase::DeletingSurplus { kept, .. }, Ok(_)) if ending == Ending::Kept => {
                self.context.reports.push(Report::Superseded(Vec::new()));
                Action::Done(Ok(Some(kept)))
            }
            (Phase::DeletingSurplus { kept, rest }, Ok(_)) => self.read_surplus(kept, rest),
            // A new load balancer that fails as well is not replaced again in this sync; the next sync starts from the
            // state of the cloud.
            (Phase::DeletingFailed(failed), Ok(_))
                if std::mem::replace(&mut self.has_replaced, true) =>
            {
                Action::Done(Err(failed_twice(&failed)))
            }
            (Phase::DeletingReplaced(old), Ok(_)) if ending == Ending::Kept => {
                Action::Done(Err(withdrawn(&old)))
            }
            (Phase::DeletingFailed(_) | Phase::DeletingReplaced(_), Ok(_)) => self.find_again(),
            (Phase::DeletingReplaced(_), Err(failure)) => Action::Done(Err(failure.error)),
            (Phase::DeletingFailed(_), Err(failure)) => Action::Done(Err(failure.error)),
            (_, Err(failure)) => self.retry(failure),
            (_, Ok(_)) => Action::Done(Err(unexpected())),
        }
    }

    /// Starts again from the state of the cloud, if that may help. A conflict, or an object that no longer exists,
    /// means that the state of the cloud is not as assumed.
    fn retry(&mut self, failure: Failure) -> Action {
        let Failure {
            error,
            failed,
            removes,
        } = failure;
        if let Some(failed) = failed {
            tracing::warn!(
                id = failed.id,
                name = failed.name,
                "failed load balancer is deleted"
            );
            self.phase = Phase::DeletingFailed(Arc::clone(&failed));
            return self.begin(BalancerSync::new(SyncGoal::Deleted, Some(failed), false));
        }
        if self.attempt >= ATTEMPTS {
            return Action::Done(Err(error));
        }
        if error.is_conflict() || error.is_not_found() {
            tracing::debug!(%error, "the load balancer is read and planned again");
            return self.find_again();
        }
        if error.is_quota() && removes && !self.context.removals_first {
            tracing::info!(%error, "surplus resources are deleted first, because of a quota");
            self.context.removals_first = true;
            return self.find_again();
        }
        Action::Done(Err(error))
    }

    fn find_again(&mut self) -> Action {
        self.attempt = (self.attempt + 1).min(ATTEMPTS);
        self.phase = Phase::Finding;
        Action::Find { is_fresh: true }
    }
}
