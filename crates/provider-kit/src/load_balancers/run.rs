//! One call that changes something: from what is found to what is wanted, and what is done when the cloud is not as it was
//! believed to be.

use std::borrow::Cow;
use std::sync::Arc;

use cloud_provider::{Error, LoadBalancerRequest, Result};

use super::balancers::Balancers;
use super::change::{Change, Step};
use super::cloud::{Names, Notice, Recovery, Scope};
use super::locks::Held;
use super::model::{Actual, Marks, Part, Shared, State, Tree};
use super::ownership::{Identity, Sorted};
use super::plan::{Operation, left_out, plan, plan_removal, removals_first, steps};
use crate::operation::until_done;

/// How often a change is planned anew because the cloud was not as it was believed to be.
const TRIES: usize = 3;

/// How often it is planned anew because the cloud [asks for it](super::Applied::PlanAgain), and not less is left than before.
const PLANS: usize = 16;

/// What a call leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Ensured,
    Targets,
    /// It carries our marks.
    Marked,
    Deleted,
}

/// One call of `ensure`, `update_targets` or `delete`.
pub(super) struct Run<'a> {
    this: &'a Balancers,
    request: &'a LoadBalancerRequest<'a>,
    identity: &'a Identity<'a>,
    wanted: Option<Tree>,
    aim: Aim,
    is_told: bool,
    /// Whether the cloud refused more than there is: then there is no making before breaking.
    is_at_limit: bool,
    /// Whether the last plan had something to remove.
    removes: bool,
    /// Whether something that was to be removed was not found.
    was_missing: bool,
    /// Whether something that was to be removed is protected.
    is_kept: bool,
    /// The right to change what is being changed, where it can be another Service's turn.
    held: Option<Held>,
    /// One that is to be removed and made anew, because it failed and never worked.
    failed: Option<Shared>,
    /// Whether the Service keeps another one than the one at hand, and what [outlives](super::Options::outlives) either.
    keeps_another: bool,
    /// Whether the Service is still reached by another one than the one that is made ready for it.
    is_moving: bool,
}

impl<'a> Run<'a> {
    /// Brings it about. A conflict, or something that is gone, means that the cloud is not as it was believed to be: it is
    /// read again and planned anew.
    pub(super) async fn to(
        aim: Aim,
        this: &'a Balancers,
        request: &'a LoadBalancerRequest<'a>,
        identity: &'a Identity<'a>,
    ) -> Result<Option<Shared>> {
        let (mut run, mut was_replaced) = (Self::new(aim, this, request, identity).await?, false);
        let mut tries = 1..=TRIES;
        loop {
            let number = tries.next().unwrap_or(TRIES);
            let outcome = run.once(number > 1).await;
            if let Some(failed) = run.failed.take() {
                tracing::warn!(id = failed.id, name = failed.name, "a load balancer that failed is removed");
                run.change(Some(Arc::clone(&failed)), Aim::Deleted).await?;
                // The second one of a run is no accident: the next try starts clean.
                if std::mem::replace(&mut was_replaced, true) {
                    return outcome.map_err(|_| failed_twice(&failed));
                }
                continue;
            }
            match outcome {
                Err(err) if number < TRIES && (err.is_conflict() || err.is_not_found()) => {
                    tracing::debug!(%err, "the load balancer is read again and planned anew");
                }
                Err(err) if number < TRIES && err.is_quota() && !run.is_at_limit && run.removes => {
                    tracing::info!(%err, "what is not wanted any more is removed first");
                    run.is_at_limit = true;
                }
                outcome => return outcome,
            }
        }
    }

    async fn new(
        aim: Aim,
        this: &'a Balancers,
        request: &'a LoadBalancerRequest<'a>,
        identity: &'a Identity<'a>,
    ) -> Result<Self> {
        let wanted = match aim {
            Aim::Deleted => None,
            Aim::Targets => Some(this.cloud().desired(request, identity, Scope::Targets).await?),
            _ => Some(this.cloud().desired(request, identity, Scope::Everything).await?),
        };
        Ok(Self {
            this,
            request,
            identity,
            wanted,
            aim,
            is_told: false,
            is_at_limit: false,
            removes: false,
            was_missing: false,
            is_kept: false,
            held: None,
            failed: None,
            keeps_another: false,
            is_moving: false,
        })
    }

    async fn once(&mut self, fresh: bool) -> Result<Option<Shared>> {
        self.keeps_another = false;
        let sorted = self.this.found(self.identity, self.aim, fresh).await?;
        if self.aim == Aim::Deleted {
            sorted.check_doubles()?;
            self.remove(&sorted.ours).await?;
            return Ok(None);
        }
        if self.aim == Aim::Targets && !sorted.ours.is_empty() {
            sorted.check_doubles()?;
            return self.retarget(&sorted.ours).await;
        }
        self.is_moving = sorted.says_which() && !sorted.doubles().is_empty();
        let outcome = self.ensure(&sorted).await;
        if outcome.is_err() && sorted.says_which() {
            // What it has serves on until it has what it asks for.
            if let Err(err) = self.retarget(sorted.doubles()).await {
                tracing::warn!(%err, "the targets of the load balancer that this service has yet are not moved");
            }
        }
        let actual = outcome?;
        if self.aim == Aim::Ensured {
            self.give_back(sorted.doubles(), actual.as_deref()).await?;
        }
        Ok(actual)
    }

    async fn ensure(&mut self, sorted: &Sorted) -> Result<Option<Shared>> {
        let actual = sorted.for_changes()?.cloned();
        // There is nothing to move; its Service's own sync makes one.
        if actual.is_none() && self.aim == Aim::Targets {
            return Ok(None);
        }
        if let Some(free) = sorted.to_take_over() {
            self.this.claim(free, self.identity)?;
        }
        self.change(actual, self.aim).await
    }

    /// Moves the targets of all of these.
    async fn retarget(&mut self, ours: &[Shared]) -> Result<Option<Shared>> {
        let mut outcome = Ok(None);
        for actual in ours {
            // One that cannot be changed is no reason to leave another one without.
            outcome = outcome.and(self.change(Some(Arc::clone(actual)), Aim::Targets).await);
        }
        outcome
    }

    async fn remove(&mut self, ours: &[Shared]) -> Result<()> {
        (self.was_missing, self.is_kept) = (false, false);
        self.this.left_out.forget(self.identity.uid());
        let mut outcome = Ok(());
        for actual in ours {
            // One that cannot go is no reason to keep another one.
            outcome = outcome.and(self.change(Some(Arc::clone(actual)), Aim::Deleted).await.map(drop));
        }
        outcome?;
        if !self.was_missing {
            return Ok(());
        }
        // "Not found" counts as removed, also where the credential has just become another project's.
        let left = self.this.believed(Sorted::default(), self.identity).await?;
        match left.ours.first() {
            Some(left) if !self.is_kept => Err(Error::conflict(format!("{} is there again", left.place()))),
            _ => Ok(()),
        }
    }

    /// Two of ours are one too many: the Service has moved, or they came about by an accident. Nothing goes before its marks say
    /// that it may, in case that this ends in between, and before the addresses of what stays are on the Service.
    async fn give_back(&mut self, doubles: &[Shared], stays: Option<&Actual>) -> Result<()> {
        let (Some(stays), false) = (stays, doubles.is_empty()) else { return Ok(()) };
        let (cloud, service) = (self.this.cloud(), self.request.service);
        self.keeps_another = true;
        for double in doubles.iter().filter(|it| !matches!(it.state, State::Failed(_))) {
            self.change(Some(Arc::clone(double)), Aim::Marked).await?;
        }
        self.is_moving = false;
        self.annotate(Some(stays), Aim::Ensured);
        self.request.observer.publish(&cloud.published(stays, self.identity).status).await?;
        for double in doubles {
            // Much may have happened to it meanwhile.
            let Some(double) = self.this.known.read(&double.id).await?.filter(|it| self.is_own(it)) else { continue };
            tracing::warn!(id = double.id, name = double.name, "a second load balancer of one service is removed");
            cloud.report(Notice::Moved { service, from: &double, to: stays });
            self.change(Some(double), Aim::Deleted).await?;
        }
        Ok(())
    }

    /// Plans and does, again as long as the cloud asks for it. What it was told and does not show is left at that, so that it
    /// keeps nothing else from being done, and is an error in the end.
    async fn change(&mut self, actual: Option<Shared>, aim: Aim) -> Result<Option<Shared>> {
        let outcome = self.change_in_turn(actual, aim).await;
        self.held = None;
        outcome
    }

    async fn change_in_turn(&mut self, mut actual: Option<Shared>, aim: Aim) -> Result<Option<Shared>> {
        actual = self.locked(actual, aim).await?;
        let (mut before, mut ignored): (Vec<Operation>, Vec<Operation>) = (Vec::new(), Vec::new());
        let (mut plans, mut least) = (0, usize::MAX);
        while plans < PLANS {
            let mut operations;
            (operations, actual) = self.plan(actual, aim).await?;
            operations.retain(|operation| !ignored.contains(operation));
            let left = operations.iter().map(Operation::size).sum();
            plans += usize::from(left >= least);
            least = least.min(left);
            if !operations.is_empty() && operations == before {
                ignored.push(operations.remove(0));
            }
            let is_done;
            (actual, is_done) = self.carry_out(actual, &operations, aim).await?;
            before = operations;
            if is_done {
                return if ignored.is_empty() { Ok(actual) } else { Err(self.not_shown(&ignored, actual.as_ref())) };
            }
        }
        Err(self.not_shown(&before, actual.as_ref()))
    }

    /// Waits until it is nobody else's turn to change it; what somebody else has changed since it was read is read again.
    async fn locked(&mut self, actual: Option<Shared>, aim: Aim) -> Result<Option<Shared>> {
        let (this, observer) = (self.this, self.request.observer);
        let Some((actual, key)) = actual.as_ref().and_then(|it| Some((it, this.cloud().lock(it)?))) else {
            return Ok(actual);
        };
        let held = this.locks.take(key, self.identity.uid(), observer).await;
        let is_old = held.overtook(this.known.since(&actual.id));
        self.held = Some(held);
        match if is_old { this.known.read(&actual.id).await? } else { Some(Arc::clone(actual)) } {
            Some(actual) => Ok(Some(actual)),
            None => {
                self.was_missing = true;
                went_away(actual, aim)
            }
        }
    }

    fn not_shown(&self, operations: &[Operation], actual: Option<&Shared>) -> Error {
        // The next try reads it again.
        self.this.known.doubt(self.identity.uid());
        let name = actual.map_or(&*self.identity.name, |actual| actual.shown_name());
        let told: Vec<_> = steps(operations, name).steps.iter().map(ToString::to_string).collect();
        Error::other(format!("the cloud does not show what it was told: {}", told.join("; ")))
    }

    /// What is to be done now; none once it is ready. What the cloud is at work on is awaited first, and planned anew.
    async fn plan(&mut self, mut actual: Option<Shared>, aim: Aim) -> Result<(Vec<Operation>, Option<Shared>)> {
        loop {
            actual = actual.map(|actual| self.as_it_goes(actual, aim));
            let wanted = self.wanted_of(actual.as_deref(), aim)?;
            let mut operations = operations(wanted.as_deref(), actual.as_deref(), self.identity, aim)?;
            self.annotate(actual.as_deref(), aim);
            if operations.is_empty() || actual.as_deref().is_some_and(|it| self.is_to_be_replaced(it, aim)) {
                self.tell_left_out(actual.as_deref(), aim);
                return Ok((operations, self.until_free(actual, aim).await?));
            }
            if self.is_at_limit {
                operations = removals_first(operations, &actual.as_deref().map(Actual::known_tree).unwrap_or_default());
            }
            self.removes = operations.iter().any(Operation::removes);
            if !std::mem::replace(&mut self.is_told, true) {
                let name = actual.as_deref().map_or(&*self.identity.name, Actual::shown_name);
                self.request.observer.planned(&steps(&operations, name));
            }
            self.tell_left_out(actual.as_deref(), aim);
            match &actual {
                Some(busy) if busy.state == State::Busy => actual = self.until_free(actual, aim).await?,
                _ => return Ok((operations, actual)),
            }
        }
    }

    /// Without what stays, if the Service keeps another one; and without others, if all of them go.
    fn as_it_goes(&self, mut actual: Shared, aim: Aim) -> Shared {
        if aim != Aim::Deleted {
            return actual;
        }
        if !actual.foreign.is_empty() && self.this.is_left_by_all(&actual, self.identity) {
            tracing::warn!(id = actual.id, "a load balancer that failed is removed: all who share it go");
            Arc::make_mut(&mut actual).foreign.clear();
        }
        let stays = |part: &Part| self.keeps_another && (self.this.cloud().options().outlives)(part);
        if let Some(tree) = actual.tree.as_ref().filter(|tree| tree.parts.keys().any(stays)) {
            let mut tree = tree.clone();
            tree.parts.retain(|part, _| !stays(part));
            Arc::make_mut(&mut actual).tree = Some(tree);
        }
        actual
    }

    fn wanted_of(&self, actual: Option<&Actual>, aim: Aim) -> Result<Option<Cow<'_, Tree>>> {
        let wants_parts = matches!(aim, Aim::Ensured | Aim::Targets);
        let Some(wanted) = self.wanted.as_ref().filter(|_| wants_parts) else { return Ok(None) };
        let Some(actual) = actual else { return Ok(Some(Cow::Borrowed(wanted))) };
        let fitted = self.this.cloud().fit(wanted.clone(), actual, self.identity)?;
        Ok(Some(Cow::Owned(fitted)))
    }

    fn annotate(&self, actual: Option<&Actual>, aim: Aim) {
        let Some(actual) = actual.filter(|_| aim == Aim::Ensured && !self.is_moving) else { return };
        for (key, value) in self.this.cloud().published(actual, self.identity).annotations {
            self.request.observer.annotate(key, value);
        }
    }

    fn is_own(&self, actual: &Actual) -> bool {
        let is_signed = actual.marks == Marks::default() && actual.sign.is_some() && actual.sign == self.identity.sign;
        is_signed || actual.marks.service.as_deref() == Some(self.identity.uid())
    }

    /// Whether it failed, is the Service's alone, and never worked.
    fn is_to_be_replaced(&self, actual: &Actual, aim: Aim) -> bool {
        aim == Aim::Ensured
            && matches!(actual.state, State::Failed(_))
            && self.is_own(actual)
            && actual.foreign.is_empty()
            && !actual.adopted
            && self.this.cloud().recovery(actual, self.request.service) == Recovery::Replace
    }

    fn tell_left_out(&self, actual: Option<&Actual>, aim: Aim) {
        let Some(wanted) = self.wanted.as_ref().filter(|_| matches!(aim, Aim::Ensured | Aim::Targets)) else { return };
        let actual = actual.map(Actual::known_tree).unwrap_or_default();
        for (pool, targets) in left_out(wanted, &actual) {
            let news = self.this.left_out.news(self.identity.uid(), &pool, targets, self.is_told);
            if !news.is_empty() {
                let notice = Notice::TargetsLeftOut { request: self.request, pool: &pool, targets: &news };
                self.this.cloud().report(notice);
            }
        }
    }

    /// Does them in order; whether that is all, or what is left must be planned anew.
    async fn carry_out(
        &mut self,
        mut actual: Option<Shared>,
        mut rest: &[Operation],
        aim: Aim,
    ) -> Result<(Option<Shared>, bool)> {
        while !rest.is_empty() {
            match self.apply(actual.as_ref(), rest).await? {
                Step::Done(count, shown) => {
                    actual = self.once_shown(shown, aim).await?;
                    self.was_missing |= actual.is_none();
                    rest = &rest[count.min(rest.len())..];
                }
                Step::PlanAgain(shown) => return Ok((self.once_shown(shown, aim).await?, false)),
                step => {
                    self.was_missing |= matches!(step, Step::Gone);
                    self.is_kept |= matches!(step, Step::Kept);
                    return Ok((None, true));
                }
            }
        }
        Ok((actual, true))
    }

    /// What was just made is looked after as what was found is.
    async fn once_shown(&mut self, shown: Shared, aim: Aim) -> Result<Option<Shared>> {
        let shown = if self.held.is_none() { self.locked(Some(shown), aim).await? } else { Some(shown) };
        self.until_ready(shown, aim, Parts::Told).await
    }

    async fn apply(&mut self, actual: Option<&Shared>, operations: &[Operation]) -> Result<Step<Shared>> {
        self.held.iter_mut().for_each(Held::note_change);
        let (known, uid) = (&self.this.known, self.identity.uid());
        let (actual_now, observer) = (actual.map(|actual| &**actual), self.request.observer);
        let change = Change { identity: self.identity, actual: actual_now, operations, observer };
        // Also if this is dropped before the answer.
        known.doubt(uid);
        let applied = known.cloud().apply(change).await.inspect_err(|err| {
            if actual.is_none() && err.is_rate_limited() && known.cloud().names() == Names::Unique {
                known.hold_back(self.identity);
            }
        })?;
        let step = applied.step(change).map(|outcome| known.put(outcome));
        match (&step, actual) {
            // It is there, but nobody looks after it any more; who asks for it again reads it.
            (Step::Kept, Some(kept)) => known.lose_sight(&kept.id),
            (Step::Done(_, after) | Step::PlanAgain(after), Some(before)) if after.id == before.id => known.settle(uid),
            (_, before) => {
                before.into_iter().for_each(|before| known.forget(&before.id));
                known.settle(uid);
            }
        }
        Ok(step)
    }

    /// Waits as long as the cloud is at work on it before anything was asked for. That it is gone then was nobody's wish here.
    async fn until_free(&mut self, actual: Option<Shared>, aim: Aim) -> Result<Option<Shared>> {
        let was_there = actual.is_some();
        let actual = self.until_ready(actual, aim, Parts::Read).await?;
        self.was_missing |= was_there && actual.is_none();
        Ok(actual)
    }

    /// Waits as long as the cloud is at work on it; `None` if it is gone then.
    async fn until_ready(&mut self, actual: Option<Shared>, aim: Aim, parts: Parts) -> Result<Option<Shared>> {
        let Some(mut actual) = actual else { return Ok(None) };
        self.annotate(Some(&actual), aim);
        if actual.state == State::Busy {
            let Some(seen) = self.awaited(&actual, parts).await? else { return went_away(&actual, aim) };
            actual = seen;
            self.annotate(Some(&actual), aim);
        }
        match &actual.state {
            State::Failed(text) if aim != Aim::Deleted => {
                let hint = match self.this.cloud().recovery(&actual, self.request.service) {
                    Recovery::ByHand(hint) => format!(". {hint}"),
                    Recovery::Never | Recovery::Replace => String::new(),
                };
                let error = Error::other(format!("{}: {text}{hint}", actual.place()));
                self.failed = Some(actual).filter(|failed| self.is_to_be_replaced(failed, aim));
                Err(error)
            }
            _ => Ok(Some(actual)),
        }
    }

    /// What it is when the cloud is not at work on it any more. Somebody else may work meanwhile (INV-6).
    async fn awaited(&self, actual: &Actual, parts: Parts) -> Result<Option<Shared>> {
        let (polling, place, observer) = (self.this.cloud().options().polling, actual.place(), self.request.observer);
        observer.waits();
        let seen = until_done(&place, polling, || async {
            Ok(match self.this.known.look(&actual.id).await? {
                Some(actual) if actual.state == State::Busy => None,
                seen => Some(seen),
            })
        });
        let seen = seen.await;
        observer.goes_on().await;
        match seen? {
            Some(seen) if seen.tree.is_some() => Ok(Some(seen)),
            Some(seen) if actual.tree.is_some() && parts == Parts::Told => {
                let ingress = if seen.ingress.is_empty() { &actual.ingress } else { &seen.ingress }.clone();
                let now = Actual { state: seen.state.clone(), ingress, ..actual.clone() };
                Ok(Some(self.this.known.put(now)))
            }
            Some(seen) => self.this.known.read(&seen.id).await,
            None => Ok(None),
        }
    }
}

/// What is known of the parts of a load balancer that is awaited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// The cloud told what they will be, when it changed them.
    Told,
    /// They were read, in the middle of some change.
    Read,
}

/// The error of a load balancer that failed when it was created, as the one before it; both are deleted, so there is nothing
/// to repair.
fn failed_twice(failed: &Actual) -> Error {
    let State::Failed(text) = &failed.state else { return Error::other(failed.place()) };
    Error::other(format!(
        "{} failed when it was created: {text}. It is deleted, as the one that was created before it; the next try creates \
         another one",
        failed.place()
    ))
}

fn went_away(actual: &Actual, aim: Aim) -> Result<Option<Shared>> {
    match aim {
        Aim::Deleted => Ok(None),
        _ => Err(Error::not_found(format!("{} went away while it was awaited", actual.place()))),
    }
}

/// What is to be done.
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
    if aim == Aim::Marked {
        let is_marked = actual.marks.service.as_deref() == Some(identity.uid());
        return Ok(if is_marked { Vec::new() } else { vec![Operation::Mark] });
    }
    if wanted.is_none() && actual.adopted {
        return Ok(vec![Operation::Unmark]);
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
    let is_made_anew = operations.iter().any(|it| matches!(it, Operation::Create { part: Part::Balancer, .. }));
    if !is_made_anew && is_to_be_marked(actual, identity, !operations.is_empty()) {
        operations.insert(0, Operation::Mark);
    }
    Ok(operations)
}

/// Whether our marks, and the sign that goes with them, are to be written. What is taken over is marked in any case, and what
/// lost its sign, by which it may be looked for, gets it back; what carries the reference's sign alone is marked along with a
/// change, so that taking over writes nothing (D-11).
fn is_to_be_marked(actual: &Actual, identity: &Identity<'_>, changes: bool) -> bool {
    let is_marked = actual.marks.service.as_deref() == Some(identity.uid());
    let is_signed = actual.marks == Marks::default() && actual.sign.is_some() && actual.sign == identity.sign;
    let has_another_sign = actual.sign.is_some() && identity.sign.is_some() && actual.sign != identity.sign;
    let lacks_sign = identity.signs && actual.sign.is_none() && identity.sign.is_some();
    !(is_marked || is_signed) || lacks_sign || (changes && (actual.marks != identity.marks() || has_another_sign))
}
