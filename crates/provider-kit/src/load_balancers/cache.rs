//! The cache of all load balancers of a cloud, read once and shared by every Service (INV-8).
//!
//! The cache is filled from lists, which may lag behind, and from *certain* reads: by ID, by name, and from the answers
//! to our own writes. A list does not overrule a certain read for [`SETTLING`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Cluster, Result};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::cloud::{Detail, Query};
use super::dyn_cloud::DynLoadBalancerCloud;
use super::model::{ObservedLoadBalancer, Shared};
use super::ownership::Identity;
use super::targets::TargetSets;
use crate::coalescer::Coalescer;
use crate::paging::ListResult;
use crate::transport::Priority;

/// The maximum age of a cached load balancer in a sync of a Service.
pub const MAX_AGE: Duration = Duration::from_secs(60);
/// The time by which a cloud's list may lag behind its single reads.
pub const SETTLING: Duration = Duration::from_secs(60);

/// The maximum age of a certain read that a deletion starts from: the controller checks for a load balancer and deletes
/// it right after.
const MAX_AGE_BEFORE_DELETION: Duration = Duration::from_secs(5);

/// The time for which a deferred creation is remembered: the Service had no load balancer, and the cloud refused its
/// creation because of the rate limit.
const DEFERRED: Duration = Duration::from_secs(60 * 60);

/// The time for which a confirmed deletion is remembered: until the finalizer of the Service is removed.
const REMOVED: Duration = Duration::from_secs(60 * 60);

/// The time that a poll of one load balancer waits for other polls to join.
const WINDOW: Duration = Duration::from_millis(250);

/// The page size that is assumed if the last list was too short to tell.
const LIKELY_PAGE: usize = 100;

/// The number of entries from which expired ones are removed without waiting for a list.
const MANY: usize = 256;

#[derive(Clone)]
pub(super) struct LoadBalancerCache(Arc<Inner>);

struct Inner {
    /// The cloud, boxed: a program with many clouds has the code around it once.
    cloud: Box<dyn DynLoadBalancerCloud>,
    sets: TargetSets,
    state: Mutex<State>,
    lists: Coalescer<(), LoadBalancerCache>,
    reads: Coalescer<(), (LoadBalancerCache, String), Arc<HashMap<String, Shared>>>,
}

#[derive(Default)]
struct State {
    entries: HashMap<String, Entry>,
    /// IDs of load balancers by name, Service UID and legacy owner tag.
    handles: HashMap<String, Vec<String>>,
    /// The time at which the last complete list began.
    listed: Option<Instant>,
    pages: usize,
    /// IDs of deleted load balancers, and the time at which the deletion was noticed.
    gone: HashMap<String, Instant>,
    /// UIDs of Services for which a request was sent whose outcome is unknown.
    stale: HashSet<String>,
    /// UIDs of Services whose load balancers were all read with certainty, and the time at which the read began.
    /// Removed by the next request.
    found: HashMap<String, Instant>,
    /// UIDs of Services whose load balancers this process deleted, as the cloud confirmed, and the time.
    removed: HashMap<String, Instant>,
    /// UIDs of Services whose creation was deferred: no load balancer existed, and the cloud limited the rate. With the
    /// load balancer's name, and the time.
    deferred: HashMap<String, (String, Instant)>,
    /// UIDs of Services that adopt a load balancer without owner tags, by its ID, and the time of the claim.
    claimed: HashMap<String, (String, Instant)>,
    /// IDs of load balancers whose cached state is what this process wrote: it lacks the settings that the cloud chose.
    predicted: HashSet<String>,
    /// Number of single reads since the last list, and the time of the last one.
    spent: usize,
    spent_at: Option<Instant>,
}

struct Entry {
    actual: Shared,
    /// The latest time at which the observed state was true.
    at: Instant,
    is_certain: bool,
}

/// The cached or observed load balancers of one Service.
pub(super) struct Found {
    pub(super) actuals: Vec<Shared>,
    /// If set, the load balancers were just read by ID or name.
    pub(super) is_certain: bool,
}

impl LoadBalancerCache {
    pub(super) fn new(cloud: Box<dyn DynLoadBalancerCloud>) -> Self {
        let lists =
            Coalescer::new(|(), callers: Vec<Self>| async move { callers[0].read_list().await });
        let reads = Coalescer::new(|(), callers: Vec<(Self, String)>| async move {
            let ids: BTreeSet<_> = callers.iter().map(|(_, id)| id.clone()).collect();
            callers[0]
                .0
                .read_many(&ids.into_iter().collect::<Vec<_>>())
                .await
        });
        Self(Arc::new(Inner {
            cloud,
            sets: TargetSets::default(),
            state: Mutex::default(),
            lists,
            reads,
        }))
    }

    pub(super) fn cloud(&self) -> &dyn DynLoadBalancerCloud {
        &*self.0.cloud
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Returns the Service's load balancers, at most [`MAX_AGE`] old. One list answers for all Services that are synced
    /// at the same time; a few reads by name are cheaper than a list of many pages.
    pub(super) async fn look_up(&self, identity: &Identity<'_>) -> Result<Found> {
        let recalled = self.state().recall(identity);
        if let Some(found) = recalled {
            return self.whole(found).await;
        }
        if self.state().stale.contains(identity.uid()) || !self.list_is_cheaper() {
            return self.find(identity).await;
        }
        self.list().await?;
        let recalled = self.state().recall(identity);
        match recalled {
            Some(found) => self.whole(found).await,
            // The list was partial.
            None => self.find(identity).await,
        }
    }

    /// Returns the load balancers of a Service that are to be deleted. If the cache is too old, they are read by name
    /// and ID instead of by a list, because a deletion would need that certain read anyway.
    pub(super) async fn look_up_to_remove(&self, identity: &Identity<'_>) -> Result<Found> {
        let recalled = self.state().recall(identity);
        match recalled {
            Some(found) => self.whole(found).await,
            None => self.find(identity).await,
        }
    }

    /// Returns the result of a certain read that is at most [`MAX_AGE_BEFORE_DELETION`] old; `None` if there was none,
    /// or if the load balancer was changed since.
    pub(super) async fn find_before_deletion(
        &self,
        identity: &Identity<'_>,
    ) -> Result<Option<Found>> {
        let found = self.state().find_before_deletion(identity);
        match found {
            Some(found) => self.whole(found).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the Service's load balancers by name and ID, from a source that does not lag behind.
    pub(super) async fn find(&self, identity: &Identity<'_>) -> Result<Found> {
        let began = Instant::now();
        // A load balancer that a partial list lacks may exist all the same.
        let found = self
            .cloud()
            .read(Query::Owner(identity))
            .await?
            .complete()?
            .into_items();
        let seen: HashSet<String> = found.iter().map(|actual| actual.id.clone()).collect();
        let mut actuals: Vec<Shared> = found
            .into_iter()
            .map(|actual| self.put_at(actual, began))
            .collect();
        // A cached load balancer may have been renamed meanwhile, or another one may have its name now.
        let others = self
            .state()
            .ids(identity)
            .into_iter()
            .filter(|id| !seen.contains(id))
            .collect::<Vec<_>>();
        for id in others {
            match self.one(&id).await? {
                Some(actual) => actuals.push(self.put_at(actual, began)),
                None => self.forget(&id),
            }
        }
        let found = self
            .whole(Found {
                actuals,
                is_certain: true,
            })
            .await?;
        self.state().found_all(identity.uid(), began);
        Ok(found)
    }

    /// Returns `true` if the last list showed no load balancer of this Service, however old the list is. Sufficient for
    /// a creation where the cloud refuses a second load balancer of the same name.
    pub(super) fn has_never_seen(&self, identity: &Identity<'_>) -> bool {
        let state = self.state();
        state.listed.is_some()
            && !state.stale.contains(identity.uid())
            && state.ids(identity).is_empty()
    }

    /// Returns the cached load balancers whose owner tags name a Service of this cluster that does not exist. Only a
    /// cluster ID proves that the Service was this cluster's, because two clusters may have the same name. `None`
    /// before the first list.
    pub(super) fn orphans(
        &self,
        cluster: &Cluster,
        lives: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        let id = cluster.id.as_deref()?;
        let state = self.state();
        state.listed?;
        let actuals = state.entries.values().map(|entry| &entry.actual);
        let of_this_cluster =
            actuals.filter(|actual| actual.owner_tags.cluster.as_deref() == Some(id));
        let orphans = of_this_cluster.filter(|load_balancer| {
            load_balancer
                .owner_tags
                .service
                .as_deref()
                .is_some_and(|uid| !lives(uid))
        });
        Some(orphans.map(|actual| actual.place()).collect())
    }

    /// Reads the resources of load balancers whose list did not show them.
    async fn whole(&self, mut found: Found) -> Result<Found> {
        for actual in &mut found.actuals {
            if actual.graph.is_some() {
                continue;
            }
            let began = Instant::now();
            if let Some(read) = self.one(&actual.id).await? {
                *actual = self.put_at(read, began);
            } else {
                self.forget(&actual.id);
                *actual = Arc::default();
            }
        }
        found.actuals.retain(|actual| !actual.id.is_empty());
        Ok(found)
    }

    /// Counts single reads and returns `true` once a list would have been as cheap, so that many Services that are
    /// synced one by one cost at most twice as much as one list.
    fn list_is_cheaper(&self) -> bool {
        let mut state = self.state();
        if state.listed.is_none() || self.0.lists.can_share(&(), false) {
            return true;
        }
        if state.spent_at.is_none_or(|at| at.elapsed() >= MAX_AGE) {
            state.spent = 0;
        }
        state.spent += 1;
        state.spent_at = Some(Instant::now());
        state.spent >= state.pages.max(state.entries.len() / LIKELY_PAGE)
    }

    /// Reads all load balancers, together with all concurrent callers.
    async fn list(&self) -> Result<()> {
        self.0
            .lists
            .share((), self.clone(), false, Priority::default())
            .await
    }

    async fn read_list(&self) -> Result<()> {
        let began = Instant::now();
        let reading = self.cloud().read(Query::All(&self.0.sets)).await?;
        let is_whole = match &reading {
            ListResult::Complete { .. } => true,
            ListResult::Partial { reason, .. } => {
                tracing::warn!(%reason, "partial list of load balancers; missing ones are read one by one");
                false
            }
        };
        let pages = reading.pages();
        let items: Vec<Shared> = reading
            .into_items()
            .into_iter()
            .map(|actual| self.shared(actual))
            .collect();
        let mut state = self.state();
        state.merge(items, began, is_whole.then_some(pages));
        drop(state);
        self.0.sets.forget_unused();
        Ok(())
    }

    /// Reads all load balancers, bypassing the cache. A partial list is an error.
    pub(super) async fn read_all(&self) -> Result<Vec<ObservedLoadBalancer>> {
        Ok(self
            .cloud()
            .read(Query::All(&self.0.sets))
            .await?
            .complete()?
            .into_items())
    }

    fn shared(&self, actual: ObservedLoadBalancer) -> Shared {
        Arc::new(actual.sharing(&self.0.sets))
    }

    /// Returns the time from which the cached state of a load balancer is known to be true.
    pub(super) fn since(&self, id: &str) -> Option<Instant> {
        self.state().entries.get(id).map(|entry| entry.at)
    }

    /// Caches the answer to a write.
    pub(super) fn put(&self, actual: ObservedLoadBalancer) -> Shared {
        let actual = self.put_at(actual, Instant::now());
        self.state().predicted.insert(actual.id.clone());
        actual
    }

    /// Returns `true` if the load balancer was not read since this process wrote it.
    pub(super) fn is_predicted(&self, id: &str) -> bool {
        self.state().predicted.contains(id)
    }

    /// Notes that the cloud confirmed the deletion of all load balancers of this Service.
    pub(super) fn note_removal(&self, uid: &str) {
        let mut state = self.state();
        if state.removed.len() >= MANY {
            state.removed.retain(|_, at| at.elapsed() < REMOVED);
        }
        state.removed.insert(uid.to_owned(), Instant::now());
    }

    /// Returns `true` if this process deleted the Service's load balancers, and has written none since.
    pub(super) fn was_removed(&self, uid: &str) -> bool {
        let state = self.state();
        state
            .removed
            .get(uid)
            .is_some_and(|at| at.elapsed() < REMOVED)
            && !state.stale.contains(uid)
    }

    /// Caches the result of a certain read.
    pub(super) fn put_at(&self, actual: ObservedLoadBalancer, at: Instant) -> Shared {
        let actual = self.shared(actual);
        self.state().insert(Entry {
            actual: Arc::clone(&actual),
            at,
            is_certain: true,
        });
        actual
    }

    /// Caches that the load balancer no longer exists; IDs are never reused.
    pub(super) fn forget(&self, id: &str) {
        let mut state = self.state();
        state.remove(id);
        if state.gone.len() >= MANY {
            state.gone.retain(|_, at| at.elapsed() < SETTLING);
        }
        state.gone.insert(id.to_owned(), Instant::now());
    }

    /// Removes the load balancer from the cache.
    pub(super) fn evict(&self, id: &str) {
        self.state().remove(id);
    }

    /// Notes that this Service adopts a load balancer without an owner. Returns the name of another Service that came
    /// first and still exists. The claim holds until every state that was read before the first Service wrote its owner
    /// tags is certainly out of date.
    pub(super) fn claim(
        &self,
        id: &str,
        uid: &str,
        lives: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let mut state = self.state();
        state.claimed.retain(|_, (_, at)| at.elapsed() < SETTLING);
        let other = state.claimed.get(id).filter(|(owner, _)| owner != uid);
        if let Some(other) = other.and_then(|(owner, _)| lives(owner)) {
            return Some(other);
        }
        state
            .claimed
            .insert(id.to_owned(), (uid.to_owned(), Instant::now()));
        None
    }

    /// Marks the state of this Service's load balancers as unknown until [`settle`](Self::settle) or
    /// [`find`](Self::find). Called before a request is sent, so that a request whose answer is lost counts, too.
    pub(super) fn mark_stale(&self, uid: &str) {
        let mut state = self.state();
        state.stale.insert(uid.to_owned());
        state.found.remove(uid);
        state.removed.remove(uid);
        state.deferred.remove(uid);
    }

    /// Notes that the cloud limited the rate of a creation where nothing existed. The next attempt needs neither a read
    /// nor a control read: both have happened, and if the load balancer was created all the same, the next attempt is a
    /// conflict.
    pub(super) fn defer_creation(&self, identity: &Identity<'_>) {
        let mut state = self.state();
        state.stale.remove(identity.uid());
        if state.deferred.len() >= MANY {
            state.deferred.retain(|_, (_, at)| at.elapsed() < DEFERRED);
        }
        state.deferred.insert(
            identity.uid().to_owned(),
            (identity.name.clone(), Instant::now()),
        );
    }

    /// Returns `true` if a [deferred creation](Self::defer_creation) was the last event, and no load balancer of this
    /// Service was seen since.
    pub(super) fn is_creation_deferred(&self, identity: &Identity<'_>) -> bool {
        let state = self.state();
        let deferred = state.deferred.get(identity.uid());
        deferred.is_some_and(|(name, at)| *name == identity.name && at.elapsed() < DEFERRED)
    }

    /// Notes that the request was answered.
    pub(super) fn settle(&self, uid: &str) {
        self.state().stale.remove(uid);
    }

    /// Reads a load balancer that the cloud is changing, together with all others that are waited for; without its
    /// resources if the cloud offers a smaller read.
    pub(super) async fn poll(&self, id: &str) -> Result<Option<Shared>> {
        let in_a_moment = |_| Instant::now() + WINDOW;
        match self
            .0
            .reads
            .join_at((), (self.clone(), id.to_owned()), in_a_moment)
            .await
        {
            Ok(seen) => Ok(seen.get(id).cloned()),
            // An error about one load balancer says nothing about the others (INV-6).
            Err(_) => self.read(id).await,
        }
    }

    async fn read_many(&self, ids: &[String]) -> Result<Arc<HashMap<String, Shared>>> {
        let began = Instant::now();
        let read = self
            .cloud()
            .read(Query::Ids(ids, Detail::State))
            .await?
            .complete()?
            .into_items();
        // A busy load balancer that was read in part is of use only to the callers that wait for it.
        let keep = |actual: ObservedLoadBalancer| match actual.graph {
            Some(_) => self.put_at(actual, began),
            None => Arc::new(actual),
        };
        let read: HashMap<_, _> = read
            .into_iter()
            .map(|actual| (actual.id.clone(), keep(actual)))
            .collect();
        for id in ids.iter().filter(|id| !read.contains_key(*id)) {
            self.forget(id);
        }
        Ok(Arc::new(read))
    }

    async fn one(&self, id: &str) -> Result<Option<ObservedLoadBalancer>> {
        let ids = [id.to_owned()];
        let read = self
            .cloud()
            .read(Query::Ids(&ids, Detail::Whole))
            .await?
            .complete()?;
        Ok(read.into_items().pop())
    }

    /// Reads a whole load balancer by its ID.
    pub(super) async fn read(&self, id: &str) -> Result<Option<Shared>> {
        let began = Instant::now();
        let read = self.one(id).await?;
        if read.is_none() {
            self.forget(id);
        }
        Ok(read.map(|actual| self.put_at(actual, began)))
    }
}

impl State {
    /// Returns the cached load balancers that are not too old; `None` if the cloud must be read.
    fn recall(&self, identity: &Identity<'_>) -> Option<Found> {
        if self.stale.contains(identity.uid()) {
            return None;
        }
        let is_young = |at: Instant| at.elapsed() < MAX_AGE;
        let is_ours =
            |entry: &Entry| entry.actual.owner_tags.service.as_deref() == Some(identity.uid());
        let ids = self.ids(identity);
        let mut entries = ids.iter().filter_map(|id| self.entries.get(id));
        let known = self.listed.is_some_and(is_young)
            || entries.any(|entry| is_ours(entry) && is_young(entry.at));
        known.then(|| Found {
            actuals: self.actuals(identity),
            is_certain: false,
        })
    }

    fn found_all(&mut self, uid: &str, began: Instant) {
        self.stale.remove(uid);
        if self.found.len() >= MANY {
            self.found
                .retain(|_, at| at.elapsed() < MAX_AGE_BEFORE_DELETION);
        }
        self.found.insert(uid.to_owned(), began);
    }

    fn find_before_deletion(&self, identity: &Identity<'_>) -> Option<Found> {
        self.found
            .get(identity.uid())
            .filter(|at| at.elapsed() < MAX_AGE_BEFORE_DELETION)?;
        Some(Found {
            actuals: self.actuals(identity),
            is_certain: true,
        })
    }

    fn actuals(&self, identity: &Identity<'_>) -> Vec<Shared> {
        self.ids(identity)
            .iter()
            .filter_map(|id| self.entries.get(id))
            .map(|entry| Arc::clone(&entry.actual))
            .collect()
    }

    fn ids(&self, identity: &Identity<'_>) -> BTreeSet<String> {
        identity
            .handles()
            .filter_map(|handle| self.handles.get(handle))
            .flatten()
            .cloned()
            .collect()
    }

    fn merge(&mut self, items: Vec<Shared>, began: Instant, whole: Option<usize>) {
        let overrules = |entry: &Entry| !entry.is_certain || entry.at + SETTLING <= began;
        if let Some(pages) = whole {
            let listed: HashSet<&str> = items.iter().map(|actual| &*actual.id).collect();
            let missing = |(id, entry): (&String, &Entry)| {
                (overrules(entry) && !listed.contains(id.as_str())).then(|| id.clone())
            };
            for id in self.entries.iter().filter_map(missing).collect::<Vec<_>>() {
                self.remove(&id);
            }
            (self.listed, self.pages, self.spent) = (Some(began), pages, 0);
        }
        self.gone.retain(|_, at| *at + SETTLING > began);
        for actual in items {
            let is_gone = self.gone.contains_key(&actual.id);
            if !is_gone && self.entries.get(&actual.id).is_none_or(overrules) {
                self.insert(Entry {
                    actual,
                    at: began,
                    is_certain: false,
                });
            }
        }
    }

    fn insert(&mut self, entry: Entry) {
        let id = entry.actual.id.clone();
        self.remove(&id);
        for handle in handles(&entry.actual) {
            let ids = self.handles.entry(handle.to_owned()).or_default();
            if !ids.contains(&id) {
                ids.reserve_exact(1);
                ids.push(id.clone());
            }
        }
        self.entries.insert(id, entry);
    }

    fn remove(&mut self, id: &str) {
        let Some(entry) = self.entries.remove(id) else {
            return;
        };
        self.predicted.remove(id);
        for handle in handles(&entry.actual) {
            if let Some(ids) = self.handles.get_mut(handle) {
                ids.retain(|other| other != id);
                if ids.is_empty() {
                    self.handles.remove(handle);
                }
            }
        }
    }
}

fn handles(actual: &ObservedLoadBalancer) -> impl Iterator<Item = &str> {
    [
        Some(&*actual.name),
        actual.owner_tags.service.as_deref(),
        actual.legacy_owner.as_deref(),
    ]
    .into_iter()
    .flatten()
}
