//! The machines of a cloud, read once and shared by all callers (P-4).
//!
//! [`Inventory`] implements [`Instances`] for any cloud that can list its machines, find a machine by ID and find
//! machines by name: a [`MachineSource`]. The inventory sends as few requests as possible, and never concludes that a
//! machine is gone from an error or a partial list:
//!
//! * A lookup that need not be fresh is answered from the last list if the list is no older than [`MAX_AGE`]. A machine
//!   that is not in the list is searched in the cloud.
//! * A lookup that must be fresh is answered from requests that are sent after the call began. A list in flight does
//!   not count; all callers that arrive meanwhile share the next one.
//! * A lookup of fewer machines than the last list had pages reads them one by one; a larger lookup reads a list.
//! * A machine is *gone* if the cloud answers that it does not exist, or if a complete list that is not empty lacks it,
//!   where such a list [is a proof](MachineSource::lists_prove_absence).
//! * Nodes without a provider ID are matched by their firmware, where the cloud [allows it](MachineSource::guesses),
//!   and by name. A machine that was matched to another Node of that name before, or that differs from the machine that
//!   the firmware names, is not taken from the cache (P-10).
//! * Nodes that wait for their initialization, and Nodes that may have to be deleted, do not wait for refreshing
//!   lookups: see [`SharedPriority`].
//!
//! A provider sets a [`Mode`] if users of its cloud expect another way of reading.

mod entries;
mod found;
mod guess;
mod lookup;
mod shared_priority;
mod snapshot;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    CloudMetrics, InstanceMetadata, InstanceState, Instances, LookupRequest, MetadataLevel,
    NoCloudMetrics, Node, Result, async_trait,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use self::entries::Entries;
use crate::coalescer::Coalescer;
use crate::paging::ListResult;
use crate::transport::Priority;
pub use found::{Found, MachineRef};
pub use guess::system_uuids;
pub use shared_priority::SharedPriority;
pub use snapshot::Snapshot;

/// The default maximum age of a list from which lookups are answered that need not be fresh; see
/// [`Inventory::max_age`].
pub const MAX_AGE: Duration = Duration::from_secs(60);
/// The number of machines that are read one by one while the number of pages of a list is unknown.
const SINGLE_READS_AT_FIRST: usize = 4;

/// A machine, as a cloud shows it. Thousands are kept in memory: keep the type small.
pub trait Machine: Send + Sync + 'static {
    /// Returns the machine's ID in the cloud, without a scheme.
    fn id(&self) -> &str;
    /// Returns the machine's name, which must equal the name of its Node if the Node has no provider ID.
    fn name(&self) -> &str;
    /// Returns `true` if the machine is shut down.
    fn is_shut_down(&self) -> bool;
    /// Returns `true` if the machine's properties are final. A machine that is still being created is never answered
    /// from the cache, because a Node gets its zone only once.
    fn is_settled(&self) -> bool {
        true
    }
}

/// The source from which an inventory reads the machines of a cloud.
#[async_trait]
pub trait MachineSource: Send + Sync + 'static {
    /// The machine type of the source.
    type Machine: Machine;

    /// Reads all machines; see [`read_pages`](crate::paging::read_pages), and [`SharedPriority::send_read`] for each
    /// page.
    ///
    /// # Errors
    /// The cloud's answer, if a page could not be read.
    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Self::Machine>>;

    /// Reads a machine by its ID. Returns `None` only if the cloud itself answers that no machine has this ID.
    ///
    /// # Errors
    /// Every other answer of the cloud.
    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Self::Machine>>;

    /// Reads a machine for a caller that needs only its existence and whether it is shut down; other properties need
    /// not be read.
    ///
    /// # Errors
    /// The errors of [`by_id`](Self::by_id).
    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Self::Machine>> {
        self.by_id(id, priority).await
    }

    /// Returns `true` if a missing page would be noticed, because the cloud announces a total or has no pages. If
    /// `false`, the default, a machine that a list lacks is read on its own before it counts as gone.
    fn lists_prove_absence(&self) -> bool {
        false
    }

    /// Returns how many single reads may be in flight at the same time; 8 by default. Return more if concurrent reads
    /// share requests.
    fn concurrent_reads(&self) -> usize {
        8
    }

    /// Reads all machines of exactly this name, usually one or none.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Self::Machine>>;

    /// Returns the machine's ID in a Node's provider ID, in the form of [`Machine::id`].
    ///
    /// # Errors
    /// *Invalid*, naming the accepted form, for a provider ID of another cloud and for a malformed one: the machine of
    /// such a Node is not "gone".
    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str>;

    /// Returns the IDs of machines that a Node without a provider ID may run on, likeliest first: [`system_uuids`]
    /// where the cloud uses system UUIDs as machine IDs. Tried before the name; a guess counts if
    /// [`confirms_guess`](Self::confirms_guess) returns `true`.
    fn guesses(&self, _node: &Node) -> Vec<String> {
        Vec::new()
    }

    /// Returns `true` if another property (name, address) confirms that a guessed machine is this Node's.
    fn confirms_guess(&self, _machine: &Self::Machine, _node: &Node) -> bool {
        false
    }

    /// Returns the metadata of the machine, which is written to its Node.
    fn metadata(&self, machine: &Self::Machine, node: &Node) -> InstanceMetadata;

    /// Returns the project, account or region in which machines are searched, for messages: `project "demo"`.
    fn place(&self) -> String;
}

/// The way in which machines are read and cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The cheapest way: the last list, single reads, or a new list that all callers share.
    #[default]
    Shared,
    /// Always the whole list. An absence is not cached: the next caller causes a new list.
    AlwaysList,
    /// Always single reads, each machine cached on its own.
    AlwaysSingle,
    /// Always single reads, without a cache.
    Off,
}

/// The key of a machine lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// ID of the machine, in the form of [`Machine::id`].
    Id(&'a str),
    /// Exact name of the machine.
    Name(&'a str),
}

/// The inventory of the machines of one cloud and credential. Cheap to clone; clones share the cache, and each may have
/// its own mode, maximum age and metrics.
pub struct Inventory<S: MachineSource> {
    inner: Arc<Inner<S>>,
    mode: Mode,
    max_age: Duration,
    metrics: Arc<dyn CloudMetrics>,
}

impl<S: MachineSource> Clone for Inventory<S> {
    fn clone(&self) -> Self {
        let Self {
            inner,
            mode,
            max_age,
            metrics,
        } = self;
        Self {
            inner: Arc::clone(inner),
            mode: *mode,
            max_age: *max_age,
            metrics: Arc::clone(metrics),
        }
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
    /// Pages of the last complete list.
    pages: Option<usize>,
    /// The Node that a machine was matched to: hash of the machine's ID → hash of the Node's UID.
    claims: HashMap<u64, u64>,
    /// The number of single reads since the last list, which one list would have replaced, and the time of the last
    /// single read.
    spent: usize,
    spent_at: Option<Instant>,
    /// The number of machines that lists lacked and that were read on their own: the start of the next confirmations.
    confirmed: usize,
    /// The number of single reads in flight for lookups that must be fresh.
    under_way: usize,
}

impl<S: MachineSource> Inventory<S> {
    /// Returns an inventory with an empty cache, in mode [`Shared`](Mode::Shared).
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
        let lists =
            Coalescer::with_shared_priority(|(), callers: Vec<Self>, shared_priority| async move {
                // All callers share one inner inventory, and the first one's mode decides if the list is cached.
                callers[0].read(&shared_priority).await
            });
        Self {
            inner: Arc::new(Inner {
                source,
                hasher: RandomState::new(),
                state: Mutex::new(state),
                lists,
            }),
            mode: Mode::default(),
            max_age: MAX_AGE,
            metrics: Arc::new(NoCloudMetrics),
        }
    }

    /// Returns the inventory with this mode.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Returns the inventory with this maximum age for answers that need not be fresh.
    #[must_use]
    pub fn max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// Returns the inventory with `metrics` that count which lookups need a request, and which do not.
    #[must_use]
    pub fn measured(self, metrics: Arc<dyn CloudMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Returns the source of the machines.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.inner.source
    }

    /// Returns all machines, no older than the maximum age.
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn snapshot(&self, priority: Priority) -> Result<Arc<Snapshot<S::Machine>>> {
        let young = if self.mode == Mode::Off {
            None
        } else {
            self.young_snapshot()
        };
        self.metrics.cached(young.is_some());
        match young {
            Some(snapshot) => Ok(snapshot),
            None => self.list(false, priority).await,
        }
    }

    /// Looks up a machine; if `fresh`, with requests that are sent from now on.
    ///
    /// # Errors
    /// The cloud's answer; *invalid* if several machines have the name.
    pub async fn find(
        &self,
        key: Key<'_>,
        fresh: bool,
        priority: Priority,
    ) -> Result<Found<S::Machine>> {
        lookup::find(self, key, fresh, priority).await
    }

    /// Looks up the machine of each Node, in order: by its provider ID, or by its name if it has none.
    pub async fn find_all(
        &self,
        nodes: &[Arc<Node>],
        fresh: bool,
        priority: Priority,
    ) -> Vec<Result<Found<S::Machine>>> {
        lookup::find_all(self, nodes, fresh, priority, false).await
    }

    /// Returns the requested state of a Node whose machine was looked up.
    #[must_use]
    pub fn state_of(
        &self,
        found: Found<S::Machine>,
        node: &Node,
        request: LookupRequest,
    ) -> InstanceState {
        let machine = match found {
            Found::Present(machine) => machine,
            Found::Gone(gone) => return InstanceState::Gone(gone),
        };
        let all = || self.source().metadata(&machine, node);
        let metadata = match request.metadata {
            MetadataLevel::No => None,
            MetadataLevel::Addresses => Some(InstanceMetadata {
                node_addresses: all().node_addresses,
                ..InstanceMetadata::default()
            }),
            MetadataLevel::Full => Some(all()),
        };
        let metadata = metadata.map(Box::new);
        InstanceState::Present {
            shutdown: request.shutdown.then(|| machine.is_shut_down()),
            metadata,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<S::Machine>> {
        self.inner.state.lock()
    }

    fn last_snapshot(&self) -> Option<Arc<Snapshot<S::Machine>>> {
        self.state().snapshot.clone()
    }

    fn young_snapshot(&self) -> Option<Arc<Snapshot<S::Machine>>> {
        self.last_snapshot()
            .filter(|snapshot| snapshot.began().elapsed() <= self.max_age)
    }

    /// Reads all machines, together with all concurrent callers.
    async fn list(&self, fresh: bool, priority: Priority) -> Result<Arc<Snapshot<S::Machine>>> {
        self.inner
            .lists
            .share((), self.clone(), fresh, priority)
            .await
    }

    async fn read(&self, shared_priority: &SharedPriority) -> Result<Arc<Snapshot<S::Machine>>> {
        let began = Instant::now();
        let snapshot = Arc::new(Snapshot::new(
            self.inner.source.list(shared_priority).await?,
            began,
        ));
        if let ListResult::Partial { reason, .. } = snapshot.reading() {
            tracing::warn!(%reason, "partial list of machines; missing machines do not count as deleted");
        }
        let mut state = self.state();
        if let ListResult::Complete { pages, .. } = snapshot.reading() {
            state.pages = Some(*pages);
            let ids: HashSet<u64> = snapshot
                .machines()
                .iter()
                .map(|machine| self.inner.hasher.hash_one(machine.id()))
                .collect();
            state.claims.retain(|id, _| ids.contains(id));
        }
        state.spent = 0;
        if self.mode != Mode::Off {
            state.snapshot = Some(Arc::clone(&snapshot));
        }
        Ok(snapshot)
    }
}

/// Returns the priority of a lookup: [`Urgent`](Priority::Urgent) for the initialization of a Node and for a fresh
/// check of existence, which may lead to a deletion; else [`Refresh`](Priority::Refresh).
#[must_use]
pub fn priority(request: LookupRequest) -> Priority {
    if request.metadata == MetadataLevel::Full || (request.existence && request.fresh) {
        Priority::Urgent
    } else {
        Priority::Refresh
    }
}

#[async_trait]
impl<S: MachineSource> Instances for Inventory<S> {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let is_brief = request.metadata == MetadataLevel::No && self.mode != Mode::AlwaysSingle;
        let found = lookup::find_all(self, nodes, request.fresh, priority(request), is_brief).await;
        let states = nodes.iter().zip(found);
        states
            .map(|(node, found)| found.map(|found| self.state_of(found, node, request)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
