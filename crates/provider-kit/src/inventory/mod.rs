//! All machines of a cloud, read once and shared by everybody who asks (P-4).
//!
//! [`Inventory`] implements [`Instances`] for any cloud that can list its machines, find one by id and find one by name:
//! a [`MachineSource`]. It spends as few requests as it can and never takes a doubt for an absence:
//!
//! * What is not wanted fresh is answered from the last list if that is younger than [`MAX_AGE`]. What is not in it is
//!   looked for in the cloud.
//! * What is wanted fresh is answered from requests that are sent after the call began. A list that is already under way
//!   does not count; all who come while it is share the next one.
//! * Few machines are read one by one, many with one list; the line is the number of pages that the list took last time.
//! * *Gone* follows from a whole list that is not empty, or from the cloud's own "no such machine".
//! * Nodes without a provider id are matched by name. A machine that was matched to another Node of that name before is
//!   not taken from the cache again (P-10).

mod lookup;
mod snapshot;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{
    CloudMetrics, InstanceMetadata, InstanceState, Instances, NoCloudMetrics, Node, Result, Want, WantMetadata,
    async_trait,
};
use futures::FutureExt;
use tokio::time::Instant;

use crate::paging::Reading;
use crate::provider_id::ProviderIds;
use crate::single_flight::SingleFlight;
pub use snapshot::Snapshot;

/// How old the list may be from which a look-up is answered that need not be fresh.
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
    /// What becomes of it on the Node; the addresses are enough for [`WantMetadata::Addresses`].
    fn metadata(&self, want: WantMetadata) -> InstanceMetadata;
}

/// How machines are read from a cloud.
#[async_trait]
pub trait MachineSource: Send + Sync + 'static {
    /// What it reads.
    type Machine: Machine;

    /// Reads all machines; see [`read_pages`](crate::paging::read_pages).
    ///
    /// # Errors
    /// What the cloud answered, if any page could not be read.
    async fn list(&self) -> Result<Reading<Self::Machine>>;

    /// Reads one machine. `None` only if the cloud itself said that there is no machine of this id.
    ///
    /// # Errors
    /// Every other answer.
    async fn by_id(&self, id: &str) -> Result<Option<Self::Machine>>;

    /// Reads all machines of exactly this name, usually one or none.
    ///
    /// # Errors
    /// What the cloud answered.
    async fn by_name(&self, name: &str) -> Result<Vec<Self::Machine>>;

    /// How provider ids look here.
    fn provider_ids(&self) -> ProviderIds;

    /// Where machines are looked for, for messages: `project "demo"`.
    fn place(&self) -> String;
}

/// The machines of one cloud and credential. Cheap to clone; clones share what was read.
pub struct Inventory<S: MachineSource>(Arc<Inner<S>>);

impl<S: MachineSource> Clone for Inventory<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Inner<S: MachineSource> {
    source: S,
    metrics: Arc<dyn CloudMetrics>,
    hasher: RandomState,
    state: Mutex<State<S::Machine>>,
    lists: SingleFlight<Result<Arc<Snapshot<S::Machine>>>>,
}

struct State<M> {
    snapshot: Option<Arc<Snapshot<M>>>,
    /// Pages of the last list that was whole.
    pages: Option<usize>,
    /// Which Node a machine was matched to: hash of the machine's id → hash of the Node's UID.
    claims: HashMap<u64, u64>,
    /// Single reads since the last list that a list would have saved, and when the last one was.
    spent: usize,
    spent_at: Option<Instant>,
    /// Single reads under way for look-ups that must be fresh.
    under_way: usize,
}

impl<S: MachineSource> Inventory<S> {
    /// An inventory that has read nothing yet.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self::measured(source, Arc::new(NoCloudMetrics))
    }

    /// The same; `metrics` hear which look-ups need a request, and which do not.
    #[must_use]
    pub fn measured(source: S, metrics: Arc<dyn CloudMetrics>) -> Self {
        let state =
            State { snapshot: None, pages: None, claims: HashMap::new(), spent: 0, spent_at: None, under_way: 0 };
        Self(Arc::new(Inner {
            source,
            metrics,
            hasher: RandomState::new(),
            state: Mutex::new(state),
            lists: SingleFlight::default(),
        }))
    }

    /// How its machines are read.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.0.source
    }

    /// All machines, at most [`MAX_AGE`] old.
    ///
    /// # Errors
    /// What the cloud answered.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot<S::Machine>>> {
        match self.young_snapshot() {
            Some(snapshot) => Ok(snapshot),
            None => self.list(false).await,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<S::Machine>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_snapshot(&self) -> Option<Arc<Snapshot<S::Machine>>> {
        self.state().snapshot.clone()
    }

    fn young_snapshot(&self) -> Option<Arc<Snapshot<S::Machine>>> {
        self.last_snapshot().filter(|snapshot| snapshot.began().elapsed() < MAX_AGE)
    }

    /// Reads all machines, together with everybody who wants the same.
    async fn list(&self, fresh: bool) -> Result<Arc<Snapshot<S::Machine>>> {
        let this = self.clone();
        self.0.lists.join(fresh, || async move { this.read().await }.boxed()).await
    }

    async fn read(&self) -> Result<Arc<Snapshot<S::Machine>>> {
        let began = Instant::now();
        let snapshot = Arc::new(Snapshot::new(self.0.source.list().await?, began));
        if let Reading::Flawed { flaw, .. } = snapshot.reading() {
            tracing::warn!(%flaw, "machines that are missing in it are not taken for gone");
        }
        let mut state = self.state();
        if let Reading::Complete { pages, .. } = snapshot.reading() {
            state.pages = Some(*pages);
            let ids: std::collections::HashSet<u64> =
                snapshot.machines().iter().map(|machine| self.0.hasher.hash_one(machine.id())).collect();
            state.claims.retain(|id, _| ids.contains(id));
        }
        state.spent = 0;
        state.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

#[async_trait]
impl<S: MachineSource> Instances for Inventory<S> {
    async fn lookup(&self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>> {
        lookup::lookup(self, nodes, want).await
    }
}

#[cfg(test)]
mod tests;
