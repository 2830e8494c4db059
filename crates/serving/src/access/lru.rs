//! A map of bounded size whose entries expire.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// Map of at most `capacity` entries that evicts the least recently used one.
pub(super) struct Lru<K, V> {
    capacity: usize,
    entries: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

struct Entry<V> {
    value: V,
    expires: Instant,
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    pub(super) fn get(&mut self, key: &K, now: Instant) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        self.by_use.remove(&entry.used);
        if entry.expires <= now {
            self.entries.remove(key);
            return None;
        }
        self.uses += 1;
        entry.used = self.uses;
        self.by_use.insert(self.uses, key.clone());
        Some(entry.value.clone())
    }

    pub(super) fn put(&mut self, key: K, value: V, expires: Instant) {
        if let Some(old) = self.entries.remove(&key) {
            self.by_use.remove(&old.used);
        }
        if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { value, expires, used: self.uses });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn an_entry_goes_when_its_time_is_over_or_others_were_used_since() {
        let (mut lru, now) = (Lru::new(2), Instant::now());
        let at = |n| now + Duration::from_secs(n);
        lru.put("a", 1, at(10));
        lru.put("b", 2, at(20));
        assert_eq!(lru.get(&"a", at(9)), Some(1));
        lru.put("c", 3, at(20));
        assert_eq!((lru.get(&"a", at(9)), lru.get(&"b", at(9))), (Some(1), None), "b was not used since");
        assert_eq!(lru.get(&"a", at(10)), None, "expired");
        lru.put("c", 4, at(30));
        lru.put("d", 5, at(30));
        assert_eq!((lru.get(&"c", at(21)), lru.get(&"d", at(21))), (Some(4), Some(5)));
        assert_eq!(lru.entries.len(), lru.by_use.len());
    }
}
