//! Map of bounded size that evicts the least recently used entry.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Keeps at most `capacity` entries.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    capacity: usize,
    entries: HashMap<K, (V, u64)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K: Eq + Hash + Copy, V> Lru<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Returns the value of `key`, created by `init` if it is missing; counts as a use.
    pub(crate) fn get_or_insert_with(&mut self, key: K, init: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if let Some((_, used)) = self.entries.get(&key) {
            self.by_use.remove(used);
        } else if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(self.uses, key);
        let entry = self.entries.entry(key).or_insert_with(|| (init(), 0));
        entry.1 = self.uses;
        &mut entry.0
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.by_use.len());
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_goes_first() {
        let mut lru = Lru::new(2);
        for (key, value) in [(1, 'a'), (2, 'b'), (1, 'x'), (3, 'c')] {
            lru.get_or_insert_with(key, || value);
        }
        assert_eq!(lru.len(), 2);
        assert_eq!(*lru.get_or_insert_with(1, || 'n'), 'a', "1 was used after 2");
        assert_eq!(*lru.get_or_insert_with(2, || 'n'), 'n', "2 was forgotten");
    }
}
