//! What is being done about the routes right now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::Destination;
use super::memory::Key;
use super::plan::{Creation, Deletion};

/// What is to be done about one destination: first the deletes, then the creates.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) destination: Destination,
    pub(super) deletes: Vec<Deletion>,
    pub(super) creates: Vec<Creation>,
}

impl Item {
    /// What back-off goes by: the destination, and whose it is to be. A route that is deleted and then not created stays
    /// the same item.
    pub(super) fn key(&self) -> Key {
        let mut hasher = DefaultHasher::new();
        for creation in &self.creates {
            super::plan::inputs_of(&creation.node).hash(&mut hasher);
        }
        (self.destination.clone(), hasher.finish())
    }

    /// Names of the routes that it deletes, in order.
    pub(super) fn deleted(&self) -> impl Iterator<Item = &str> {
        self.deletes.iter().map(|deletion| &*deletion.route.name)
    }
}

/// A plan as items: first what only deletes, because clouds limit the number of routes (P-33), then what replaces, then
/// what only creates.
pub(super) fn items(deletes: Vec<Deletion>, creates: Vec<Creation>) -> Vec<Item> {
    let mut by_destination: BTreeMap<Destination, Item> = BTreeMap::new();
    let empty =
        |destination: &Destination| Item { destination: destination.clone(), deletes: Vec::new(), creates: Vec::new() };
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

/// How an item ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) destination: Destination,
    /// What failed, in words.
    pub(super) failures: Vec<String>,
}

/// Items under way. One that hangs stays here while passes go on without it (INV-6).
#[derive(Default)]
pub(super) struct Work<'a> {
    running: FuturesUnordered<BoxFuture<'a, (u64, Done)>>,
    /// Number of the current pass, and how many of its items are under way.
    pass: u64,
    current: usize,
    /// Destinations that nobody else may touch, and what is being done about them.
    pub(super) in_flight: HashMap<Destination, Item>,
    /// Destinations that were worked on until after this pass began.
    pub(super) ended: HashSet<Destination>,
    /// What failed so far, in words.
    pub(super) failures: Vec<String>,
}

impl<'a> Work<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// From now on items belong to the next pass.
    pub(super) fn next_pass(&mut self) {
        (self.pass, self.current) = (self.pass.wrapping_add(1), 0);
        self.ended.clear();
    }

    pub(super) fn begin(&mut self, item: Item, carried_out: impl Future<Output = Done> + Send + 'a) {
        let pass = self.pass;
        self.in_flight.insert(item.destination.clone(), item);
        self.current += 1;
        self.running.push(async move { (pass, carried_out.await) }.boxed());
    }

    /// Waits for the next item to end; for ever if there is none. Cancel-safe.
    pub(super) async fn next(&mut self) {
        match self.running.next().await {
            Some((pass, Done { destination, failures })) => {
                self.current -= usize::from(pass == self.pass);
                self.in_flight.remove(&destination);
                self.ended.insert(destination);
                self.failures.extend(failures);
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for all items of this pass to end, or until then.
    pub(super) async fn drain(&mut self, until: Option<Instant>) {
        let patience = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(patience);
        while self.current > 0 {
            tokio::select! {
                biased;
                () = self.next() => {}
                () = &mut patience => return,
            }
        }
    }

    /// Waits for something else while the items go on.
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
