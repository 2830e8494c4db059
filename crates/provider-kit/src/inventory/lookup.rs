//! Lookups of many Nodes with as few requests as possible.

use std::hash::BuildHasher;
use std::sync::Arc;

use cloud_provider::{Error, Gone, Node, Result};
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::{
    Found, Inventory, Key, MAX_AGE, Machine, MachineRef, MachineSource, Mode,
    SINGLE_READS_AT_FIRST, Snapshot,
};
use crate::paging::ListResult;
use crate::transport::Priority;

/// The number of single reads that are prepared at a time, because a mode may need thousands.
const PREPARED_READS: usize = 256;
/// The maximum number of machines per lookup that a list lacks without [proving their
/// absence](MachineSource::lists_prove_absence), and that are therefore read one by one. The others follow in the next
/// lookups.
const CONFIRMATIONS: usize = 50;
/// The number of Nodes of a lookup for which the closest names are searched: each costs a comparison with all machines.
const HINTS: usize = 8;

/// A Node or key that has no answer yet.
struct PendingLookup<'a> {
    /// Index of the answer.
    index: usize,
    key: Key<'a>,
    /// The provider ID or name, as it appears in a proof of absence.
    what: &'a str,
    /// The Node that is looked up, if the key comes from a Node.
    node: Option<&'a Node>,
}

impl<'a> PendingLookup<'a> {
    /// Returns the Node if its machine may be guessed, because the Node has no provider ID.
    fn guessing(&self) -> Option<&'a Node> {
        self.node.filter(|_| matches!(self.key, Key::Name(_)))
    }
}

enum ReadPlan {
    List,
    OneByOne,
}

struct Lookup<'a, S: MachineSource> {
    inventory: &'a Inventory<S>,
    fresh: bool,
    priority: Priority,
    /// If set, single reads need only return the machine's state.
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
    let mut lookup = Lookup {
        is_brief,
        ..Lookup::new(inventory, nodes.len(), fresh, priority)
    };
    let pending_lookups = lookup.pending_lookups(nodes);
    lookup.answer(pending_lookups).await;
    lookup
        .answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(unanswered))
        .collect()
}

pub(super) async fn find<S: MachineSource>(
    inventory: &Inventory<S>,
    key: Key<'_>,
    fresh: bool,
    priority: Priority,
) -> Result<Found<S::Machine>> {
    let mut lookup = Lookup::new(inventory, 1, fresh, priority);
    let (Key::Id(what) | Key::Name(what)) = key;
    lookup
        .answer(vec![PendingLookup {
            index: 0,
            key,
            what,
            node: None,
        }])
        .await;
    lookup.answers.pop().flatten().unwrap_or_else(unanswered)
}

fn unanswered<T>() -> Result<T> {
    Err(Error::other("a lookup returned no answer for a Node"))
}

impl<'a, S: MachineSource> Lookup<'a, S> {
    fn new(
        inventory: &'a Inventory<S>,
        pending_lookups: usize,
        fresh: bool,
        priority: Priority,
    ) -> Self {
        let mut answers = Vec::new();
        answers.resize_with(pending_lookups, || None);
        Self {
            inventory,
            fresh,
            priority,
            is_brief: false,
            answers,
            hints: HINTS,
        }
    }

    /// Returns the question for each Node. A provider ID that is not this cloud's is an error, never "gone".
    fn pending_lookups<'n>(&mut self, nodes: &'n [Arc<Node>]) -> Vec<PendingLookup<'n>> {
        let source = self.inventory.source();
        let mut pending_lookups = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let (key, what) = match node.provider_id().map(|id| (source.machine_id(id), id)) {
                Some((Ok(id), what)) => (Key::Id(id), what),
                None => (Key::Name(&node.name), &*node.name),
                Some((Err(err), _)) => {
                    self.answers[index] = Some(Err(err));
                    continue;
                }
            };
            pending_lookups.push(PendingLookup {
                index,
                key,
                what,
                node: Some(node),
            });
        }
        pending_lookups
    }

    async fn answer(&mut self, mut open: Vec<PendingLookup<'_>>) {
        if !self.fresh {
            let asked = open.len();
            open = self.answer_from_cache(open);
            let metrics = &*self.inventory.metrics;
            (open.len()..asked).for_each(|_| metrics.cached(true));
            open.iter().for_each(|_| metrics.cached(false));
        }
        if open.is_empty() {
            return;
        }
        match self.inventory.cheapest_plan(open.len(), self.fresh) {
            ReadPlan::OneByOne => self.read_one_by_one(open).await,
            ReadPlan::List => self.read_list(open).await,
        }
    }

    fn answer_from_cache<'n>(
        &mut self,
        pending_lookups: Vec<PendingLookup<'n>>,
    ) -> Vec<PendingLookup<'n>> {
        match self.inventory.mode {
            Mode::Shared | Mode::AlwaysList => match self.inventory.young_snapshot() {
                Some(snapshot) => self.answer_from_list(&snapshot, pending_lookups, false),
                None => pending_lookups,
            },
            Mode::AlwaysSingle => self.answer_from_entries(pending_lookups),
            Mode::Off => pending_lookups,
        }
    }

    fn answer_from_entries<'n>(
        &mut self,
        pending_lookups: Vec<PendingLookup<'n>>,
    ) -> Vec<PendingLookup<'n>> {
        let mut open = Vec::new();
        for pending in pending_lookups {
            let kept = self
                .inventory
                .state()
                .entries
                .young(pending.key, self.inventory.max_age)
                .map(Arc::clone);
            match kept {
                Some(machine) if self.inventory.may_be(&*machine, &pending) => {
                    self.answer_present(&pending, MachineRef::single(machine));
                }
                _ => open.push(pending),
            }
        }
        open
    }

    /// Answers for machines that are in the snapshot, and returns the questions that stay open. `trusted` is set if the
    /// snapshot was requested after the lookup began.
    fn answer_from_list<'n>(
        &mut self,
        snapshot: &Arc<Snapshot<S::Machine>>,
        pending_lookups: Vec<PendingLookup<'n>>,
        trusted: bool,
    ) -> Vec<PendingLookup<'n>> {
        let mut open = Vec::new();
        for pending in pending_lookups {
            let guessed = pending
                .guessing()
                .and_then(|node| self.inventory.guess_in(snapshot, node));
            let place = match pending.key {
                _ if guessed.is_some() => Ok(guessed),
                Key::Id(id) => Ok(snapshot.place_of_id(id)),
                Key::Name(name) => match snapshot.places_of_name(name) {
                    [] => Ok(None),
                    [one] => Ok(Some(*one)),
                    _ => Err(several(name, snapshot.by_name(name))),
                },
            };
            match place {
                Ok(Some(at)) if trusted || self.inventory.may_be(snapshot.at(at), &pending) => {
                    self.answer_present(&pending, MachineRef::listed(snapshot, at));
                }
                Ok(_) => open.push(pending),
                // Two machines have the name, unless the snapshot is out of date.
                Err(err) if trusted => self.answers[pending.index] = Some(Err(err)),
                Err(_) => open.push(pending),
            }
        }
        open
    }

    async fn read_list(&mut self, mut open: Vec<PendingLookup<'_>>) {
        let mut fresh = self.fresh;
        loop {
            let called = Instant::now();
            let snapshot = match self.inventory.list(fresh, self.priority).await {
                Ok(snapshot) => snapshot,
                Err(err) => return self.fail(&open, &err),
            };
            let trusted = fresh || snapshot.began() >= called;
            open = self.answer_from_list(&snapshot, open, trusted);
            // In this mode, an absence counts only after a fresh list, even if the caller did not request one.
            if !trusted && self.inventory.mode == Mode::AlwaysList && !open.is_empty() {
                fresh = true;
                continue;
            }
            return self.conclude(&snapshot, open).await;
        }
    }

    /// Answers the questions that a list leaves open, by its proof of absence.
    async fn conclude(&mut self, snapshot: &Snapshot<S::Machine>, open: Vec<PendingLookup<'_>>) {
        match snapshot.reading() {
            ListResult::Complete { listing, .. } => {
                let mut doubtful = Vec::new();
                let is_proof = self.inventory.source().lists_prove_absence();
                for pending in open {
                    // The machine is listed with outdated values, or may belong to another Node of this name.
                    let is_listed = match pending.key {
                        Key::Id(id) => snapshot.by_id(id).is_some(),
                        Key::Name(name) => snapshot.by_name(name).len() > 0,
                    };
                    let gone = match (listing.prove_absence(pending.what), pending.key) {
                        (Ok(_), _) if is_listed || !is_proof => {
                            doubtful.push(pending);
                            continue;
                        }
                        // The list proves the absence. For a name, the proof is of another form, because controllers
                        // wait longer before they act on it.
                        (Ok(_), Key::Name(name)) => Ok(Gone::no_such_name(name)),
                        (gone, _) => gone,
                    };
                    let gone = gone.map(|gone| Found::Gone(self.with_hint(gone, pending.key)));
                    self.answers[pending.index] = Some(gone.map_err(|err| self.in_place(err)));
                }
                let most = CONFIRMATIONS.max(self.inventory.source().concurrent_reads());
                if !is_proof && doubtful.len() > most {
                    let turn = self.inventory.next_turn(doubtful.len(), most);
                    doubtful.rotate_left(turn);
                    let text = format!(
                        "not in the list, like {} others; {most} at a time are read one by one",
                        doubtful.len() - 1
                    );
                    self.fail(
                        &doubtful.split_off(most),
                        &self.in_place(Error::other(text)),
                    );
                }
                self.read_one_by_one(doubtful).await;
            }
            ListResult::Partial { reason, .. } if open.len() >= self.inventory.pages() => {
                self.fail(&open, reason);
            }
            ListResult::Partial { .. } => self.read_one_by_one(open).await,
        }
    }

    fn fail(&mut self, open: &[PendingLookup<'_>], err: &Error) {
        for pending in open {
            self.answers[pending.index] = Some(Err(err.clone()));
        }
    }

    async fn read_one_by_one(&mut self, open: Vec<PendingLookup<'_>>) {
        let inventory = self.inventory;
        let priority = self.priority;
        let is_brief = self.is_brief;
        let _under_way = inventory.count_under_way(if self.fresh { open.len() } else { 0 });
        for open in open.chunks(PREPARED_READS) {
            let reads: Vec<_> = open
                .iter()
                .map(|pending_lookup| {
                    inventory
                        .read_one(pending_lookup, priority, is_brief)
                        .boxed()
                })
                .collect();
            let mut reads =
                futures::stream::iter(reads).buffered(inventory.source().concurrent_reads());
            for pending in open {
                let Some(machine) = reads.next().await else {
                    break;
                };
                self.answer_singly(pending, machine);
            }
        }
    }

    fn answer_singly(
        &mut self,
        pending: &PendingLookup<'_>,
        machine: Result<Option<Arc<S::Machine>>>,
    ) {
        match (machine, pending.key) {
            (Ok(Some(machine)), _) => self.answer_present(pending, MachineRef::single(machine)),
            (Ok(None), key) => {
                let gone = match key {
                    Key::Id(_) => Gone::no_such_id(pending.what),
                    Key::Name(name) => Gone::no_such_name(name),
                };
                self.answers[pending.index] = Some(Ok(Found::Gone(self.with_hint(gone, key))));
            }
            (Err(err), _) => self.answers[pending.index] = Some(Err(err)),
        }
    }

    fn answer_present(&mut self, pending: &PendingLookup<'_>, machine: MachineRef<S::Machine>) {
        self.inventory.claim(&*machine, pending);
        self.answers[pending.index] = Some(Ok(Found::Present(machine)));
    }

    /// Adds to a proof of absence where the machine was searched, and the closest names (P-6).
    fn with_hint(&mut self, gone: Gone, key: Key<'_>) -> Gone {
        let place = self.inventory.source().place();
        let (Key::Name(name), Some(hints)) = (key, self.hints.checked_sub(1)) else {
            return gone.with_hint(format_args!("looked in {place}"));
        };
        self.hints = hints;
        let closest = self.inventory.last_snapshot().map(|snapshot| {
            snapshot
                .closest_names(name)
                .iter()
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(", ")
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
    /// Chooses between a list and single reads. Single reads that need not be fresh are counted: once a list would have
    /// been as cheap, it is read, so that many small lookups cost at most twice as much as one large lookup.
    fn cheapest_plan(&self, machines: usize, fresh: bool) -> ReadPlan {
        match self.mode {
            Mode::AlwaysList => return ReadPlan::List,
            Mode::AlwaysSingle | Mode::Off => return ReadPlan::OneByOne,
            Mode::Shared => {}
        }
        if self.inner.lists.can_share(&(), fresh) {
            return ReadPlan::List;
        }
        let mut state = self.state();
        let pages = state.pages.unwrap_or(SINGLE_READS_AT_FIRST + 1);
        if fresh {
            return if state.under_way + machines < pages {
                ReadPlan::OneByOne
            } else {
                ReadPlan::List
            };
        }
        if state.spent_at.is_none_or(|at| at.elapsed() >= MAX_AGE) {
            state.spent = 0;
        }
        if state.spent + machines >= pages {
            return ReadPlan::List;
        }
        state.spent += machines;
        state.spent_at = Some(Instant::now());
        ReadPlan::OneByOne
    }

    fn pages(&self) -> usize {
        self.state().pages.unwrap_or(SINGLE_READS_AT_FIRST + 1)
    }

    /// Returns the index among `doubtful` machines at which the next confirmations begin.
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
        pending: &PendingLookup<'_>,
        priority: Priority,
        is_brief: bool,
    ) -> Result<Option<Arc<S::Machine>>> {
        let source = self.source();
        let asked = Instant::now();
        let key = pending.key;
        let guessed = match pending.guessing() {
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
                    let text = format!(
                        "the cloud answered a read of machine {id:?} with machine {other:?}"
                    );
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
        if self.mode == Mode::AlwaysSingle {
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

    /// Returns `true` if a machine from the cache may be this Node's, and is unchanged. By name, a machine is not
    /// accepted if it was matched to another Node before, or if the Node's firmware names a different one: the Node may
    /// be on a new machine of the same name (P-10).
    fn may_be(&self, machine: &S::Machine, pending: &PendingLookup<'_>) -> bool {
        let Some(node) = pending.guessing() else {
            return machine.is_settled();
        };
        let guesses = self.source().guesses(node);
        let claimed = self.state().claims.get(&self.hash(machine.id())).copied();
        machine.is_settled()
            && (guesses.is_empty() || guesses.iter().any(|id| id == machine.id()))
            && claimed.is_none_or(|claimant| claimant == self.hash(&node.uid))
    }

    fn claim(&self, machine: &S::Machine, pending: &PendingLookup<'_>) {
        let Some(node) = pending.node.filter(|_| self.mode != Mode::Off) else {
            return;
        };
        let id = self.hash(machine.id());
        let uid = self.hash(&node.uid);
        self.state().claims.insert(id, uid);
    }
}

struct UnderWay<'a, S: MachineSource>(&'a Inventory<S>, usize);

impl<S: MachineSource> Drop for UnderWay<'_, S> {
    fn drop(&mut self) {
        self.0.state().under_way -= self.1;
    }
}

/// Returns the error for several machines of one name, of which none can be chosen.
fn several<'m, M: Machine>(name: &str, machines: impl Iterator<Item = &'m M>) -> Error {
    let mut ids: Vec<_> = machines.map(Machine::id).collect();
    ids.sort_unstable();
    let ids = ids.join(", ");
    Error::invalid(format!(
        "several machines are named {name:?} ({ids}); rename all but one, or set the Node's provider ID"
    ))
}
