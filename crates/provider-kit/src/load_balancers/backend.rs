//! What a provider says about its cloud's load balancers.

use std::borrow::Cow;
use std::time::Duration;

use cloud_provider::{
    Cluster, LoadBalancerRequest, LoadBalancerStatus, Node, Result, Service, SyncObserver, async_trait,
    default_load_balancer_name,
};
use futures::future::try_join_all;

use super::cloud::Adoption;
use super::model::{Actual, Marks, Part, State, Tree};
use super::naming::Naming;
use super::ownership::{Identity, shows_address};
use super::plan::Operation;
use super::targets::{TargetSets, Targets};
use crate::operation::Polling;
use crate::paging::Reading;

/// A cloud's load balancers: how they are read and changed. [`Balancers`](super::Balancers) makes everything else of it.
///
/// Calls for one Service never overlap; any call may be dropped at any await. So whatever is made must carry the marks, or
/// be found from something that does, from the moment on that it exists.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Names and owner tags by which a Service's load balancer is known.
    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        Naming {
            name: self.name(cluster, service),
            former_names: self.other_names(cluster, service),
            legacy_owner: self.sign(cluster, service),
            writes_legacy_owner: self.signs(),
            ..Naming::default()
        }
    }

    /// The name of a new load balancer.
    fn name(&self, _cluster: &Cluster, service: &Service) -> String {
        default_load_balancer_name(service)
    }

    /// Names under which it may exist from earlier times.
    fn other_names(&self, _cluster: &Cluster, _service: &Service) -> Vec<String> {
        Vec::new()
    }

    /// What the reference's own sign on a load balancer of this Service says; compared with [`Actual::sign`]. What carries it
    /// and no mark is ours (D-11).
    fn sign(&self, _cluster: &Cluster, _service: &Service) -> Option<String> {
        None
    }

    /// Whether that sign is written along with our marks, because it is looked for: then one that lost it gets it back.
    fn signs(&self) -> bool {
        false
    }

    /// Whether the cloud refuses a second load balancer of the same name, with a *conflict*. If it does not, one is
    /// [looked for](Self::find) before it is made.
    fn names_are_unique(&self) -> bool {
        true
    }

    /// Whether this one, which has our name but neither our marks nor the reference's sign for this Service, is taken over
    /// all the same: clouds whose users make load balancers by other means, and name them in an annotation. One that is
    /// marked or signed for a Service that lives is refused before this is asked; one that is taken over is not deleted
    /// before it was marked. Set [`Actual::adopted`] of one that was not made for a Service of a cluster.
    fn adopts(&self, _actual: &Actual, _identity: &Identity<'_>) -> Adoption {
        Adoption::Refused
    }

    /// Whether this is the one that the Service names, for clouds whose users may choose; `None`: it names none. That one counts
    /// before all others. A Service that has another one moves: what it has serves on until the one that it names is ready, the
    /// new addresses are [published](SyncObserver::publish), and then what it had is removed, as far as it is the Service's.
    fn is_asked_for(&self, _actual: &Actual, _identity: &Identity<'_>) -> Option<bool> {
        None
    }

    /// Whether the Service shows that this is the one that it is reached by: by its addresses, or as the provider has them
    /// annotated.
    fn is_shown(&self, actual: &Actual, identity: &Identity<'_>) -> bool {
        shows_address(identity.service, actual)
    }

    /// Told when a Service has moved, and what it had is about to be removed.
    fn moved(&self, _service: &Service, _from: &Actual, _to: &Actual) {}

    /// Whether this part is the Service's, whichever load balancer it has: it stays where one of two is removed.
    fn outlives(&self, _part: &Part) -> bool {
        false
    }

    /// Whether the targets of this Service depend on labels of Nodes, such as by a selector in an annotation: then they are
    /// planned anew when those change, too.
    fn targets_follow_labels(&self, _service: &Service) -> bool {
        false
    }

    /// Whether targets are addresses of Nodes, and not machines: then they are planned anew when those change, too.
    fn targets_follow_addresses(&self) -> bool {
        false
    }

    /// Told which targets found no room in a pool with a [limit](Tree::limit): each once in a life of the process, as long as
    /// it finds none. Those that are left out of a change are told before it; those that joined them since are told although
    /// nothing changes. Nothing is told of what was found so at the first look after a start, and is left as it is.
    fn left_out(&self, _request: &LoadBalancerRequest<'_>, _pool: &str, _targets: &Targets) {}

    /// What a Service wants. Reads no load balancer, and changes nothing.
    ///
    /// # Errors
    /// *Invalid*, naming the annotation or field, its value and what is accepted, for what the user must change.
    async fn wanted(&self, request: &LoadBalancerRequest<'_>, identity: &Identity<'_>) -> Result<Tree>;

    /// What a Service wants while nothing but its targets is moved: pools with their targets are enough. What is wrong with the
    /// rest then keeps no Node from being a target, and nothing need be looked up for it.
    ///
    /// # Errors
    /// As [`wanted`](Self::wanted), of what decides about targets.
    async fn wanted_targets(&self, request: &LoadBalancerRequest<'_>, identity: &Identity<'_>) -> Result<Tree> {
        self.wanted(request, identity).await
    }

    /// What is wanted of this one, where that depends on what is there already: such as of one that several Services share,
    /// where only the first has a say in some things. Asked whenever there is one.
    ///
    /// # Errors
    /// *Invalid*, for what the user must change.
    fn fitted(&self, wanted: Tree, _actual: &Actual, _identity: &Identity<'_>) -> Result<Tree> {
        Ok(wanted)
    }

    /// Reads all load balancers: the cheap way to many. It may lag behind. Let each [share](Actual::sharing) its targets as
    /// soon as its page is read: a thousand load balancers have mostly the same thousand targets.
    ///
    /// # Errors
    /// What the cloud answered.
    async fn list(&self, sets: &TargetSets) -> Result<Reading<Actual>>;

    /// Reads everything that carries this Service's marks, the reference's sign for it or its name, whoever it belongs to:
    /// from what does not lag behind. Asked where it must be certain what is there, such as before a deletion.
    ///
    /// # Errors
    /// What the cloud answered.
    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<Actual>>;

    /// Reads one, whole. `None` only if the cloud itself says that it is not there.
    ///
    /// # Errors
    /// Every other answer.
    async fn read(&self, id: &str) -> Result<Option<Actual>>;

    /// Reads several; those that are not there are left out. Asked again and again while the cloud is at work on them, so
    /// worth one request where it can be had. Of these nothing but id and state need be told: what
    /// [`apply`](Self::apply) showed of its [parts](Actual::tree) holds then, and one that was found [busy](State::Busy) is
    /// [read](Self::read) once it is not any more.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    async fn read_many(&self, ids: &[String]) -> Result<Vec<Actual>> {
        let reads = try_join_all(ids.iter().map(|id| self.read(id))).await?;
        Ok(reads.into_iter().flatten().collect())
    }

    /// Whether the cloud shows this Node's machine, with the credential with which load balancers are read. Asked where one
    /// that a Service had is not found: if none of the cluster's machines is found either, it is the wrong credential.
    ///
    /// # Errors
    /// *Invalid* for a Node that is no machine of this cloud; else what the cloud answered.
    async fn has_machine(&self, node: &Node) -> Result<bool>;

    /// Does the first of the change's operations, or as many as one request can do. Not called while the cloud is at work on
    /// it.
    ///
    /// # Errors
    /// *Conflict* if it exists already, or has changed: it is read again, and planned anew. *Protected* if a person must lift
    /// something first. Any error: nobody knows what was done, and it is read again before the next change.
    async fn apply(&self, change: Change<'_>) -> Result<Applied>;

    /// What the Service's status says of it, for clouds where that depends on the Service's annotations.
    ///
    /// # Errors
    /// *Invalid*, naming the annotation, its value and what is accepted.
    fn status(&self, actual: &Actual, _identity: &Identity<'_>) -> Result<LoadBalancerStatus> {
        Ok(actual.status())
    }

    /// Annotations on the Service that tell of its load balancer, for clouds whose users look there: key, and value or
    /// nothing. They are written after every [`ensure`](cloud_provider::LoadBalancers::ensure) that found or made one, whether
    /// it succeeds or not; only where they differ.
    fn annotations(&self, _actual: &Actual, _identity: &Identity<'_>) -> Vec<(&'static str, Option<String>)> {
        Vec::new()
    }

    /// What must not be changed for two Services at the same time, such as a load balancer that they share: runs of the same
    /// key go one after the other, and what one of them had read before another changed it is read again (P-27).
    fn lock(&self, _actual: &Actual) -> Option<String> {
        None
    }

    /// Whether this one of the Service's own, which [failed](State::Failed), is removed and made anew: say so only if it never
    /// worked, because it takes its address along. Not asked for one with [parts of others](Actual::foreign).
    fn replaces(&self, _actual: &Actual, _service: &Service) -> bool {
        false
    }

    /// Returns what a person may do about one that [failed](State::Failed) and is not [replaced](Self::replaces), as a sentence
    /// without a full stop.
    fn repair_hint(&self, _actual: &Actual, _service: &Service) -> Option<String> {
        None
    }

    /// How patiently work in the background is awaited. All that wait are looked at together, so it may be often.
    fn polling(&self) -> Polling {
        Polling { longest: Duration::from_secs(1), ..Polling::default() }
    }
}

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
            outcome.marks = self.identity.marks();
            outcome.sign.clone_from(&self.identity.sign);
        }
        for operation in operations {
            match operation {
                Operation::Mark => {
                    outcome.marks = self.identity.marks();
                    outcome.sign.clone_from(&self.identity.sign);
                }
                Operation::Unmark => {
                    outcome.marks = Marks::default();
                    outcome.sign = outcome.sign.filter(|_| !self.identity.signs);
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

/// What [`Backend::apply`] has done.
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
    /// All of them: it was not there any more, or nobody knows. Nothing is left of it, if a witness bears that out.
    Gone,
    /// All of them: the cloud said that it removed it just now, which needs no witness.
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

/// The same, said once for all.
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
