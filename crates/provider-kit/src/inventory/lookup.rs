//! From many Nodes and what is wanted of them to as few requests as possible.

use std::hash::BuildHasher;
use std::sync::Arc;

use cloud_provider::{Error, Gone, InstanceState, Node, Result, Want, WantMetadata};
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::{Inventory, MAX_AGE, Machine, MachineSource, SINGLE_READS_AT_FIRST, Snapshot};
use crate::paging::Reading;

/// How many machines are read one by one at the same time.
const CONCURRENT_READS: usize = 8;
/// For how many Nodes of one look-up the closest names are searched: each costs a comparison with all machines.
const HINTS: usize = 8;

/// One Node that is not answered yet.
struct Question<'a> {
    /// Its place among the answers.
    index: usize,
    node: &'a Node,
    key: Key<'a>,
}

#[derive(Clone, Copy)]
enum Key<'a> {
    Id(&'a str),
    Name(&'a str),
}

enum Way {
    List,
    OneByOne,
}

struct Lookup<'a, S: MachineSource> {
    inventory: &'a Inventory<S>,
    want: Want,
    answers: Vec<Option<Result<InstanceState>>>,
    hints: usize,
}

pub(super) async fn lookup<S: MachineSource>(
    inventory: &Inventory<S>,
    nodes: &[Arc<Node>],
    want: Want,
) -> Vec<Result<InstanceState>> {
    let mut lookup = Lookup { inventory, want, answers: Vec::new(), hints: HINTS };
    lookup.answers.resize_with(nodes.len(), || None);
    let questions = lookup.questions(nodes);
    lookup.answer(questions).await;
    let broken = || Err(Error::other("a node was left without an answer"));
    lookup.answers.into_iter().map(|answer| answer.unwrap_or_else(broken)).collect()
}

impl<S: MachineSource> Lookup<'_, S> {
    /// What is asked of each Node. A provider id that is not this cloud's is an error, never "gone".
    fn questions<'n>(&mut self, nodes: &'n [Arc<Node>]) -> Vec<Question<'n>> {
        let ids = self.inventory.source().provider_ids();
        let mut questions = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let key = match node.provider_id().map(|id| ids.read(id)) {
                Some(Ok(id)) => Key::Id(id),
                None => Key::Name(&node.name),
                Some(Err(err)) => {
                    self.answers[index] = Some(Err(err));
                    continue;
                }
            };
            questions.push(Question { index, node, key });
        }
        questions
    }

    async fn answer(&mut self, mut open: Vec<Question<'_>>) {
        if !self.want.fresh {
            let asked = open.len();
            if let Some(snapshot) = self.inventory.young_snapshot() {
                open = self.answer_those_in(&snapshot, open, false);
            }
            let metrics = &*self.inventory.0.metrics;
            (open.len()..asked).for_each(|_| metrics.cached(true));
            open.iter().for_each(|_| metrics.cached(false));
        }
        if open.is_empty() {
            return;
        }
        match self.inventory.cheapest_way(open.len(), self.want.fresh) {
            Way::OneByOne => self.read_one_by_one(open).await,
            Way::List => self.read_list(open).await,
        }
    }

    /// Answers for machines that are in the snapshot; returns the questions that it leaves open. `trusted`: it was asked
    /// for after the look-up began.
    fn answer_those_in<'n>(
        &mut self,
        snapshot: &Snapshot<S::Machine>,
        questions: Vec<Question<'n>>,
        trusted: bool,
    ) -> Vec<Question<'n>> {
        let mut open = Vec::new();
        for question in questions {
            let machine = match question.key {
                Key::Id(id) => Ok(snapshot.by_id(id)),
                Key::Name(name) => only_one(name, snapshot.by_name(name)),
            };
            match machine {
                Ok(Some(machine)) if trusted || self.inventory.may_be(machine, &question) => {
                    self.present(&question, machine);
                }
                Ok(_) => open.push(question),
                // Two of a name: unless this is old news.
                Err(err) if trusted => self.answers[question.index] = Some(Err(err)),
                Err(_) => open.push(question),
            }
        }
        open
    }

    async fn read_list(&mut self, open: Vec<Question<'_>>) {
        let called = Instant::now();
        let snapshot = match self.inventory.list(self.want.fresh).await {
            Ok(snapshot) => snapshot,
            Err(err) => {
                for question in open {
                    self.answers[question.index] = Some(Err(err.clone()));
                }
                return;
            }
        };
        let trusted = self.want.fresh || snapshot.began() >= called;
        let open = self.answer_those_in(&snapshot, open, trusted);
        match snapshot.reading() {
            Reading::Complete { listing, .. } => {
                let mut doubtful = Vec::new();
                for question in open {
                    // Its machine is listed, but may be that of another Node of this name.
                    if matches!(question.key, Key::Name(name) if snapshot.by_name(name).len() > 0) {
                        doubtful.push(question);
                        continue;
                    }
                    let (what, gone) = match question.key {
                        Key::Id(_) => (&question.node.provider_id, None),
                        Key::Name(name) => (&question.node.name, Some(Gone::no_such_name(name))),
                    };
                    // The list's proof is what counts; for a name its text is about the name.
                    let gone = listing.absence_of(what).map(|proof| gone.unwrap_or(proof));
                    let gone = gone.map(|gone| InstanceState::Gone(self.with_hint(gone, question.key)));
                    self.answers[question.index] = Some(gone.map_err(|err| self.in_place(err)));
                }
                self.read_one_by_one(doubtful).await;
            }
            Reading::Flawed { flaw, .. } if open.len() >= self.inventory.pages() => {
                for question in open {
                    self.answers[question.index] = Some(Err(flaw.clone()));
                }
            }
            Reading::Flawed { .. } => self.read_one_by_one(open).await,
        }
    }

    async fn read_one_by_one(&mut self, open: Vec<Question<'_>>) {
        let inventory = self.inventory;
        let _under_way = inventory.count_under_way(if self.want.fresh { open.len() } else { 0 });
        let reads: Vec<_> = open.iter().map(|question| inventory.read_one(question).boxed()).collect();
        let mut reads = futures::stream::iter(reads).buffered(CONCURRENT_READS);
        for question in &open {
            let Some(machine) = reads.next().await else { break };
            match (machine, question.key) {
                (Ok(Some(machine)), _) => self.present(question, &machine),
                (Ok(None), key) => {
                    let gone = match key {
                        Key::Id(_) => Gone::no_such_id(&question.node.provider_id),
                        Key::Name(name) => Gone::no_such_name(name),
                    };
                    self.answers[question.index] = Some(Ok(InstanceState::Gone(self.with_hint(gone, key))));
                }
                (Err(err), _) => self.answers[question.index] = Some(Err(err)),
            }
        }
    }

    fn present(&mut self, question: &Question<'_>, machine: &S::Machine) {
        self.inventory.claim(machine, question.node);
        let metadata = match self.want.metadata {
            WantMetadata::No => None,
            want => Some(Box::new(machine.metadata(want))),
        };
        let shutdown = self.want.shutdown.then(|| machine.is_shut_down());
        self.answers[question.index] = Some(Ok(InstanceState::Present { shutdown, metadata }));
    }

    /// Where it was looked for, and the names that come closest (P-6).
    fn with_hint(&mut self, gone: Gone, key: Key<'_>) -> Gone {
        let place = self.inventory.source().place();
        let (Key::Name(name), Some(hints)) = (key, self.hints.checked_sub(1)) else {
            return gone.with_hint(format_args!("looked in {place}"));
        };
        self.hints = hints;
        let closest = self.inventory.last_snapshot().map(|snapshot| {
            snapshot.closest_names(name).iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
        });
        match closest.filter(|closest| !closest.is_empty()) {
            Some(closest) => gone.with_hint(format_args!("looked in {place}; closest: {closest}")),
            None => gone.with_hint(format_args!("looked in {place}")),
        }
    }

    fn in_place(&self, err: Error) -> Error {
        err.context(self.inventory.source().place())
    }
}

impl<S: MachineSource> Inventory<S> {
    /// List or single reads. Single reads that need not be fresh are counted: once a list would have been as cheap, it is
    /// read, so that many small look-ups cost at most twice what one large one costs.
    fn cheapest_way(&self, machines: usize, fresh: bool) -> Way {
        if self.0.lists.can_be_joined(fresh) {
            return Way::List;
        }
        let mut state = self.state();
        let pages = state.pages.unwrap_or(SINGLE_READS_AT_FIRST + 1);
        if fresh {
            return if state.under_way + machines < pages { Way::OneByOne } else { Way::List };
        }
        if state.spent_at.is_none_or(|at| at.elapsed() >= MAX_AGE) {
            state.spent = 0;
        }
        if state.spent + machines >= pages {
            return Way::List;
        }
        state.spent += machines;
        state.spent_at = Some(Instant::now());
        Way::OneByOne
    }

    fn pages(&self) -> usize {
        self.state().pages.unwrap_or(SINGLE_READS_AT_FIRST + 1)
    }

    fn count_under_way(&self, machines: usize) -> UnderWay<'_, S> {
        self.state().under_way += machines;
        UnderWay(self, machines)
    }

    async fn read_one(&self, question: &Question<'_>) -> Result<Option<S::Machine>> {
        let source = self.source();
        match question.key {
            Key::Id(id) => match source.by_id(id).await? {
                Some(machine) if machine.id() != id => {
                    let other = machine.id();
                    Err(Error::other(format!("the cloud was asked for machine {id:?} and answered with {other:?}")))
                }
                machine => Ok(machine),
            },
            Key::Name(name) => {
                let mut named: Vec<_> = source.by_name(name).await?;
                named.retain(|machine| machine.name() == name);
                only_one(name, named.iter())?;
                Ok(named.pop())
            }
        }
    }

    fn hash(&self, text: &str) -> u64 {
        self.0.hasher.hash_one(text)
    }

    /// Whether a machine from the cache can be this Node's. By name, one that another Node was matched to before is
    /// doubtful: that Node may have been re-created for a new machine of the same name (P-10).
    fn may_be(&self, machine: &S::Machine, question: &Question<'_>) -> bool {
        match question.key {
            Key::Id(_) => true,
            Key::Name(_) => {
                let claimed = self.state().claims.get(&self.hash(machine.id())).copied();
                claimed.is_none_or(|uid| uid == self.hash(&question.node.uid))
            }
        }
    }

    fn claim(&self, machine: &S::Machine, node: &Node) {
        let (id, uid) = (self.hash(machine.id()), self.hash(&node.uid));
        self.state().claims.insert(id, uid);
    }
}

struct UnderWay<'a, S: MachineSource>(&'a Inventory<S>, usize);

impl<S: MachineSource> Drop for UnderWay<'_, S> {
    fn drop(&mut self) {
        self.0.state().under_way -= self.1;
    }
}

/// The one machine of a name. Of two nobody can tell which is meant.
fn only_one<'m, M: Machine>(name: &str, mut machines: impl ExactSizeIterator<Item = &'m M>) -> Result<Option<&'m M>> {
    if machines.len() < 2 {
        return Ok(machines.next());
    }
    let mut ids: Vec<_> = machines.map(Machine::id).collect();
    ids.sort_unstable();
    let ids = ids.join(", ");
    Err(Error::invalid(format!(
        "several machines are named {name:?} ({ids}); rename all but one, or set the node's provider id"
    )))
}
