//! In-memory storage: objects, one revision counter, and for each resource a bounded history of changes.
//!
//! An object is serialised once, when it is written; lists, reads and watchers share those bytes. The bytes lack `kind`
//! and `apiVersion`, because items of a list do not carry them; [`Stored::single`] puts them in front.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;

/// An object as written, at one revision.
#[derive(Debug)]
pub(crate) struct Stored {
    /// `NAMESPACE/NAME`, or `NAME`.
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    /// JSON without `kind` and `apiVersion`.
    pub(crate) body: Bytes,
}

impl Stored {
    /// Returns the parsed object.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the object with its kind, as a read of one object answers.
    pub(crate) fn single(&self, kind: &str, api_version: &str) -> Bytes {
        with_kind(&self.body, kind, api_version)
    }
}

/// Puts `kind` and `apiVersion` in front of a JSON object.
pub(crate) fn with_kind(body: &[u8], kind: &str, api_version: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(body.len() + kind.len() + api_version.len() + 32);
    out.put_slice(b"{\"kind\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"apiVersion\":\"");
    out.put_slice(api_version.as_bytes());
    out.put_slice(b"\"");
    if body.len() > 2 {
        out.put_slice(b",");
    }
    out.put_slice(&body[1..]);
    out.freeze()
}

/// Kind of a change to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// A change in the history.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) change: Change,
    /// The object after the change; for a deletion its last state with the deletion's revision.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
}

/// Precondition of a write on the stored object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
}

/// Error for a write whose precondition on the stored object does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch;

/// The history before this revision was removed.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Compacted {
    pub(crate) oldest: u64,
}

/// A consistent view of one resource.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<Arc<Stored>>,
}

#[derive(Debug)]
struct Collection {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Objects that are forgotten for a while.
    hidden: BTreeMap<Arc<str>, Arc<Stored>>,
    history: VecDeque<Arc<Event>>,
    /// Oldest revision from which a watch can start without missing changes.
    oldest: u64,
    /// Revision of the newest change that was removed from the history. A watch that has received this change has
    /// missed nothing.
    lost: u64,
    changed: watch::Sender<u64>,
}

impl Default for Collection {
    fn default() -> Self {
        let objects = BTreeMap::new();
        let hidden = BTreeMap::new();
        Self {
            objects,
            hidden,
            history: VecDeque::new(),
            oldest: 0,
            lost: 0,
            changed: watch::Sender::new(0),
        }
    }
}

#[derive(Debug)]
struct StoreState {
    revision: u64,
    collections: HashMap<&'static str, Collection>,
}

/// The store. All methods are short critical sections; none waits.
#[derive(Debug)]
pub(crate) struct Store {
    state: Mutex<StoreState>,
    /// Changes kept per resource.
    capacity: usize,
}

impl Store {
    pub(crate) fn new(first_revision: u64, capacity: usize) -> Self {
        Self {
            state: Mutex::new(StoreState {
                revision: first_revision,
                collections: HashMap::new(),
            }),
            capacity,
        }
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        // A panic elsewhere cannot leave the maps half-changed: each method changes them at its end.
        self.state.lock()
    }

    /// Returns the revision of the latest write.
    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn get(&self, resource: &'static str, key: &str) -> Option<Arc<Stored>> {
        self.lock()
            .collections
            .get(resource)?
            .objects
            .get(key)
            .cloned()
    }

    /// Writes `value` (its `metadata.resourceVersion` is set here) if the object meets the precondition.
    pub(crate) fn put(
        &self,
        resource: &'static str,
        key: &str,
        expect: Expect,
        mut value: Value,
    ) -> Result<Arc<Stored>, Mismatch> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let collection = state.collections.entry(resource).or_default();
        let previous = collection.objects.get(key).cloned();
        match (expect, &previous) {
            (Expect::Absent, None) => {}
            (Expect::Revision(revision), Some(stored)) if stored.revision == revision => {}
            _ => return Err(Mismatch),
        }
        let stored = store_as(key, revision, &mut value);
        collection
            .objects
            .insert(stored.key.clone(), stored.clone());
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        collection.record(
            self.capacity,
            Event {
                revision,
                change,
                object: stored.clone(),
                previous,
            },
        );
        state.revision = revision;
        Ok(stored)
    }

    /// Removes the object if it is still at `revision`, and returns its last state, after `last` has changed it.
    pub(crate) fn remove(
        &self,
        resource: &'static str,
        key: &str,
        expected: u64,
        last: Option<Value>,
    ) -> Result<Arc<Stored>, Mismatch> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let collection = state.collections.entry(resource).or_default();
        let Some(previous) = collection
            .objects
            .get(key)
            .filter(|stored| stored.revision == expected)
            .cloned()
        else {
            return Err(Mismatch);
        };
        let mut value = last.unwrap_or_else(|| previous.value());
        let stored = store_as(key, revision, &mut value);
        collection.objects.remove(key);
        let event = Event {
            revision,
            change: Change::Deleted,
            object: stored.clone(),
            previous: Some(previous),
        };
        collection.record(self.capacity, event);
        state.revision = revision;
        Ok(stored)
    }

    /// Returns the current objects of a resource, sorted by key.
    pub(crate) fn snapshot(&self, resource: &'static str) -> Snapshot {
        let state = self.lock();
        let objects = state
            .collections
            .get(resource)
            .map(|c| c.objects.values().cloned().collect())
            .unwrap_or_default();
        Snapshot {
            revision: state.revision,
            objects,
        }
    }

    /// Returns the objects of a resource as they were at `revision`.
    pub(crate) fn snapshot_at(
        &self,
        resource: &'static str,
        revision: u64,
    ) -> Result<Snapshot, Compacted> {
        let state = self.lock();
        let Some(collection) = state.collections.get(resource) else {
            return Ok(Snapshot {
                revision,
                objects: Vec::new(),
            });
        };
        if revision < collection.oldest {
            return Err(Compacted {
                oldest: collection.oldest,
            });
        }
        let later = collection.after(revision);
        if later == collection.history.len() {
            return Ok(Snapshot {
                revision,
                objects: collection.objects.values().cloned().collect(),
            });
        }
        let mut objects = collection.objects.clone();
        for event in collection.history.iter().skip(later).rev() {
            match &event.previous {
                Some(previous) => objects.insert(previous.key.clone(), previous.clone()),
                None => objects.remove(&event.object.key),
            };
        }
        Ok(Snapshot {
            revision,
            objects: objects.into_values().collect(),
        })
    }

    /// Returns the first `limit` changes after `revision`, and the revision up to which they are all. A reader that is
    /// `new` may not start before a compaction; one that was there already only must not have missed anything.
    pub(crate) fn since(
        &self,
        resource: &'static str,
        revision: u64,
        new: bool,
        limit: usize,
    ) -> Result<(u64, Vec<Arc<Event>>), Compacted> {
        let state = self.lock();
        let Some(collection) = state.collections.get(resource) else {
            return Ok((state.revision, Vec::new()));
        };
        if revision
            < if new {
                collection.oldest
            } else {
                collection.lost
            }
        {
            return Err(Compacted {
                oldest: collection.oldest,
            });
        }
        let first = collection.after(revision);
        let events: Vec<_> = collection
            .history
            .iter()
            .skip(first)
            .take(limit)
            .cloned()
            .collect();
        let is_all = first + events.len() == collection.history.len();
        let last = events
            .last()
            .map(|event| event.revision)
            .filter(|_| !is_all);
        Ok((last.unwrap_or(state.revision), events))
    }

    /// Returns a receiver of the revision of each change to the resource.
    pub(crate) fn subscribe(&self, resource: &'static str) -> watch::Receiver<u64> {
        self.lock()
            .collections
            .entry(resource)
            .or_default()
            .changed
            .subscribe()
    }

    /// Removes all objects of a resource and its history, like a lost storage: no deletion is reported, and watches end
    /// with 410.
    pub(crate) fn lose_storage(&self, resource: &'static str) {
        self.replace(resource, |collection| {
            let objects = std::mem::take(&mut collection.objects);
            collection.hidden.extend(objects);
        });
    }

    /// Restores the hidden objects unchanged, except those whose names are in use by now. Watches end with 410.
    pub(crate) fn restore_storage(&self, resource: &'static str) {
        self.replace(resource, |collection| {
            for (key, stored) in std::mem::take(&mut collection.hidden) {
                collection.objects.entry(key).or_insert(stored);
            }
        });
    }

    fn replace(&self, resource: &'static str, change: impl FnOnce(&mut Collection)) {
        let mut state = self.lock();
        state.revision += 1;
        let revision = state.revision;
        let collection = state.collections.entry(resource).or_default();
        change(collection);
        collection.history.clear();
        (collection.oldest, collection.lost) = (revision, revision);
        collection.changed.send_replace(revision);
    }

    /// Removes the whole history, so that older watches expire.
    pub(crate) fn compact(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        for resource in crate::resources::RESOURCES {
            let collection = state
                .collections
                .entry(resource.storage().plural)
                .or_default();
            collection.lost = collection
                .history
                .back()
                .map_or(collection.lost, |event| event.revision);
            collection.history.clear();
            collection.oldest = revision;
        }
    }
}

impl Collection {
    /// Returns the index of the first change after `revision`.
    fn after(&self, revision: u64) -> usize {
        self.history
            .partition_point(|event| event.revision <= revision)
    }

    fn record(&mut self, capacity: usize, event: Event) {
        let revision = event.revision;
        self.history.push_back(Arc::new(event));
        while self.history.len() > capacity {
            if let Some(gone) = self.history.pop_front() {
                self.oldest = gone.revision;
                self.lost = gone.revision;
            }
        }
        self.changed.send_replace(revision);
    }
}

fn store_as(key: &str, revision: u64, value: &mut Value) -> Arc<Stored> {
    value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
    if let Some(map) = value.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    let body = serde_json::to_vec(value).unwrap_or_default();
    Arc::new(Stored {
        key: key.into(),
        revision,
        body: body.into(),
    })
}

/// Returns `NAMESPACE/NAME`, or `NAME` for a cluster-scoped object.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(
        || name.to_owned(),
        |namespace| format!("{namespace}/{name}"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store() -> Store {
        Store::new(10, 3)
    }

    fn put(store: &Store, name: &str, expect: Expect, text: &str) -> u64 {
        let value = json!({"metadata": {"name": name}, "data": text});
        store
            .put("configmaps", name, expect, value)
            .unwrap()
            .revision
    }

    #[test]
    fn a_snapshot_of_an_earlier_revision_shows_the_objects_of_then() {
        let store = store();
        let first = put(&store, "a", Expect::Absent, "1");
        let second = put(&store, "b", Expect::Absent, "1");
        put(&store, "a", Expect::Revision(first), "2");
        store.remove("configmaps", "b", second, None).unwrap();
        let then = store.snapshot_at("configmaps", second).unwrap();
        let shown: Vec<_> = then
            .objects
            .iter()
            .map(|o| (o.key.to_string(), o.value()["data"].clone()))
            .collect();
        assert_eq!(
            shown,
            [("a".to_owned(), json!("1")), ("b".to_owned(), json!("1"))]
        );
    }

    #[test]
    fn history_beyond_the_capacity_is_gone() {
        let store = store();
        let mut revision = put(&store, "a", Expect::Absent, "0");
        for text in ["1", "2", "3"] {
            revision = put(&store, "a", Expect::Revision(revision), text);
        }
        assert_eq!(
            store.since("configmaps", 10, true, 9).unwrap_err(),
            Compacted { oldest: 11 }
        );
        assert_eq!(store.since("configmaps", 11, true, 9).unwrap().1.len(), 3);
        assert_eq!(store.since("configmaps", 11, false, 2).unwrap().0, 13);
    }

    #[test]
    fn a_write_to_an_object_that_has_moved_on_is_refused() {
        let store = store();
        let revision = put(&store, "a", Expect::Absent, "1");
        put(&store, "a", Expect::Revision(revision), "2");
        let late = store.put(
            "configmaps",
            "a",
            Expect::Revision(revision),
            json!({"metadata": {}}),
        );
        assert_eq!(late.unwrap_err(), Mismatch);
    }
}
