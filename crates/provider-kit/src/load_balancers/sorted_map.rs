//! A compact map for few entries, of which thousands are kept.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Index;

use serde::{Serialize, Serializer};

/// A map in the order of its keys, in one allocation of exactly its size.
///
/// A `BTreeMap` reserves room for eleven entries; a load balancer consists of some maps with two or three entries, and
/// a thousand load balancers are kept.
///
/// ```
/// use provider_kit::load_balancers::SortedMap;
///
/// let mut map: SortedMap<&str, u8> = [("b", 2), ("a", 1)].into_iter().collect();
/// assert_eq!(map.insert("b", 3), Some(2));
/// assert_eq!(map.keys().copied().collect::<String>(), "ab");
/// assert_eq!(map["b"], 3);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, V> SortedMap<K, V> {
    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the map has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// Returns the values, in the order of their keys.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Keeps the entries for which `keep` returns `true`.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    fn position<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0
            .binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.position(key).ok().map(|at| &self.0[at].1)
    }

    /// Returns `true` if the map contains the key.
    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.position(key).is_ok()
    }

    /// Sets a value, and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.position(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes an entry, and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.position(key).ok().map(|at| self.0.remove(at).1)
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    /// # Panics
    /// If the key is not there, as with every map.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the key is in the map")
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Serialize, V: Serialize> Serialize for SortedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorted_map_behaves_like_a_map(steps in prop::collection::vec((0_u8..8, prop::option::of(0_u8..4)), 0..40)) {
            let mut map = SortedMap::default(); let mut reference = BTreeMap::new();
            for (key, value) in steps {
                match value {
                    Some(value) => prop_assert_eq!(map.insert(key, value), reference.insert(key, value)),
                    None => prop_assert_eq!(map.remove(&key), reference.remove(&key)),
                }
                prop_assert!(map.iter().eq(&reference) && map.keys().rev().eq(reference.keys().rev()));
                prop_assert_eq!((map.get(&key), map.len()), (reference.get(&key), reference.len()));
            }
        }
    }
}
