//! Stored objects of a cache, and its subscribers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::hold::{Hold, HoldOptions};
use super::{CacheEvent, Cached, Resync};

type Objects<T> = BTreeMap<Box<str>, Slot<T>>;
type Handler<T> = Box<dyn Fn(&CacheEvent<T>) + Send + Sync>;

/// The cached objects of a kind, by key. Clones are handles to the same cache.
///
/// Reads never wait for the network. Objects are shared and must not be changed (RT-21).
///
/// ```
/// use cloud_provider::Node;
/// use runtime::cache::Cache;
///
/// let nodes: Cache<Node> = Cache::with(["b", "a"].map(|name| Node { name: name.into(), ..Node::default() }));
/// assert!(nodes.is_synced());
/// assert!(nodes.get("a").is_some() && nodes.get("c").is_none());
/// assert_eq!(nodes.list().iter().map(|n| &*n.name).collect::<Vec<_>>(), ["a", "b"]);
/// ```
pub struct Cache<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    objects: RwLock<Objects<T>>,
    /// Locked while a change is applied and reported, so that subscribers receive all changes in order, once.
    subscribers: Mutex<Subscribers<T>>,
    subscribed: Notify,
    synced: watch::Sender<bool>,
}

struct Slot<T> {
    object: Arc<T>,
    /// Number of the last list that contained the object.
    list: u32,
}

struct Subscribers<T> {
    all: Vec<Subscriber<T>>,
    /// Number of the list that is being read, or was read last.
    list: u32,
    /// Objects that are kept although the last list lacks them.
    hold: Hold,
}

/// Result of a complete list: the objects that it put on hold or confirmed as deleted.
#[derive(Debug)]
pub(super) struct Listed<T> {
    /// Objects of the list.
    pub(super) present: usize,
    /// Objects that the list lacks and that are held from now on.
    pub(super) held: Vec<Arc<T>>,
    /// Objects that were held until now and are removed, because this list confirmed their deletion.
    pub(super) confirmed: Vec<Arc<T>>,
}

struct Subscriber<T> {
    handler: Handler<T>,
    resync: Resync,
    next_resync: Option<Instant>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> std::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("synced", &*self.shared.synced.borrow())
            .finish_non_exhaustive()
    }
}

impl<T: Cached> Default for Cache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Cached> Cache<T> {
    /// Creates an empty cache that is not filled yet.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            objects: RwLock::new(BTreeMap::new()),
            subscribers: Mutex::new(Subscribers {
                all: Vec::new(),
                list: 0,
                hold: Hold::default(),
            }),
            subscribed: Notify::new(),
            synced: watch::Sender::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Creates a synced cache with the given objects, for tests and for the subcommand `plan`.
    #[must_use]
    pub fn with(objects: impl IntoIterator<Item = T>) -> Self {
        let cache = Self::new();
        objects.into_iter().for_each(|object| cache.insert(object));
        cache.shared.synced.send_replace(true);
        cache
    }

    /// Returns the object with this key: `<namespace>/<name>`, or `<name>` without a namespace.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.read(|objects| objects.get(key).map(|slot| Arc::clone(&slot.object)))
    }

    /// Returns the cached objects, sorted by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        self.read(|objects| {
            objects
                .values()
                .map(|slot| Arc::clone(&slot.object))
                .collect()
        })
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Returns `true` if the cache has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the cache has been filled completely at least once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Returns once the cache has been filled completely. Subscribers have received all objects by then.
    pub async fn wait_synced(&self) {
        // The sender lives as long as `self`, so there is always an answer.
        _ = self
            .shared
            .synced
            .subscribe()
            .wait_for(|synced| *synced)
            .await;
    }

    /// Calls `handler` on every change from now on, and at once for each object that is there already.
    ///
    /// Handlers run one after the other on the task that reads the watch: they add a key to a queue and return. They
    /// may read the cache, which contains the change already; they must not subscribe or write to it.
    pub fn subscribe(
        &self,
        resync: Resync,
        handler: impl Fn(&CacheEvent<T>) + Send + Sync + 'static,
    ) {
        let mut subscribers = self.subscribers();
        for object in self.list() {
            handler(&CacheEvent::Added(object));
        }
        let next_resync = resync.after(Instant::now());
        subscribers.all.push(Subscriber {
            handler: Box::new(handler),
            resync,
            next_resync,
        });
        drop(subscribers);
        self.shared.subscribed.notify_one();
    }

    /// Adds or replaces an object and notifies the subscribers. An object of the same resource version (if it has one)
    /// keeps its `Arc`, and the update has it as old and new.
    pub fn insert(&self, object: T) {
        let mut subscribers = self.subscribers();
        let list = subscribers.list;
        subscribers.hold.release(&object.key());
        let event = self.write(|objects| match objects.entry(object.key().into()) {
            Entry::Vacant(entry) => {
                let object = Arc::new(object);
                entry.insert(Slot {
                    object: Arc::clone(&object),
                    list,
                });
                CacheEvent::Added(object)
            }
            Entry::Occupied(mut entry) => {
                let slot = entry.get_mut();
                slot.list = list;
                let old = Arc::clone(&slot.object);
                let version = object.resource_version();
                if version.is_empty() || version != old.resource_version() {
                    slot.object = Arc::new(object);
                }
                CacheEvent::Updated {
                    old,
                    new: Arc::clone(&slot.object),
                }
            }
        });
        subscribers.notify(&event);
    }

    /// Removes an object and notifies the subscribers; does nothing if the object is missing.
    pub fn remove(&self, key: &str) {
        let mut subscribers = self.subscribers();
        subscribers.hold.release(key);
        if let Some(slot) = self.write(|objects| objects.remove(key)) {
            subscribers.notify(&CacheEvent::Deleted(slot.object));
        }
    }

    /// Sends every object to every subscriber as an update, like a resync.
    pub fn resync(&self) {
        let subscribers = self.subscribers();
        for object in self.list() {
            subscribers.notify(&CacheEvent::Updated {
                old: Arc::clone(&object),
                new: object,
            });
        }
    }

    /// Removes an object that was deleted in the given state, and notifies the subscribers of that state.
    pub(super) fn remove_as(&self, last: T) {
        let mut subscribers = self.subscribers();
        subscribers.hold.release(&last.key());
        if self.write(|objects| objects.remove(&*last.key())).is_some() {
            subscribers.notify(&CacheEvent::Deleted(Arc::new(last)));
        }
    }

    /// Begins a list: objects that are not inserted before [`end_list`](Self::end_list) are removed.
    pub(super) fn begin_list(&self) {
        let mut subscribers = self.subscribers();
        subscribers.list = subscribers.list.wrapping_add(1);
    }

    /// Holds objects that later lists lack (see [`HoldOptions`]).
    pub(super) fn hold(&self, options: HoldOptions) {
        self.subscribers().hold.begin(options);
    }

    /// Returns the number of objects that are kept although the last list lacks them.
    #[must_use]
    pub fn held(&self) -> usize {
        self.subscribers().hold.len()
    }

    /// Returns the time at which the held objects must be listed again; `None` if no object is held.
    pub(super) fn hold_ends(&self) -> Option<Instant> {
        self.subscribers().hold.ends()
    }

    /// Completes a list: removes the objects that the list lacks, except those that are held.
    pub(super) fn end_list(&self, now: Instant) -> Listed<T> {
        let mut subscribers = self.subscribers();
        let list = subscribers.list;
        let was_synced = self.is_synced();
        let (missing, present) = self.read(|objects| {
            let missing = objects
                .iter()
                .filter(|(_, slot)| slot.list != list)
                .map(|(key, _)| key.clone());
            let missing: Vec<Box<str>> = missing.collect();
            let present = objects.len() - missing.len();
            (missing, present)
        });
        // A cache that was never complete has no objects that could have been lost.
        let decision = if was_synced {
            subscribers.hold.judge(now, missing, present)
        } else {
            missing.into()
        };
        let take = |key: &str| {
            self.write(|objects| objects.remove(key))
                .map(|slot| slot.object)
        };
        let confirmed: Vec<_> = decision
            .confirmed
            .iter()
            .filter_map(|key| take(key))
            .collect();
        let gone: Vec<_> = decision.gone.iter().filter_map(|key| take(key)).collect();
        for object in confirmed.iter().chain(&gone) {
            subscribers.notify(&CacheEvent::Deleted(Arc::clone(object)));
        }
        let held = decision
            .held
            .iter()
            .filter_map(|key| self.get(key))
            .collect();
        drop(subscribers);
        self.shared.synced.send_replace(true);
        Listed {
            present,
            held,
            confirmed,
        }
    }

    /// Performs the resyncs that are due and returns the time of the next one.
    pub(super) fn resync_due(&self, now: Instant) -> Option<Instant> {
        let mut subscribers = self.subscribers();
        let mut objects = None;
        for subscriber in subscribers
            .all
            .iter_mut()
            .filter(|s| s.next_resync.is_some_and(|at| at <= now))
        {
            subscriber.next_resync = subscriber.resync.after(now);
            for object in objects.get_or_insert_with(|| self.list()).iter() {
                let old = Arc::clone(object);
                let new = Arc::clone(object);
                subscriber.notify(&CacheEvent::Updated { old, new });
            }
        }
        subscribers.all.iter().filter_map(|s| s.next_resync).min()
    }

    /// Returns when a subscriber was added since the last call.
    pub(super) async fn subscribed(&self) {
        self.shared.subscribed.notified().await;
    }

    fn read<R>(&self, f: impl FnOnce(&Objects<T>) -> R) -> R {
        f(&self.shared.objects.read())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Objects<T>) -> R) -> R {
        f(&mut self.shared.objects.write())
    }

    fn subscribers(&self) -> MutexGuard<'_, Subscribers<T>> {
        self.shared.subscribers.lock()
    }
}

impl<T> Subscribers<T> {
    fn notify(&self, event: &CacheEvent<T>) {
        self.all
            .iter()
            .for_each(|subscriber| subscriber.notify(event));
    }
}

impl<T> Subscriber<T> {
    /// Calls the handler and catches its panic, which must neither stop the watch (the cache would become stale) nor
    /// keep the event from other subscribers.
    fn notify(&self, event: &CacheEvent<T>) {
        if catch_unwind(AssertUnwindSafe(|| (self.handler)(event))).is_err() {
            tracing::error!("cache subscriber panicked, it misses a change until the next resync");
        }
    }
}

impl Resync {
    fn after(self, now: Instant) -> Option<Instant> {
        now.checked_add(self.period()?)
    }
}
