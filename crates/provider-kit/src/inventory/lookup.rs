//! From many Nodes to as few requests as possible.

use std::hash::BuildHasher;
use std::sync::Arc;

use cloud_provider::{Error, Gone, Node, Result};
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::{Found, Inventory, Kept, Key, MAX_AGE, Machine, MachineSource, Mode, SINGLE_READS_AT_FIRST, Snapshot};
use crate::paging::Reading;
use crate::transport::Priority;

/// So many reads are prepared: a mode may want thousands.
const PREPARED_READS: usize = 256;
/// So many that are missing in a list that proves nothing are asked for one by one; the others have their turn next time.
const CONFIRMATIONS: usize = 50;
/// For how many Nodes of one look-up the closest names are searched: each costs a comparison with all machines.
const HINTS: usize = 8;

/// What is not answered yet.
struct Question<'a> {
    /// Its place among the answers.
    index: usize,
    key: Key<'a>,
    /// What is named in a proof of absence: the provider id or the name.
    what: &'a str,
    /// The Node that asks, if one does.
    node: Option<&'a Node>,
}

impl<'a> Question<'a> {
    /// The Node whose machine may be guessed: it has no provider id.
    fn guessing(&self) -> Option<&'a Node> {
        self.node.filter(|_| matches!(self.key, Key::Name(_)))
    }
}

enum Way {
    List,
    OneByOne,
}

struct Lookup<'a, S: MachineSource> {
    inventory: &'a Inventory<S>,
    fresh: bool,
    priority: Priority,
    /// Whether single reads need not tell more than the machine's state.
    is_brief: bool,
    answers: Vec<Option<Result<Found<S::Machine>>>>,
    hints: usize,
}

pub(super) async fn find_all<S: MachineSource>(
    inventory: &Inventory<S>,
    nodes: &[Arc<Node>],
    fresh: bool,
    priority: Priority,
    is_brief: bool,
) -> Vec<Result<Found<S::Machine>>> {
    let mut lookup = Lookup { is_brief, ..Lookup::new(inventory, nodes.len(), fresh, priority) };
    let questions = lookup.questions(nodes);
    lookup.answer(questions).await;
    lookup.answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
}

pub(super) async fn find<S: MachineSource>(
    inventory: &Inventory<S>,
    key: Key<'_>,
    fresh: bool,
    priority: Priority,
) -> Result<Found<S::Machine>> {
    let mut lookup = Lookup::new(inventory, 1, fresh, priority);
    let (Key::Id(what) | Key::Name(what)) = key;
    lookup.answer(vec![Question { index: 0, key, what, node: None }]).await;
    lookup.answers.pop().flatten().unwrap_or_else(unanswered)
}

fn unanswered<T>() -> Result<T> {
    Err(Error::other("a node was left without an answer"))
}

impl<'a, S: MachineSource> Lookup<'a, S> {
    fn new(inventory: &'a Inventory<S>, questions: usize, fresh: bool, priority: Priority) -> Self {
        let mut answers = Vec::new();
        answers.resize_with(questions, || None);
        Self { inventory, fresh, priority, is_brief: false, answers, hints: HINTS }
    }

    /// What is asked of each Node. A provider id that is not this cloud's is an error, never "gone".
    fn questions<'n>(&mut self, nodes: &'n [Arc<Node>]) -> Vec<Question<'n>> {
        let source = self.inventory.source();
        let mut questions = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let (key, what) = match node.provider_id().map(|id| (source.machine_id(id), id)) {
                Some((Ok(id), what)) => (Key::Id(id), what),
                None => (Key::Name(&node.name), &*node.name),
                Some((Err(err), _)) => {
                    self.answers[index] = Some(Err(err));
                    continue;
                }
            };
            questions.push(Question { index, key, what, node: Some(node) });
        }
        questions
    }

    async fn answer(&mut self, mut open: Vec<Question<'_>>) {
        if !self.fresh {
            let asked = open.len();
            open = self.answer_from_what_is_kept(open);
            let metrics = &*self.inventory.metrics;
            (open.len()..asked).for_each(|_| metrics.cached(true));
            open.iter().for_each(|_| metrics.cached(false));
        }
        if open.is_empty() {
            return;
        }
        match self.inventory.cheapest_way(open.len(), self.fresh) {
            Way::OneByOne => self.read_one_by_one(open).await,
            Way::List => self.read_list(open).await,
        }
    }

    fn answer_from_what_is_kept<'n>(&mut self, questions: Vec<Question<'n>>) -> Vec<Question<'n>> {
        match self.inventory.mode {
            Mode::Shared | Mode::All => match self.inventory.young_snapshot() {
                Some(snapshot) => self.answer_those_in(&snapshot, questions, false),
                None => questions,
            },
            Mode::One => self.answer_those_kept_singly(questions),
            Mode::Off => questions,
        }
    }

    fn answer_those_kept_singly<'n>(&mut self, questions: Vec<Question<'n>>) -> Vec<Question<'n>> {
        let mut open = Vec::new();
        for question in questions {
            let kept = self.inventory.state().entries.young(question.key, self.inventory.max_age).map(Arc::clone);
            match kept {
                Some(machine) if self.inventory.may_be(&*machine, &question) => {
                    self.there(&question, Kept::single(machine));
                }
                _ => open.push(question),
            }
        }
        open
    }

    /// Answers for machines that are in the snapshot; returns the questions that it leaves open. `trusted`: it was asked
    /// for after the look-up began.
    fn answer_those_in<'n>(
        &mut self,
        snapshot: &Arc<Snapshot<S::Machine>>,
        questions: Vec<Question<'n>>,
        trusted: bool,
    ) -> Vec<Question<'n>> {
        let mut open = Vec::new();
        for question in questions {
            let guessed = question.guessing().and_then(|node| self.inventory.guess_in(snapshot, node));
            let place = match question.key {
                _ if guessed.is_some() => Ok(guessed),
                Key::Id(id) => Ok(snapshot.place_of_id(id)),
                Key::Name(name) => match snapshot.places_of_name(name) {
                    [] => Ok(None),
                    [one] => Ok(Some(*one)),
                    _ => Err(several(name, snapshot.by_name(name))),
                },
            };
            match place {
                Ok(Some(at)) if trusted || self.inventory.may_be(snapshot.at(at), &question) => {
                    self.there(&question, Kept::listed(snapshot, at));
                }
                Ok(_) => open.push(question),
                // Two of a name: unless this is old news.
                Err(err) if trusted => self.answers[question.index] = Some(Err(err)),
                Err(_) => open.push(question),
            }
        }
        open
    }

    async fn read_list(&mut self, mut open: Vec<Question<'_>>) {
        let mut fresh = self.fresh;
        loop {
            let called = Instant::now();
            let snapshot = match self.inventory.list(fresh, self.priority).await {
                Ok(snapshot) => snapshot,
                Err(err) => return self.fail(&open, &err),
            };
            let trusted = fresh || snapshot.began() >= called;
            open = self.answer_those_in(&snapshot, open, trusted);
            // What this mode says of an absence is believed even where nobody asked for a fresh answer.
            if !trusted && self.inventory.mode == Mode::All && !open.is_empty() {
                fresh = true;
                continue;
            }
            return self.conclude(&snapshot, open).await;
        }
    }

    /// What the list says of those that are not in it.
    async fn conclude(&mut self, snapshot: &Snapshot<S::Machine>, open: Vec<Question<'_>>) {
        match snapshot.reading() {
            Reading::Complete { listing, .. } => {
                let (mut doubtful, is_proof) = (Vec::new(), self.inventory.source().lists_prove_absence());
                for question in open {
                    // It is listed, but as it was before, or may be that of another Node of this name.
                    let is_listed = match question.key {
                        Key::Id(id) => snapshot.by_id(id).is_some(),
                        Key::Name(name) => snapshot.by_name(name).len() > 0,
                    };
                    let gone = match (listing.absence_of(question.what), question.key) {
                        (Ok(_), _) if is_listed || !is_proof => {
                            doubtful.push(question);
                            continue;
                        }
                        // The list's proof is what counts; for a name its text is about the name.
                        (Ok(_), Key::Name(name)) => Ok(Gone::no_such_name(name)),
                        (gone, _) => gone,
                    };
                    let gone = gone.map(|gone| Found::Gone(self.with_hint(gone, question.key)));
                    self.answers[question.index] = Some(gone.map_err(|err| self.in_place(err)));
                }
                let most = CONFIRMATIONS.max(self.inventory.source().concurrent_reads());
                if !is_proof && doubtful.len() > most {
                    let turn = self.inventory.next_turn(doubtful.len(), most);
                    doubtful.rotate_left(turn);
                    let text = format!(
                        "not in the list, as {} others; {most} at a time are asked for by themselves",
                        doubtful.len() - 1
                    );
                    self.fail(&doubtful.split_off(most), &self.in_place(Error::other(text)));
                }
                self.read_one_by_one(doubtful).await;
            }
            Reading::Flawed { flaw, .. } if open.len() >= self.inventory.pages() => self.fail(&open, flaw),
            Reading::Flawed { .. } => self.read_one_by_one(open).await,
        }
    }

    fn fail(&mut self, open: &[Question<'_>], err: &Error) {
        for question in open {
            self.answers[question.index] = Some(Err(err.clone()));
        }
    }

    async fn read_one_by_one(&mut self, open: Vec<Question<'_>>) {
        let (inventory, priority, is_brief) = (self.inventory, self.priority, self.is_brief);
        let _under_way = inventory.count_under_way(if self.fresh { open.len() } else { 0 });
        for open in open.chunks(PREPARED_READS) {
            let reads: Vec<_> = open.iter().map(|it| inventory.read_one(it, priority, is_brief).boxed()).collect();
            let mut reads = futures::stream::iter(reads).buffered(inventory.source().concurrent_reads());
            for question in open {
                let Some(machine) = reads.next().await else { break };
                self.answer_singly(question, machine);
            }
        }
    }

    fn answer_singly(&mut self, question: &Question<'_>, machine: Result<Option<Arc<S::Machine>>>) {
        match (machine, question.key) {
            (Ok(Some(machine)), _) => self.there(question, Kept::single(machine)),
            (Ok(None), key) => {
                let gone = match key {
                    Key::Id(_) => Gone::no_such_id(question.what),
                    Key::Name(name) => Gone::no_such_name(name),
                };
                self.answers[question.index] = Some(Ok(Found::Gone(self.with_hint(gone, key))));
            }
            (Err(err), _) => self.answers[question.index] = Some(Err(err)),
        }
    }

    fn there(&mut self, question: &Question<'_>, machine: Kept<S::Machine>) {
        self.inventory.claim(&*machine, question);
        self.answers[question.index] = Some(Ok(Found::There(machine)));
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
        match self.mode {
            Mode::All => return Way::List,
            Mode::One | Mode::Off => return Way::OneByOne,
            Mode::Shared => {}
        }
        if self.inner.lists.can_share(&(), fresh) {
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

    /// Where among so many the ones begin that have their turn.
    fn next_turn(&self, doubtful: usize, most: usize) -> usize {
        let mut state = self.state();
        let turn = state.confirmed % doubtful;
        state.confirmed = turn + most;
        turn
    }

    fn count_under_way(&self, machines: usize) -> UnderWay<'_, S> {
        self.state().under_way += machines;
        UnderWay(self, machines)
    }

    async fn read_one(
        &self,
        question: &Question<'_>,
        priority: Priority,
        is_brief: bool,
    ) -> Result<Option<Arc<S::Machine>>> {
        let (source, asked, key) = (self.source(), Instant::now(), question.key);
        let guessed = match question.guessing() {
            Some(node) => self.read_guess(node, priority).await?,
            None => None,
        };
        let machine = match key {
            _ if guessed.is_some() => guessed,
            Key::Id(id) => match match is_brief {
                true => source.state_by_id(id, priority).await?,
                false => source.by_id(id, priority).await?,
            } {
                Some(machine) if machine.id() != id => {
                    let other = machine.id();
                    let text = format!("the cloud was asked for machine {id:?} and answered with {other:?}");
                    return Err(Error::other(text));
                }
                machine => machine,
            },
            Key::Name(name) => {
                let mut named: Vec<_> = source.by_name(name, priority).await?;
                named.retain(|machine| machine.name() == name);
                if named.len() > 1 {
                    return Err(several(name, named.iter()));
                }
                named.pop()
            }
        };
        let machine = machine.map(Arc::new);
        if self.mode == Mode::One {
            let entries = &mut self.state().entries;
            match &machine {
                Some(machine) => entries.insert(machine, asked),
                None => entries.remove(key),
            }
        }
        Ok(machine)
    }

    fn hash(&self, text: &str) -> u64 {
        self.inner.hasher.hash_one(text)
    }

    /// Whether a machine from the cache can be this Node's, and is as it was. By name, one that another Node was matched to
    /// before is doubtful, and one that the Node's firmware does not name: the Node may be on a new machine of the same
    /// name (P-10).
    fn may_be(&self, machine: &S::Machine, question: &Question<'_>) -> bool {
        let Some(node) = question.guessing() else { return machine.is_settled() };
        let guesses = self.source().guesses(node);
        let claimed = self.state().claims.get(&self.hash(machine.id())).copied();
        machine.is_settled()
            && (guesses.is_empty() || guesses.iter().any(|id| id == machine.id()))
            && claimed.is_none_or(|claimant| claimant == self.hash(&node.uid))
    }

    fn claim(&self, machine: &S::Machine, question: &Question<'_>) {
        let Some(node) = question.node.filter(|_| self.mode != Mode::Off) else { return };
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

/// Of two machines of a name nobody can tell which is meant.
fn several<'m, M: Machine>(name: &str, machines: impl Iterator<Item = &'m M>) -> Error {
    let mut ids: Vec<_> = machines.map(Machine::id).collect();
    ids.sort_unstable();
    let ids = ids.join(", ");
    Error::invalid(format!(
        "several machines are named {name:?} ({ids}); rename all but one, or set the node's provider id"
    ))
}
