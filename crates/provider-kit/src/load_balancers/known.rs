//! All load balancers of a cloud, read once and shared by every Service (INV-8).
//!
//! What is known comes from lists, which may lag behind, and from *certain* reads: by id, by name, and the answers to our
//! own writes. A list does not overrule a certain read for [`SETTLING`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{Cluster, Result};
use tokio::time::Instant;

use super::cloud::{Detail, Query};
use super::erased::AnyCloud;
use super::model::{Actual, Shared};
use super::ownership::Identity;
use super::targets::TargetSets;
use crate::coalescer::Coalescer;
use crate::paging::Reading;
use crate::transport::Priority;

/// How old what is known may be for a Service to be judged by it.
pub const MAX_AGE: Duration = Duration::from_secs(60);
/// How long a cloud's list may lag behind its single reads.
pub const SETTLING: Duration = Duration::from_secs(60);

/// How old a certain read may be for a deletion to start from it: the controller asks whether there is something, and deletes
/// right after.
const RIGHT_BEFORE: Duration = Duration::from_secs(5);

/// How long it counts that nothing was there when one was to be made and the cloud had no time.
const DEFERRED: Duration = Duration::from_secs(60 * 60);

/// How long a read of one that is awaited waits for others to join.
const WINDOW: Duration = Duration::from_millis(250);

/// How many are on a page, if the last list was too short to tell.
const LIKELY_PAGE: usize = 100;

/// From so many on, what is remembered of single ones is sorted out without waiting for a list.
const MANY: usize = 256;

#[derive(Clone)]
pub(super) struct Known(Arc<Inner>);

struct Inner {
    /// Behind a pointer: a program with many clouds has the code around it once.
    cloud: Box<dyn AnyCloud>,
    sets: TargetSets,
    state: Mutex<State>,
    lists: Coalescer<(), Known>,
    reads: Coalescer<(), (Known, String), Arc<HashMap<String, Shared>>>,
}

#[derive(Default)]
struct State {
    entries: HashMap<String, Entry>,
    /// Names, UIDs and signs → ids.
    handles: HashMap<String, Vec<String>>,
    /// When the last whole list began.
    listed: Option<Instant>,
    pages: usize,
    /// Ids that are gone, and since when we know.
    gone: HashMap<String, Instant>,
    /// UIDs of Services for which a request was sent whose outcome is not known.
    stale: HashSet<String>,
    /// UIDs of Services of which everything was read for certain, when that began, and no request was sent since.
    found: HashMap<String, Instant>,
    /// UIDs of Services for which one was about to be made, nothing being there, when the cloud had no time for it; its name,
    /// and when.
    deferred: HashMap<String, (String, Instant)>,
    /// Who takes over what had no owner tags, by its id, and since when.
    claimed: HashMap<String, (String, Instant)>,
    /// Single reads since the last list, and when the last one was.
    spent: usize,
    spent_at: Option<Instant>,
}

struct Entry {
    actual: Shared,
    /// What it says is at most this old.
    at: Instant,
    is_certain: bool,
}

/// What is known of one Service's load balancer.
pub(super) struct Found {
    pub(super) actuals: Vec<Shared>,
    /// Whether it was read by id or name just now.
    pub(super) is_certain: bool,
}

impl Known {
    pub(super) fn new(cloud: Box<dyn AnyCloud>) -> Self {
        let lists = Coalescer::new(|(), callers: Vec<Self>| async move { callers[0].read_list().await });
        let reads = Coalescer::new(|(), callers: Vec<(Self, String)>| async move {
            let ids: BTreeSet<_> = callers.iter().map(|(_, id)| id.clone()).collect();
            callers[0].0.read_many(&ids.into_iter().collect::<Vec<_>>()).await
        });
        Self(Arc::new(Inner { cloud, sets: TargetSets::default(), state: Mutex::default(), lists, reads }))
    }

    pub(super) fn cloud(&self) -> &dyn AnyCloud {
        &*self.0.cloud
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of this Service's, at most [`MAX_AGE`] old. One list answers for all Services that come at the same
    /// time; a few reads by name are cheaper than a list of many pages.
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
            // The list was not whole.
            None => self.find(identity).await,
        }
    }

    /// What is known of a Service's that is about to go. If that must be read it is read for certain: its removal needs no
    /// other read then, and would need one after a list.
    pub(super) async fn look_up_to_remove(&self, identity: &Identity<'_>) -> Result<Found> {
        let recalled = self.state().recall(identity);
        match recalled {
            Some(found) => self.whole(found).await,
            None => self.find(identity).await,
        }
    }

    /// What was read for certain just now, if it was and nothing was changed since.
    pub(super) async fn found_right_before(&self, identity: &Identity<'_>) -> Result<Option<Found>> {
        let found = self.state().found_right_before(identity);
        match found {
            Some(found) => self.whole(found).await.map(Some),
            None => Ok(None),
        }
    }

    /// What is there, for certain.
    pub(super) async fn find(&self, identity: &Identity<'_>) -> Result<Found> {
        let began = Instant::now();
        // What a list lacks that is not complete may exist all the same.
        let found = self.cloud().read(Query::Owner(identity)).await?.complete()?.into_items();
        let seen: HashSet<String> = found.iter().map(|actual| actual.id.clone()).collect();
        let mut actuals: Vec<Shared> = found.into_iter().map(|actual| self.put_at(actual, began)).collect();
        // One that was renamed in the meantime, or whose name another one has now.
        let others = self.state().ids(identity).into_iter().filter(|id| !seen.contains(id)).collect::<Vec<_>>();
        for id in others {
            match self.one(&id).await? {
                Some(actual) => actuals.push(self.put_at(actual, began)),
                None => self.forget(&id),
            }
        }
        let found = self.whole(Found { actuals, is_certain: true }).await?;
        self.state().found_all(identity.uid(), began);
        Ok(found)
    }

    /// Whether nothing was seen of this Service's in the last list, however old that is. Enough to make one where the cloud
    /// refuses a second one of the same name.
    pub(super) fn has_never_seen(&self, identity: &Identity<'_>) -> bool {
        let state = self.state();
        state.listed.is_some() && !state.stale.contains(identity.uid()) && state.ids(identity).is_empty()
    }

    /// What is known and marked for a Service of this cluster that does not live. Only an id says that the Service was this
    /// cluster's: two may have one name. `None` before the first list.
    pub(super) fn orphans(&self, cluster: &Cluster, lives: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        let id = cluster.id.as_deref()?;
        let state = self.state();
        state.listed?;
        let actuals = state.entries.values().map(|entry| &entry.actual);
        let of_this_cluster = actuals.filter(|actual| actual.owner_tags.cluster.as_deref() == Some(id));
        let orphans = of_this_cluster.filter(|it| it.owner_tags.service.as_deref().is_some_and(|uid| !lives(uid)));
        Some(orphans.map(|actual| actual.place()).collect())
    }

    /// Reads the parts of those whose list did not tell them.
    async fn whole(&self, mut found: Found) -> Result<Found> {
        for actual in &mut found.actuals {
            if actual.tree.is_some() {
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

    /// Single reads are counted: once a list would have been as cheap it is read, so that many Services that come one by one
    /// cost at most twice what one list costs.
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

    /// Reads all, together with everybody who wants the same.
    async fn list(&self) -> Result<()> {
        self.0.lists.share((), self.clone(), false, Priority::default()).await
    }

    async fn read_list(&self) -> Result<()> {
        let began = Instant::now();
        let reading = self.cloud().read(Query::All(&self.0.sets)).await?;
        let is_whole = match &reading {
            Reading::Complete { .. } => true,
            Reading::Flawed { flaw, .. } => {
                tracing::warn!(%flaw, "load balancers that are missing in it are looked for one by one");
                false
            }
        };
        let pages = reading.pages();
        let items: Vec<Shared> = reading.into_items().into_iter().map(|actual| self.shared(actual)).collect();
        let mut state = self.state();
        state.merge(items, began, is_whole.then_some(pages));
        drop(state);
        self.0.sets.forget_unused();
        Ok(())
    }

    /// Reads all, past what is known. A partial list is an error.
    pub(super) async fn read_all(&self) -> Result<Vec<Actual>> {
        Ok(self.cloud().read(Query::All(&self.0.sets)).await?.complete()?.into_items())
    }

    fn shared(&self, actual: Actual) -> Shared {
        Arc::new(actual.sharing(&self.0.sets))
    }

    /// How old what is known of it may be: from when.
    pub(super) fn since(&self, id: &str) -> Option<Instant> {
        self.state().entries.get(id).map(|entry| entry.at)
    }

    /// Remembers what a certain read, or the answer to a write, has just told.
    pub(super) fn put(&self, actual: Actual) -> Shared {
        self.put_at(actual, Instant::now())
    }

    pub(super) fn put_at(&self, actual: Actual, at: Instant) -> Shared {
        let actual = self.shared(actual);
        self.state().insert(Entry { actual: Arc::clone(&actual), at, is_certain: true });
        actual
    }

    /// Remembers that it is gone; ids are never used twice.
    pub(super) fn forget(&self, id: &str) {
        let mut state = self.state();
        state.remove(id);
        if state.gone.len() >= MANY {
            state.gone.retain(|_, at| at.elapsed() < SETTLING);
        }
        state.gone.insert(id.to_owned(), Instant::now());
    }

    /// Remembers nothing of it any more.
    pub(super) fn evict(&self, id: &str) {
        self.state().remove(id);
    }

    /// Notes that this Service takes over what is nobody's; who else does, if one that lives came first. That holds until what
    /// anybody read before the first one marked it is surely forgotten.
    pub(super) fn claim(&self, id: &str, uid: &str, lives: impl Fn(&str) -> Option<String>) -> Option<String> {
        let mut state = self.state();
        state.claimed.retain(|_, (_, at)| at.elapsed() < SETTLING);
        let other = state.claimed.get(id).filter(|(owner, _)| owner != uid);
        if let Some(other) = other.and_then(|(owner, _)| lives(owner)) {
            return Some(other);
        }
        state.claimed.insert(id.to_owned(), (uid.to_owned(), Instant::now()));
        None
    }

    /// From now on nobody knows what is there for this Service, until [`settle`](Self::settle) or [`find`](Self::find). Said
    /// before a request is sent, so that it holds for one whose answer is never heard, too.
    pub(super) fn mark_stale(&self, uid: &str) {
        let mut state = self.state();
        state.stale.insert(uid.to_owned());
        state.found.remove(uid);
        state.deferred.remove(uid);
    }

    /// The cloud had no time to make one where nothing was. Nothing needs to be read before it is tried again, nor verified by
    /// a control read: that has happened, and if it was made all the same the next try is a conflict.
    pub(super) fn defer_creation(&self, identity: &Identity<'_>) {
        let mut state = self.state();
        state.stale.remove(identity.uid());
        if state.deferred.len() >= MANY {
            state.deferred.retain(|_, (_, at)| at.elapsed() < DEFERRED);
        }
        state.deferred.insert(identity.uid().to_owned(), (identity.name.clone(), Instant::now()));
    }

    /// Returns `true` if a [deferred creation](Self::defer_creation) was the last that happened, and nothing was seen of this
    /// Service's since.
    pub(super) fn is_creation_deferred(&self, identity: &Identity<'_>) -> bool {
        let state = self.state();
        let deferred = state.deferred.get(identity.uid());
        deferred.is_some_and(|(name, at)| *name == identity.name && at.elapsed() < DEFERRED)
    }

    /// The request was answered.
    pub(super) fn settle(&self, uid: &str) {
        self.state().stale.remove(uid);
    }

    /// Reads one on which the cloud is at work, together with all others that are awaited; without its parts if the cloud is
    /// asked for less.
    pub(super) async fn poll(&self, id: &str) -> Result<Option<Shared>> {
        let in_a_moment = |_| Instant::now() + WINDOW;
        match self.0.reads.join_at((), (self.clone(), id.to_owned()), in_a_moment).await {
            Ok(seen) => Ok(seen.get(id).cloned()),
            // One that cannot be read is no news of the others (INV-6).
            Err(_) => self.read(id).await,
        }
    }

    async fn read_many(&self, ids: &[String]) -> Result<Arc<HashMap<String, Shared>>> {
        let began = Instant::now();
        let read = self.cloud().read(Query::Ids(ids, Detail::State)).await?.complete()?.into_items();
        // A busy load balancer that was read in part is news only for the callers that wait for it.
        let keep = |actual: Actual| match actual.tree {
            Some(_) => self.put_at(actual, began),
            None => Arc::new(actual),
        };
        let read: HashMap<_, _> = read.into_iter().map(|actual| (actual.id.clone(), keep(actual))).collect();
        for id in ids.iter().filter(|id| !read.contains_key(*id)) {
            self.forget(id);
        }
        Ok(Arc::new(read))
    }

    async fn one(&self, id: &str) -> Result<Option<Actual>> {
        let ids = [id.to_owned()];
        let read = self.cloud().read(Query::Ids(&ids, Detail::Whole)).await?.complete()?;
        Ok(read.into_items().pop())
    }

    /// Reads one, whole.
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
    /// What is known and not too old; `None`: the cloud must be asked.
    fn recall(&self, identity: &Identity<'_>) -> Option<Found> {
        if self.stale.contains(identity.uid()) {
            return None;
        }
        let is_young = |at: Instant| at.elapsed() < MAX_AGE;
        let is_ours = |entry: &Entry| entry.actual.owner_tags.service.as_deref() == Some(identity.uid());
        let ids = self.ids(identity);
        let mut entries = ids.iter().filter_map(|id| self.entries.get(id));
        let known = self.listed.is_some_and(is_young) || entries.any(|entry| is_ours(entry) && is_young(entry.at));
        known.then(|| Found { actuals: self.actuals(identity), is_certain: false })
    }

    fn found_all(&mut self, uid: &str, began: Instant) {
        self.stale.remove(uid);
        if self.found.len() >= MANY {
            self.found.retain(|_, at| at.elapsed() < RIGHT_BEFORE);
        }
        self.found.insert(uid.to_owned(), began);
    }

    fn found_right_before(&self, identity: &Identity<'_>) -> Option<Found> {
        self.found.get(identity.uid()).filter(|at| at.elapsed() < RIGHT_BEFORE)?;
        Some(Found { actuals: self.actuals(identity), is_certain: true })
    }

    fn actuals(&self, identity: &Identity<'_>) -> Vec<Shared> {
        self.ids(identity).iter().filter_map(|id| self.entries.get(id)).map(|entry| Arc::clone(&entry.actual)).collect()
    }

    fn ids(&self, identity: &Identity<'_>) -> BTreeSet<String> {
        identity.handles().filter_map(|handle| self.handles.get(handle)).flatten().cloned().collect()
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
                self.insert(Entry { actual, at: began, is_certain: false });
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
        let Some(entry) = self.entries.remove(id) else { return };
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

fn handles(actual: &Actual) -> impl Iterator<Item = &str> {
    [Some(&*actual.name), actual.owner_tags.service.as_deref(), actual.legacy_owner.as_deref()].into_iter().flatten()
}
