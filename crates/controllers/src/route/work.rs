//! The work on routes that is in progress.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::Destination;
use super::memory::Key;
use super::plan::{Creation, Deletion};

/// The changes of one destination: first the deletions, then the creations.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) destination: Destination,
    pub(super) deletes: Vec<Deletion>,
    pub(super) creates: Vec<Creation>,
}

impl Item {
    /// Returns the key of the back-off: the destination and the Nodes of its new routes. An item that was half done,
    /// with the old route deleted and the new one not created, has the same key.
    pub(super) fn key(&self) -> Key {
        let mut hasher = DefaultHasher::new();
        for creation in &self.creates {
            super::plan::inputs_of(&creation.node).hash(&mut hasher);
        }
        (self.destination.clone(), hasher.finish())
    }

    /// Returns the names of the routes that the item deletes, in order.
    pub(super) fn deleted(&self) -> impl Iterator<Item = &str> {
        self.deletes.iter().map(|deletion| &*deletion.route.name)
    }
}

/// Returns a plan as items: first those that only delete, because clouds limit the number of routes (P-33), then those
/// that replace, then those that only create.
pub(super) fn items(deletes: Vec<Deletion>, creates: Vec<Creation>) -> Vec<Item> {
    let mut by_destination: BTreeMap<Destination, Item> = BTreeMap::new();
    let empty = |destination: &Destination| Item {
        destination: destination.clone(),
        deletes: Vec::new(),
        creates: Vec::new(),
    };
    for deletion in deletes {
        let item = by_destination.entry(deletion.destination.clone());
        item.or_insert_with_key(empty).deletes.push(deletion);
    }
    for creation in creates {
        let item = by_destination.entry(creation.destination.clone());
        item.or_insert_with_key(empty).creates.push(creation);
    }
    let mut items: Vec<Item> = by_destination.into_values().collect();
    items.sort_by_key(|item| (!item.creates.is_empty(), item.deletes.is_empty()));
    items
}

/// The result of an item.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) destination: Destination,
    /// If set, a route was created or deleted.
    pub(super) has_changed: bool,
    /// Texts of the errors.
    pub(super) failures: Vec<String>,
}

/// The items in progress. An item that hangs stays here while further passes go on without it (INV-6).
#[derive(Default)]
pub(super) struct Work<'a> {
    running: FuturesUnordered<BoxFuture<'a, (u64, Done)>>,
    /// Number of the current pass, and of its items in progress.
    pass: u64,
    current: usize,
    /// Destinations that are locked, with their item in progress.
    pub(super) in_flight: HashMap<Destination, Item>,
    /// Destinations whose work ended after this pass began.
    pub(super) ended: HashSet<Destination>,
    /// If set, a route was created or deleted since the last pass that was counted.
    pub(super) has_changed: bool,
    /// Texts of the errors so far.
    pub(super) failures: Vec<String>,
}

impl<'a> Work<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Begins the next pass, to which further items belong.
    pub(super) fn next_pass(&mut self) {
        (self.pass, self.current) = (self.pass.wrapping_add(1), 0);
        self.ended.clear();
    }

    pub(super) fn begin(
        &mut self,
        item: Item,
        carried_out: impl Future<Output = Done> + Send + 'a,
    ) {
        let pass = self.pass;
        self.in_flight.insert(item.destination.clone(), item);
        self.current += 1;
        self.running
            .push(async move { (pass, carried_out.await) }.boxed());
    }

    /// Waits for the next item to end, forever if there is none. Cancel-safe.
    pub(super) async fn next(&mut self) {
        match self.running.next().await {
            Some((
                pass,
                Done {
                    destination,
                    has_changed,
                    failures,
                },
            )) => {
                self.has_changed |= has_changed;
                self.current -= usize::from(pass == self.pass);
                self.in_flight.remove(&destination);
                self.ended.insert(destination);
                self.failures.extend(failures);
            }
            None => std::future::pending().await,
        }
    }

    /// Waits until all items of this pass have ended, or until the given time.
    pub(super) async fn drain(&mut self, until: Option<Instant>) {
        let timeout = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timeout);
        while self.current > 0 {
            tokio::select! {
                biased;
                () = self.next() => {}
                () = &mut timeout => return,
            }
        }
    }

    /// Waits for another future while the items go on.
    pub(super) async fn alongside<T>(&mut self, other: impl Future<Output = T>) -> T {
        tokio::pin!(other);
        loop {
            tokio::select! {
                biased;
                output = &mut other => return output,
                () = self.next() => {}
            }
        }
    }
}
