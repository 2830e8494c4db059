//! The sync of one load balancer, as a step function without I/O: plan, send, wait, and plan again as long as the cloud
//! requests it.

use std::borrow::Cow;
use std::sync::Arc;

use cloud_provider::{Error, Result};

use super::change::Step;
use super::cloud::Recovery;
use super::model::{ObservedLoadBalancer, ResourceGraph, ResourceKey, Shared, State};
use super::ownership::{Identity, is_left_by_all};
use super::plan::{Operation, left_out, removals_first, steps};
use super::step::{Action, Answer, Context, Report, ResourceSource};
use super::sync_errors::unexpected;
use super::sync_goal::{SyncGoal, operations};

/// The number of plans that may have as much to do as the plans before them.
const PLANS: usize = 16;

/// The sync of one load balancer: its state between two actions.
pub(super) struct BalancerSync {
    goal: SyncGoal,
    stage: Stage,
    /// The load balancer as it was last read or changed; `None` if there is none.
    pub(super) actual: Option<Shared>,
    /// If set, the Service's annotations follow the load balancer.
    annotates: bool,
    is_locked: bool,
    /// If set, the Service was read again before the deletion.
    is_rechecked: bool,
    /// The operations of the last plan that was carried out.
    planned: Vec<Operation>,
    /// Operations that the cloud accepted but does not show. They are not sent again, so that they do not block other
    /// operations, and they are reported as an error at the end.
    ineffective: Vec<Operation>,
    /// The number of plans that had as much to do as an earlier plan.
    plans: usize,
    /// The size of the smallest plan so far.
    least: usize,
    pub(super) ending: Ending,
    /// The load balancer, if it failed, never worked and is to be replaced.
    pub(super) failed: Option<Shared>,
}

/// The answer that is awaited.
#[derive(Default)]
enum Stage {
    #[default]
    Done,
    LockedToPlan,
    /// The lock of a load balancer that was just created.
    LockedToSettle(Next),
    Ready(ResourceSource, Next),
    Sent(Vec<Operation>),
    /// The Service is read again before the load balancer that it leaves is deleted.
    Rechecked(Vec<Operation>),
}

/// The step after the cloud has finished its work.
enum Next {
    Plan,
    Send(Vec<Operation>),
}

/// The end of a deletion, as the cloud reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The cloud confirmed the deletion, or there was none.
    Confirmed,
    /// The cloud confirmed the deletion of what was found; more may be left of an earlier deletion.
    ReadAgain,
    /// The load balancer was not found.
    NotFound,
    /// The load balancer is protected, and stays.
    Protected,
    /// The load balancer stays, because the Service does not leave it any more.
    Kept,
}

/// The next action; `None` when the goal is reached.
type Flow = Result<Option<Action>>;

impl BalancerSync {
    pub(super) fn new(goal: SyncGoal, actual: Option<Shared>, annotates: bool) -> Self {
        Self {
            goal,
            stage: Stage::Done,
            actual,
            annotates,
            is_locked: false,
            is_rechecked: false,
            planned: Vec::new(),
            ineffective: Vec::new(),
            plans: 0,
            least: usize::MAX,
            ending: Ending::Confirmed,
            failed: None,
        }
    }

    /// Returns `true` if the last plan had something to remove.
    pub(super) fn removes(&self) -> bool {
        self.planned.iter().any(Operation::removes)
    }

    /// Returns the first action.
    pub(super) fn start(&mut self, context: &mut Context<'_>) -> Flow {
        match self.lock(context) {
            Some(lock) => self.await_answer(Stage::LockedToPlan, lock),
            None => self.plan(context),
        }
    }

    /// Returns the action that follows `answer`.
    pub(super) fn step(&mut self, answer: Answer, context: &mut Context<'_>) -> Flow {
        match (std::mem::take(&mut self.stage), answer) {
            (Stage::LockedToPlan, Answer::Seen(actual)) => {
                self.is_locked = true;
                self.observe(actual, Ending::NotFound)?;
                self.plan(context)
            }
            (Stage::LockedToSettle(next), Answer::Seen(actual)) => {
                self.is_locked = true;
                self.observe(actual, Ending::NotFound)?;
                self.settle(ResourceSource::Reported, next, context)
            }
            (Stage::Ready(resources, next), Answer::Seen(actual)) => {
                // A cloud that requests another plan has reported that the deletion is in progress, and a cloud that
                // has accepted all operations of a deletion has seen the load balancer.
                let is_all_sent = match &next {
                    Next::Plan => true,
                    Next::Send(rest) => {
                        rest.is_empty() && self.goal.deletes() && !self.planned.is_empty()
                    }
                };
                let is_confirmed = resources == ResourceSource::Reported && is_all_sent;
                self.observe(
                    actual,
                    if is_confirmed {
                        self.ending
                    } else {
                        Ending::NotFound
                    },
                )?;
                self.annotate(context);
                self.proceed(next, context)
            }
            (Stage::Sent(operations), Answer::Sent(step)) => self.sent(&operations, step, context),
            (Stage::Rechecked(operations), Answer::Rechecked(true)) => {
                self.follow(Next::Send(operations), context)
            }
            (Stage::Rechecked(_), Answer::Rechecked(false)) => {
                self.ending = Ending::Kept;
                Ok(None)
            }
            _ => Err(unexpected()),
        }
    }

    fn await_answer(&mut self, stage: Stage, action: Action) -> Flow {
        self.stage = stage;
        Ok(Some(action))
    }

    /// Returns the action that takes the lock, if there is one to take.
    fn lock(&self, context: &Context<'_>) -> Option<Action> {
        let actual = self.actual.as_ref().filter(|_| !self.is_locked)?;
        Some(Action::Lock {
            key: context.cloud.lock(actual)?,
            actual: Arc::clone(actual),
        })
    }

    /// Stores the load balancer that was read. If it no longer exists, a deletion ends with `ending`, and any other
    /// goal fails.
    fn observe(&mut self, actual: Option<Shared>, ending: Ending) -> Result<()> {
        let before = std::mem::replace(&mut self.actual, actual);
        match (&self.actual, before) {
            (None, Some(before)) if !self.goal.deletes() => Err(Error::not_found(format!(
                "{} was deleted while it was being changed",
                before.place()
            ))),
            (None, _) => {
                self.ending = ending;
                Ok(())
            }
            (Some(_), _) => Ok(()),
        }
    }

    /// Plans the next operations. If the cloud is changing the load balancer, the sync waits and then plans again.
    fn plan(&mut self, context: &mut Context<'_>) -> Flow {
        if self.plans >= PLANS {
            return Err(self.not_shown(&self.planned, context));
        }
        self.leave_what_stays(context);
        let actual = self.actual.as_deref();
        let wanted = self.wanted(context)?;
        let mut operations = operations(wanted.as_deref(), actual, context.identity, self.goal)?;
        drop(wanted);
        self.annotate(context);
        if operations.is_empty()
            || self
                .actual
                .as_deref()
                .is_some_and(|load_balancer| self.is_to_be_replaced(load_balancer, context))
        {
            self.report_left_out(context);
            return self.settle(ResourceSource::Read, Next::Send(Vec::new()), context);
        }
        if context.removals_first {
            operations = removals_first(
                operations,
                &actual
                    .map(ObservedLoadBalancer::known_graph)
                    .unwrap_or_default(),
            );
        }
        if !std::mem::replace(&mut context.is_announced, true) {
            let name = actual.map_or(&*context.identity.name, ObservedLoadBalancer::shown_name);
            context
                .reports
                .push(Report::Planned(steps(&operations, name)));
        }
        self.report_left_out(context);
        match actual {
            Some(actual) if actual.state == State::Busy => {
                self.settle(ResourceSource::Read, Next::Plan, context)
            }
            _ => self.begin(operations, context),
        }
    }

    /// Sends a new plan, except for operations that had no effect.
    fn begin(&mut self, mut operations: Vec<Operation>, context: &mut Context<'_>) -> Flow {
        operations.retain(|operation| !self.ineffective.contains(operation));
        let left = operations.iter().map(Operation::size).sum();
        self.plans += usize::from(left >= self.least);
        self.least = self.least.min(left);
        if !operations.is_empty() && operations == self.planned {
            self.ineffective.push(operations.remove(0));
        }
        self.planned.clone_from(&operations);
        self.follow(Next::Send(operations), context)
    }

    fn follow(&mut self, next: Next, context: &mut Context<'_>) -> Flow {
        match next {
            Next::Plan => self.plan(context),
            // A load balancer that no longer exists needs no further deletion.
            Next::Send(operations)
                if !operations.is_empty() && (self.actual.is_some() || !self.goal.deletes()) =>
            {
                if let Some(recheck) = self.recheck(context) {
                    return self.await_answer(Stage::Rechecked(operations), recheck);
                }
                let send = Action::Send {
                    actual: self.actual.clone(),
                    operations: operations.clone(),
                };
                self.await_answer(Stage::Sent(operations), send)
            }
            Next::Send(_) if self.ineffective.is_empty() => Ok(None),
            Next::Send(_) => Err(self.not_shown(&self.ineffective, context)),
        }
    }

    /// Returns the action that reads the Service again, once, right before the load balancer that it leaves is deleted:
    /// the user may have changed the Service while the new load balancer was created.
    fn recheck(&mut self, context: &Context<'_>) -> Option<Action> {
        let is_due =
            self.goal == SyncGoal::Superseded && !std::mem::replace(&mut self.is_rechecked, true);
        let from = self.actual.clone().filter(|_| is_due)?;
        Some(Action::Recheck {
            is_replaced: context.replaces(&from),
            from,
        })
    }

    fn sent(
        &mut self,
        operations: &[Operation],
        step: Step<Shared>,
        context: &mut Context<'_>,
    ) -> Flow {
        let (shown, next) = match step {
            Step::Done(count, shown) => (
                shown,
                Next::Send(operations[count.min(operations.len())..].to_vec()),
            ),
            Step::PlanAgain(shown) => (shown, Next::Plan),
            Step::Gone => return self.gone(Ending::NotFound, context),
            Step::Removed => return self.gone(Ending::Confirmed, context),
            Step::ReadAgain => return self.gone(Ending::ReadAgain, context),
            Step::Protected => {
                (self.actual, self.ending) = (None, Ending::Protected);
                return self.follow(Next::Send(Vec::new()), context);
            }
        };
        self.actual = Some(shown);
        match self.lock(context) {
            Some(lock) => self.await_answer(Stage::LockedToSettle(next), lock),
            None => self.settle(ResourceSource::Reported, next, context),
        }
    }

    fn gone(&mut self, ending: Ending, context: &mut Context<'_>) -> Flow {
        self.observe(None, ending)?;
        self.follow(Next::Send(Vec::new()), context)
    }

    /// Waits as long as the cloud is changing the load balancer.
    fn settle(&mut self, resources: ResourceSource, next: Next, context: &mut Context<'_>) -> Flow {
        self.annotate(context);
        match &self.actual {
            Some(actual) if actual.state == State::Busy => {
                let wait = Action::Wait {
                    actual: Arc::clone(actual),
                    resources,
                };
                self.await_answer(Stage::Ready(resources, next), wait)
            }
            _ => self.proceed(next, context),
        }
    }

    /// Continues with a load balancer that the cloud is not changing, unless the load balancer failed.
    fn proceed(&mut self, next: Next, context: &mut Context<'_>) -> Flow {
        if let Some(actual) = &self.actual
            && let State::Failed(text) = &actual.state
            && !self.goal.deletes()
        {
            let hint = match context.cloud.recovery(actual, context.identity.service) {
                Recovery::ByHand(hint) => format!(". {hint}"),
                Recovery::Never | Recovery::Replace => String::new(),
            };
            let error = Error::other(format!("{}: {text}{hint}", actual.place()));
            self.failed =
                Some(Arc::clone(actual)).filter(|actual| self.is_to_be_replaced(actual, context));
            return Err(error);
        }
        self.follow(next, context)
    }

    /// Leaves resources that outlive the load balancer out of a deletion, and clears the resources of other Services if
    /// all of them go.
    fn leave_what_stays(&mut self, context: &Context<'_>) {
        let Some(actual) = self.actual.as_mut().filter(|_| self.goal.deletes()) else {
            return;
        };
        if !actual.foreign.is_empty() && is_left_by_all(actual, context.identity, context.caches) {
            tracing::warn!(
                id = actual.id,
                "failed load balancer is deleted, because all Services that share it are leaving"
            );
            Arc::make_mut(actual).foreign.clear();
        }
        let stays = |resource: &ResourceKey| {
            self.goal == SyncGoal::Superseded && (context.cloud.options().outlives)(resource)
        };
        if let Some(mut graph) = actual
            .graph
            .as_ref()
            .filter(|graph| graph.resources.keys().any(stays))
            .cloned()
        {
            graph.resources.retain(|resource, _| !stays(resource));
            Arc::make_mut(actual).graph = Some(graph);
        }
    }

    fn wanted<'c>(&self, context: &'c Context<'_>) -> Result<Option<Cow<'c, ResourceGraph>>> {
        let Some(wanted) = context.desired.as_ref().filter(|_| self.goal.has_desired()) else {
            return Ok(None);
        };
        let Some(actual) = &self.actual else {
            return Ok(Some(Cow::Borrowed(wanted)));
        };
        context
            .cloud
            .fit(wanted.clone(), actual, context.identity)
            .map(|fitted| Some(Cow::Owned(fitted)))
    }

    fn annotate(&self, context: &mut Context<'_>) {
        let shown = self.actual.as_ref().filter(|_| self.annotates);
        context
            .reports
            .extend(shown.map(|actual| Report::Annotated(Arc::clone(actual))));
    }

    fn report_left_out(&self, context: &mut Context<'_>) {
        let Some(wanted) = context.desired.as_ref().filter(|_| self.goal.has_desired()) else {
            return;
        };
        let actual = self
            .actual
            .as_deref()
            .map(ObservedLoadBalancer::known_graph)
            .unwrap_or_default();
        let changes = context.is_announced;
        let left = left_out(wanted, &actual).into_iter();
        context
            .reports
            .extend(left.map(|(pool, targets)| Report::LeftOut {
                pool,
                targets,
                changes,
            }));
    }

    /// Returns `true` if the load balancer failed, is the Service's alone, and never worked.
    fn is_to_be_replaced(&self, actual: &ObservedLoadBalancer, context: &Context<'_>) -> bool {
        let Identity { service, .. } = context.identity;
        self.goal == SyncGoal::Ensured
            && matches!(actual.state, State::Failed(_))
            && context.identity.owns(actual)
            && actual.foreign.is_empty()
            && !actual.adopted
            && context.cloud.recovery(actual, service) == Recovery::Replace
    }

    fn not_shown(&self, operations: &[Operation], context: &mut Context<'_>) -> Error {
        // The next sync reads the load balancer again.
        context.reports.push(Report::Outdated);
        let name = self
            .actual
            .as_deref()
            .map_or(&*context.identity.name, ObservedLoadBalancer::shown_name);
        let told: Vec<_> = steps(operations, name)
            .steps
            .iter()
            .map(ToString::to_string)
            .collect();
        Error::other(format!(
            "the cloud accepted changes but does not show them: {}",
            told.join("; ")
        ))
    }
}
