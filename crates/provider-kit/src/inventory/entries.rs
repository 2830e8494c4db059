//! Machines that were read one by one, each cached on its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Key, Machine};

/// The age at which an entry is removed by a later read.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// The interval at which old entries are removed.
const SWEEP: Duration = Duration::from_secs(60);

pub(super) struct Entries<M> {
    by_id: HashMap<Box<str>, Entry<M>>,
    /// Machine IDs by name. A machine may have been renamed since.
    by_name: HashMap<Box<str>, Box<str>>,
    swept: Option<Instant>,
}

struct Entry<M> {
    machine: Arc<M>,
    /// The time at which the read began.
    read: Instant,
}

impl<M> Default for Entries<M> {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            by_name: HashMap::new(),
            swept: None,
        }
    }
}

impl<M: Machine> Entries<M> {
    pub(super) fn young(&self, key: Key<'_>, max_age: Duration) -> Option<&Arc<M>> {
        let entry = self.by_id.get(self.id(key)?)?;
        let is_this_match = match key {
            Key::Id(_) => true,
            Key::Name(name) => entry.machine.name() == name,
        };
        (is_this_match && entry.read.elapsed() <= max_age).then_some(&entry.machine)
    }

    pub(super) fn insert(&mut self, machine: &Arc<M>, read: Instant) {
        self.by_name
            .insert(machine.name().into(), machine.id().into());
        self.by_id.insert(
            machine.id().into(),
            Entry {
                machine: Arc::clone(machine),
                read,
            },
        );
        if self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
            self.swept = Some(Instant::now());
            self.by_id
                .retain(|_, entry| entry.read.elapsed() <= FORGOTTEN_AFTER);
            self.by_name.retain(|_, id| self.by_id.contains_key(id));
        }
    }

    /// Removes a machine that no longer exists.
    pub(super) fn remove(&mut self, key: Key<'_>) {
        if let Some(id) = self.id(key).map(Box::<str>::from) {
            self.by_id.remove(&id);
        }
        if let Key::Name(name) = key {
            self.by_name.remove(name);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.len().max(self.by_name.len())
    }

    fn id<'a>(&'a self, key: Key<'a>) -> Option<&'a str> {
        match key {
            Key::Id(id) => Some(id),
            Key::Name(name) => self.by_name.get(name).map(|id| &**id),
        }
    }
}
