//! [`LoadBalancers`] for any [`Backend`].

use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, Cluster, Error, Goal, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Plan, Result, Service,
    async_trait,
};

use super::backend::{Backend, Change};
use super::known::{Found, Known};
use super::model::{Actual, Part, Shared, State, Tree};
use super::ownership::{Identity, Sorted};
use super::plan::{Operation, plan, plan_removal, removals_first, steps};
use super::witness::absence_is_witnessed;
use crate::operation::until_done;

/// How often a change is planned anew because the cloud was not as it was believed to be.
const TRIES: usize = 3;

/// The load balancers of a cloud: `get`, `ensure`, `update_targets`, `delete` and `plan` from what a [`Backend`] says.
pub struct Balancers<B> {
    known: Known<B>,
    caches: OnceLock<Arc<dyn Caches>>,
}

/// What a call leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Ensured,
    Targets,
    Deleted,
}

impl<B: Backend> Balancers<B> {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(backend: B) -> Self {
        Self { known: Known::new(backend), caches: OnceLock::new() }
    }

    /// How the cloud is asked.
    #[must_use]
    pub fn backend(&self) -> &B {
        self.known.backend()
    }

    /// Lets it know which Services live, so that what a dead one left in our place can be taken over. Call it from
    /// [`CloudProvider::set_caches`](cloud_provider::CloudProvider::set_caches).
    pub fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.caches.get_or_init(|| caches);
    }

    fn identity<'a>(&self, request: &LoadBalancerRequest<'a>) -> Result<Identity<'a>> {
        let LoadBalancerRequest { cluster, service, .. } = *request;
        let backend = self.backend();
        let name = backend.name(cluster, service);
        let other_names = backend.other_names(cluster, service);
        let identity = Identity { cluster, service, name, other_names, sign: backend.sign(cluster, service) };
        if identity.uid().is_empty() {
            return Err(Error::invalid(
                "a Service without a UID cannot have a load balancer: nothing would tell whose it is",
            ));
        }
        Ok(identity)
    }

    fn sorted(&self, found: Found, identity: &Identity<'_>) -> Sorted {
        Sorted::new(found.actuals, identity, self.caches.get().map(|caches| &**caches))
    }

    /// What is the Service's. To say that *nothing* is, the cloud is asked by name: a list may lag behind, and a finalizer
    /// may hang on it (D-16).
    async fn ours(&self, identity: &Identity<'_>) -> Result<Sorted> {
        let found = self.known.look_up(identity).await?;
        let is_certain = found.is_certain;
        let sorted = self.sorted(found, identity);
        if is_certain || !sorted.ours.is_empty() {
            return self.believed(sorted, identity).await;
        }
        self.read(identity).await
    }

    /// What a change starts from.
    async fn found(&self, identity: &Identity<'_>, aim: Aim, fresh: bool) -> Result<Sorted> {
        match aim {
            Aim::Targets if !fresh => self.ours(identity).await,
            Aim::Ensured if !fresh => self.found_to_ensure(identity).await,
            // What is removed is read right before.
            _ => self.read(identity).await,
        }
    }

    /// What is there, for certain.
    async fn read(&self, identity: &Identity<'_>) -> Result<Sorted> {
        let sorted = self.sorted(self.known.find(identity).await?, identity);
        self.believed(sorted, identity).await
    }

    /// That nothing is there of what was, only with a witness; and then it is read once more, because the first answer is
    /// older than the witness: a credential that came right in between would bear out what another project said.
    async fn believed(&self, sorted: Sorted, identity: &Identity<'_>) -> Result<Sorted> {
        if !sorted.is_empty() {
            return Ok(sorted);
        }
        let caches = self.caches.get().map(|caches| &**caches);
        if absence_is_witnessed(self.backend(), identity, caches).await? {
            return Ok(self.sorted(self.known.find(identity).await?, identity));
        }
        Ok(sorted)
    }

    async fn found_to_ensure(&self, identity: &Identity<'_>) -> Result<Sorted> {
        let names_are_unique = self.backend().names_are_unique();
        if names_are_unique && self.known.has_never_seen(identity) {
            return self.believed(Sorted::default(), identity).await;
        }
        let found = self.known.look_up(identity).await?;
        let is_certain = found.is_certain;
        let sorted = self.sorted(found, identity);
        match sorted.for_changes() {
            Ok(Some(_)) => Ok(sorted),
            Ok(None) if names_are_unique => self.believed(sorted, identity).await,
            _ if is_certain => self.believed(sorted, identity).await,
            // Refused, or to be made though the cloud would not refuse a second one: that must be certain.
            _ => self.read(identity).await,
        }
    }

    /// Brings it about. A conflict, or something that is gone, means that the cloud is not as it was believed to be: it is
    /// read again and planned anew.
    async fn bring_about(&self, request: &LoadBalancerRequest<'_>, aim: Aim) -> Result<Option<Shared>> {
        let identity = self.identity(request)?;
        let wanted = match aim {
            Aim::Deleted => None,
            _ => Some(self.backend().wanted(request).await?),
        };
        let mut run =
            Run { this: self, request, identity, wanted, aim, is_told: false, is_at_limit: false, removes: false };
        let mut tries = 1..=TRIES;
        loop {
            let number = tries.next().unwrap_or(TRIES);
            match run.once(number > 1).await {
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
}

/// One call of `ensure`, `update_targets` or `delete`.
struct Run<'a, B> {
    this: &'a Balancers<B>,
    request: &'a LoadBalancerRequest<'a>,
    identity: Identity<'a>,
    wanted: Option<Tree>,
    aim: Aim,
    is_told: bool,
    /// Whether the cloud refused more than there is: then there is no making before breaking.
    is_at_limit: bool,
    /// Whether the last plan had something to remove.
    removes: bool,
}

impl<B: Backend> Run<'_, B> {
    async fn once(&mut self, fresh: bool) -> Result<Option<Shared>> {
        let sorted = self.this.found(&self.identity, self.aim, fresh).await?;
        if self.aim == Aim::Deleted {
            for actual in &sorted.ours {
                self.change(Some(Arc::clone(actual)), Aim::Deleted).await?;
            }
            if !sorted.ours.is_empty() {
                // "Not found" counts as removed, also where the credential has just become another project's.
                self.this.believed(Sorted::default(), &self.identity).await?;
            }
            return Ok(None);
        }
        let actual = sorted.for_changes()?.cloned();
        if actual.is_none() && self.aim == Aim::Targets {
            return Err(Error::other(format!("there is no load balancer {:?} to change", self.identity.name)));
        }
        let actual = self.change(actual, self.aim).await?;
        if self.aim == Aim::Ensured {
            self.remove_doubles(sorted.doubles()).await?;
        }
        Ok(actual)
    }

    /// Two of ours are one too many, however they came about.
    async fn remove_doubles(&mut self, doubles: &[Shared]) -> Result<()> {
        for double in doubles {
            tracing::warn!(id = double.id, name = double.name, "a second load balancer of one service is removed");
            self.change(Some(Arc::clone(double)), Aim::Deleted).await?;
        }
        Ok(())
    }

    /// Plans and does. What the cloud is at work on is awaited first, and planned anew.
    async fn change(&mut self, mut actual: Option<Shared>, aim: Aim) -> Result<Option<Shared>> {
        let operations = loop {
            let wanted = self.wanted.as_ref().filter(|_| aim != Aim::Deleted);
            let mut operations = operations(wanted, actual.as_deref(), &self.identity, aim)?;
            if operations.is_empty() {
                return self.until_ready(actual, aim).await;
            }
            if self.is_at_limit {
                operations = removals_first(operations, &actual.as_deref().map(Actual::known_tree).unwrap_or_default());
            }
            self.removes = operations.iter().any(Operation::removes);
            if !std::mem::replace(&mut self.is_told, true) {
                let name = actual.as_deref().map_or(&self.identity.name, |actual| &actual.name);
                self.request.observer.planned(&steps(&operations, name));
            }
            match &actual {
                Some(busy) if busy.state == State::Busy => actual = self.until_ready(actual, aim).await?,
                _ => break operations,
            }
        };
        let mut rest = &operations[..];
        while !rest.is_empty() {
            let count;
            (count, actual) = self.apply(actual, rest).await?;
            rest = &rest[count.min(rest.len())..];
            actual = self.until_ready(actual, aim).await?;
        }
        Ok(actual)
    }

    async fn apply(&self, actual: Option<Shared>, operations: &[Operation]) -> Result<(usize, Option<Shared>)> {
        let known = &self.this.known;
        let change = Change { identity: &self.identity, actual: actual.as_deref(), operations };
        // Also if this is dropped before the answer.
        known.doubt(self.identity.uid());
        let (count, outcome) = known.backend().apply(change).await?.outcome(change);
        let outcome = outcome.map(|outcome| known.put(outcome));
        if let Some(before) = actual.filter(|before| outcome.as_ref().is_none_or(|after| after.id != before.id)) {
            known.forget(&before.id);
        }
        known.settle(self.identity.uid());
        Ok((count, outcome))
    }

    /// Waits as long as the cloud is at work on it; `None` if it is gone then.
    async fn until_ready(&self, actual: Option<Shared>, aim: Aim) -> Result<Option<Shared>> {
        let Some(mut actual) = actual else { return Ok(None) };
        if actual.state == State::Busy {
            let (polling, place) = (self.this.backend().polling(), actual.place());
            let seen = until_done(&place, polling, || async {
                Ok(match self.this.known.look(&actual.id).await? {
                    Some(actual) if actual.state == State::Busy => None,
                    seen => Some(seen),
                })
            });
            match seen.await? {
                Some(seen) => actual = seen,
                None if aim == Aim::Deleted => return Ok(None),
                None => return Err(Error::not_found(format!("{} went away while it was awaited", actual.place()))),
            }
        }
        match &actual.state {
            State::Failed(text) if aim != Aim::Deleted => Err(Error::other(format!("{}: {text}", actual.place()))),
            _ => Ok(Some(actual)),
        }
    }
}

/// What is to be done.
fn operations(
    wanted: Option<&Tree>,
    actual: Option<&Actual>,
    identity: &Identity<'_>,
    aim: Aim,
) -> Result<Vec<Operation>> {
    let Some(actual) = actual else {
        return Ok(wanted.map(|wanted| plan(wanted, &Tree::default())).unwrap_or_default());
    };
    let tree = actual.known_tree();
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
    let is_another_services = actual.marks.service.as_deref().is_some_and(|uid| uid != identity.uid());
    let is_made_anew = operations.iter().any(|it| matches!(it, Operation::Create { part: Part::Balancer, .. }));
    // What carries the reference's sign alone is marked along with a change, so that taking over writes nothing (D-11).
    if !is_made_anew && (is_another_services || (!operations.is_empty() && actual.marks != identity.marks())) {
        operations.insert(0, Operation::Mark);
    }
    Ok(operations)
}

#[async_trait]
impl<B: Backend> LoadBalancers for Balancers<B> {
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.backend().name(cluster, service)
    }

    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let sorted = self.ours(&self.identity(&request)?).await?;
        Ok(sorted.ours.first().map(|actual| actual.status()))
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let actual = self.bring_about(&request, Aim::Ensured).await?;
        Ok(actual.map(|actual| actual.status()))
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.bring_about(&request, Aim::Targets).await.map(drop)
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.bring_about(&request, Aim::Deleted).await.map(drop)
    }

    fn has_plans(&self) -> bool {
        true
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        let identity = self.identity(&request)?;
        if goal == Goal::Deleted {
            return removal(&self.ours(&identity).await?.ours, &identity);
        }
        let wanted = self.backend().wanted(&request).await?;
        let sorted = self.sorted(self.known.look_up(&identity).await?, &identity);
        let sorted = self.believed(sorted, &identity).await?;
        let actual = sorted.for_changes()?;
        let name = actual.map_or(&identity.name, |actual| &actual.name);
        let mut plan =
            steps(&operations(Some(&wanted), actual.map(|actual| &**actual), &identity, Aim::Ensured)?, name);
        plan.steps.extend(removal(sorted.doubles(), &identity)?.steps);
        Ok(plan)
    }
}

/// What it takes to remove these.
fn removal(ours: &[Shared], identity: &Identity<'_>) -> Result<Plan> {
    let mut plan = Plan::default();
    for actual in ours {
        plan.steps.extend(steps(&operations(None, Some(actual), identity, Aim::Deleted)?, &actual.name).steps);
    }
    Ok(plan)
}
