//! Labels and annotations, in a compact form.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

/// A small read-only map of strings: the labels or annotations of one object.
///
/// The whole map takes two allocations, so that thousands of Nodes fit into a small process; lookups are binary
/// searches.
///
/// ```
/// use cloud_provider::StringMap;
///
/// let labels: StringMap = [("b", "2"), ("a", "1")].into_iter().collect();
/// assert_eq!(labels.get("a"), Some("1"));
/// assert_eq!(labels.iter().map(|(k, _)| k).collect::<Vec<_>>(), ["a", "b"]);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Hash)]
pub struct StringMap {
    /// Keys and values (key, value, key, value, …), in the order of the keys.
    text: Box<str>,
    /// End offset of each key and value in `text`.
    ends: Box<[u32]>,
}

impl StringMap {
    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut low = 0;
        let mut high = self.len();
        while low < high {
            let middle = low.midpoint(high);
            match self.piece(2 * middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(self.piece(2 * middle + 1)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Returns `true` if `key` is present, with any value.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Returns `true` if the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the pairs, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.len()).map(|i| (self.piece(2 * i), self.piece(2 * i + 1)))
    }

    fn piece(&self, index: usize) -> &str {
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        &self.text[start..self.ends[index] as usize]
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for StringMap {
    /// Collects pairs; a later pair with the same key replaces an earlier one.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs: Vec<(K, V)> = pairs.into_iter().collect();
        let sorted: BTreeMap<&str, &str> = pairs
            .iter()
            .map(|(k, v)| (k.as_ref(), v.as_ref()))
            .collect();
        let mut text = String::with_capacity(sorted.iter().map(|(k, v)| k.len() + v.len()).sum());
        let mut ends = Vec::with_capacity(sorted.len() * 2);
        for piece in sorted.iter().flat_map(|(k, v)| [k, v]) {
            text.push_str(piece);
            // An object of the Kubernetes API is a few MiB at most, far below 4 GiB.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = Option::<BTreeMap<String, Option<String>>>::deserialize(deserializer)?
            .unwrap_or_default();
        Ok(map
            .into_iter()
            .map(|(k, v)| (k, v.unwrap_or_default()))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_map_behaves_like_an_ordered_map() {
        for n in 0..9 {
            let plain: BTreeMap<String, String> = (0..n)
                .map(|i| (format!("k{}", i * 7 % 9), format!("v{i}")))
                .collect();
            let packed: StringMap = plain.iter().collect();
            assert_eq!(packed.len(), plain.len());
            assert!(
                packed
                    .iter()
                    .eq(plain.iter().map(|(k, v)| (k.as_str(), v.as_str())))
            );
            for key in ["", "a", "k0", "k4", "k8", "z"] {
                assert_eq!(
                    packed.get(key),
                    plain.get(key).map(String::as_str),
                    "{key} of {n}"
                );
            }
        }
    }

    #[test]
    fn an_empty_value_is_a_value() {
        let map: StringMap = [("exclude", "")].into_iter().collect();
        assert!(map.contains_key("exclude"));
        assert!(!map.contains_key("other"));
    }
}
