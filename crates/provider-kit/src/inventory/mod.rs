//! All machines of a cloud, read once and shared by everybody who asks (P-4).
//!
//! [`Inventory`] implements [`Instances`] for any cloud that can list its machines, find one by id and find one by name:
//! a [`MachineSource`]. It spends as few requests as it can and never takes a doubt for an absence:
//!
//! * What is not wanted fresh is answered from the last list if that is no older than [`MAX_AGE`]. What is not in it is
//!   looked for in the cloud.
//! * What is wanted fresh is answered from requests that are sent after the call began. A list that is already under way
//!   does not count; all who come while it is share the next one.
//! * Few machines are read one by one, many with one list; the line is the number of pages that the list took last time.
//! * *Gone* follows from the cloud's own "no such machine", or from a whole list that is not empty, where such a list
//!   [proves it](MachineSource::lists_prove_absence).
//! * Nodes without a provider id are matched by what their firmware says, where the cloud [can tell](MachineSource::guesses), and
//!   by name. A machine that was matched to another Node of that name before, or that is another one than the firmware says, is
//!   not taken from the cache (P-10).
//! * Nodes that wait for their initialisation, and Nodes that may have to be deleted, do not wait for who only refreshes:
//!   see [`Urgency`].
//!
//! Clouds whose users are used to another way of reading set a [`Mode`].

mod entries;
mod found;
mod guess;
mod lookup;
mod snapshot;
mod urgency;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{
    CloudMetrics, InstanceMetadata, InstanceState, Instances, NoCloudMetrics, Node, Result, Want, WantMetadata,
    async_trait,
};
use tokio::time::Instant;

use self::entries::Entries;
use crate::coalescer::Coalescer;
use crate::paging::Reading;
use crate::transport::Priority;
pub use found::{Found, Kept};
pub use guess::system_uuids;
pub use snapshot::Snapshot;
pub use urgency::Urgency;

/// How old the list may be from which a look-up is answered that need not be fresh, unless something else is
/// [said](Inventory::max_age).
pub const MAX_AGE: Duration = Duration::from_secs(60);
/// As long as nobody knows how many pages the list has: more machines than this are read with a list.
const SINGLE_READS_AT_FIRST: usize = 4;

/// A machine, as a cloud tells of it. Thousands are kept: keep it small.
pub trait Machine: Send + Sync + 'static {
    /// Its id in the cloud, without a scheme.
    fn id(&self) -> &str;
    /// The name that a Node without a provider id is matched by.
    fn name(&self) -> &str;
    /// Whether it is shut down.
    fn is_shut_down(&self) -> bool;
    /// Whether what is told of it will stay so. One that is still being made is not answered from what is kept: a Node gets its
    /// zone once.
    fn is_settled(&self) -> bool {
        true
    }
}

/// How machines are read from a cloud.
#[async_trait]
pub trait MachineSource: Send + Sync + 'static {
    /// What it reads.
    type Machine: Machine;

    /// Reads all machines; see [`read_pages`](crate::paging::read_pages), and [`Urgency::carry`] for each page.
    ///
    /// # Errors
    /// What the cloud answered, if any page could not be read.
    async fn list(&self, urgency: &Urgency) -> Result<Reading<Self::Machine>>;

    /// Reads one machine. `None` only if the cloud itself said that there is no machine of this id.
    ///
    /// # Errors
    /// Every other answer.
    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Self::Machine>>;

    /// The same for who asks only whether it is there, and whether it is shut down: what else there is of it need not be
    /// read.
    ///
    /// # Errors
    /// As of [`by_id`](Self::by_id).
    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Self::Machine>> {
        self.by_id(id, priority).await
    }

    /// Whether a page that went missing would be noticed: the cloud announces a total, or has no pages. Otherwise what is not
    /// in a list is asked for by itself before it is gone.
    fn lists_prove_absence(&self) -> bool {
        false
    }

    /// Returns how many machines are read by themselves at the same time: more than a few where such reads share requests.
    fn concurrent_reads(&self) -> usize {
        8
    }

    /// Reads all machines of exactly this name, usually one or none.
    ///
    /// # Errors
    /// What the cloud answered.
    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Self::Machine>>;

    /// The machine's id in a Node's provider id, as [`Machine::id`] has it.
    ///
    /// # Errors
    /// *Invalid*, naming what is accepted, for another cloud's and for a malformed one: such a Node is not "gone".
    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str>;

    /// Ids of machines that a Node without a provider id may be on, likeliest first: [`system_uuids`] where the cloud makes
    /// its ids the machines' own. Asked before the name; one counts if [`is_of`](Self::is_of) says so.
    fn guesses(&self, _node: &Node) -> Vec<String> {
        Vec::new()
    }

    /// Whether something else (name, address) speaks for a guessed machine being this Node's.
    fn is_of(&self, _machine: &Self::Machine, _node: &Node) -> bool {
        false
    }

    /// What becomes of a machine on its Node.
    fn metadata(&self, machine: &Self::Machine, node: &Node) -> InstanceMetadata;

    /// Where machines are looked for, for messages: `project "demo"`.
    fn place(&self) -> String;
}

/// How machines are read, and what is kept of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What is cheapest: the last list, single reads, or a new list that all share.
    #[default]
    Shared,
    /// Always the whole list. What it lacks is not remembered: it is listed again for whoever asks next.
    All,
    /// Always one machine at a time, each kept for itself.
    One,
    /// One machine at a time, and nothing is kept.
    Off,
}

/// What a machine is looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Its id, as [`Machine::id`] has it.
    Id(&'a str),
    /// Its exact name.
    Name(&'a str),
}

/// The machines of one cloud and credential. Cheap to clone; clones share what was read, each may have a mode, a maximum age
/// and metrics of its own.
pub struct Inventory<S: MachineSource> {
    inner: Arc<Inner<S>>,
    mode: Mode,
    max_age: Duration,
    metrics: Arc<dyn CloudMetrics>,
}

impl<S: MachineSource> Clone for Inventory<S> {
    fn clone(&self) -> Self {
        let Self { inner, mode, max_age, metrics } = self;
        Self { inner: Arc::clone(inner), mode: *mode, max_age: *max_age, metrics: Arc::clone(metrics) }
    }
}

struct Inner<S: MachineSource> {
    source: S,
    hasher: RandomState,
    state: Mutex<State<S::Machine>>,
    lists: Coalescer<(), Inventory<S>, Arc<Snapshot<S::Machine>>>,
}

struct State<M> {
    snapshot: Option<Arc<Snapshot<M>>>,
    entries: Entries<M>,
    /// Pages of the last list that was whole.
    pages: Option<usize>,
    /// Which Node a machine was matched to: hash of the machine's id → hash of the Node's UID.
    claims: HashMap<u64, u64>,
    /// Single reads since the last list that a list would have saved, and when the last one was.
    spent: usize,
    spent_at: Option<Instant>,
    /// So many that lists lacked were asked for by themselves: where the next turn begins.
    confirmed: usize,
    /// Single reads under way for look-ups that must be fresh.
    under_way: usize,
}

impl<S: MachineSource> Inventory<S> {
    /// An inventory that has read nothing yet, in mode [`Shared`](Mode::Shared).
    #[must_use]
    pub fn new(source: S) -> Self {
        let state = State {
            snapshot: None,
            entries: Entries::default(),
            pages: None,
            claims: HashMap::new(),
            spent: 0,
            spent_at: None,
            confirmed: 0,
            under_way: 0,
        };
        let lists = Coalescer::with_urgency(|(), callers: Vec<Self>, urgency| async move {
            // All callers share one inner inventory, and the first one's mode says whether the list is kept.
            callers[0].read(&urgency).await
        });
        Self {
            inner: Arc::new(Inner { source, hasher: RandomState::new(), state: Mutex::new(state), lists }),
            mode: Mode::default(),
            max_age: MAX_AGE,
            metrics: Arc::new(NoCloudMetrics),
        }
    }

    /// The same machines, read in this mode.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The same machines; what need not be fresh may be this old.
    #[must_use]
    pub fn max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// The same machines; `metrics` hear which look-ups need a request, and which do not.
    #[must_use]
    pub fn measured(self, metrics: Arc<dyn CloudMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// How its machines are read.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.inner.source
    }

    /// All machines, no older than the maximum age.
    ///
    /// # Errors
    /// What the cloud answered.
    pub async fn snapshot(&self, priority: Priority) -> Result<Arc<Snapshot<S::Machine>>> {
        let young = if self.mode == Mode::Off { None } else { self.young_snapshot() };
        self.metrics.cached(young.is_some());
        match young {
            Some(snapshot) => Ok(snapshot),
            None => self.list(false, priority).await,
        }
    }

    /// Looks for one machine; `fresh`: with requests that are sent from now on.
    ///
    /// # Errors
    /// What the cloud answered; *invalid* if several machines have the name.
    pub async fn find(&self, key: Key<'_>, fresh: bool, priority: Priority) -> Result<Found<S::Machine>> {
        lookup::find(self, key, fresh, priority).await
    }

    /// Looks for the machine of each Node, in their order: by its provider id, or by its name if it has none.
    pub async fn find_all(
        &self,
        nodes: &[Arc<Node>],
        fresh: bool,
        priority: Priority,
    ) -> Vec<Result<Found<S::Machine>>> {
        lookup::find_all(self, nodes, fresh, priority, false).await
    }

    /// What is wanted of a Node whose machine was looked for.
    #[must_use]
    pub fn state_of(&self, found: Found<S::Machine>, node: &Node, want: Want) -> InstanceState {
        let machine = match found {
            Found::There(machine) => machine,
            Found::Gone(gone) => return InstanceState::Gone(gone),
        };
        let all = || self.source().metadata(&machine, node);
        let metadata = match want.metadata {
            WantMetadata::No => None,
            WantMetadata::Addresses => {
                Some(InstanceMetadata { node_addresses: all().node_addresses, ..InstanceMetadata::default() })
            }
            WantMetadata::Full => Some(all()),
        };
        let metadata = metadata.map(Box::new);
        InstanceState::Present { shutdown: want.shutdown.then(|| machine.is_shut_down()), metadata }
    }

    fn state(&self) -> MutexGuard<'_, State<S::Machine>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_snapshot(&self) -> Option<Arc<Snapshot<S::Machine>>> {
        self.state().snapshot.clone()
    }

    fn young_snapshot(&self) -> Option<Arc<Snapshot<S::Machine>>> {
        self.last_snapshot().filter(|snapshot| snapshot.began().elapsed() <= self.max_age)
    }

    /// Reads all machines, together with everybody who wants the same.
    async fn list(&self, fresh: bool, priority: Priority) -> Result<Arc<Snapshot<S::Machine>>> {
        self.inner.lists.share((), self.clone(), fresh, priority).await
    }

    async fn read(&self, urgency: &Urgency) -> Result<Arc<Snapshot<S::Machine>>> {
        let began = Instant::now();
        let snapshot = Arc::new(Snapshot::new(self.inner.source.list(urgency).await?, began));
        if let Reading::Flawed { flaw, .. } = snapshot.reading() {
            tracing::warn!(%flaw, "machines that are missing in it are not taken for gone");
        }
        let mut state = self.state();
        if let Reading::Complete { pages, .. } = snapshot.reading() {
            state.pages = Some(*pages);
            let ids: HashSet<u64> =
                snapshot.machines().iter().map(|machine| self.inner.hasher.hash_one(machine.id())).collect();
            state.claims.retain(|id, _| ids.contains(id));
        }
        state.spent = 0;
        if self.mode != Mode::Off {
            state.snapshot = Some(Arc::clone(&snapshot));
        }
        Ok(snapshot)
    }
}

/// How urgent a look-up is: a Node that waits for its initialisation, and one that may have to be deleted, go first.
#[must_use]
pub fn priority(want: Want) -> Priority {
    if want.metadata == WantMetadata::Full || (want.existence && want.fresh) {
        Priority::Urgent
    } else {
        Priority::Refresh
    }
}

#[async_trait]
impl<S: MachineSource> Instances for Inventory<S> {
    async fn lookup(&self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>> {
        let is_brief = want.metadata == WantMetadata::No && self.mode != Mode::One;
        let found = lookup::find_all(self, nodes, want.fresh, priority(want), is_brief).await;
        let states = nodes.iter().zip(found);
        states.map(|(node, found)| found.map(|found| self.state_of(found, node, want))).collect()
    }
}

#[cfg(test)]
mod tests;
