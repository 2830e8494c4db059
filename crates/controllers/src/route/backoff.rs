//! Back-off of failed changes (P-2). Pure: the time is passed in.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Exponential back-off by key. A key can also be held until a given time.
///
/// ```
/// use controllers::route::backoff::Backoff;
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// let (now, second) = (Instant::now(), Duration::from_secs(1));
/// let mut backoff = Backoff::new(10 * second, 300 * second);
/// backoff.failed(now, "route");
/// assert!(backoff.waits(now + 9 * second, &"route") && !backoff.waits(now + 10 * second, &"route"));
/// assert_eq!(backoff.next_due(), Some(now + 10 * second));
/// backoff.succeeded(&"route");
/// assert_eq!(backoff.next_due(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Backoff<K> {
    base: Duration,
    cap: Duration,
    keys: HashMap<K, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    /// Time of the next attempt; `None` while an attempt is in progress.
    due: Option<Instant>,
}

impl<K: Eq + Hash> Backoff<K> {
    /// Creates a back-off that begins with `base` and doubles after each further failure, up to `cap`.
    #[must_use]
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            keys: HashMap::new(),
        }
    }

    /// Records that the key failed at `now`.
    pub fn failed(&mut self, now: Instant, key: K) {
        let base = self.base;
        let cap = self.cap;
        let entry = self.keys.entry(key).or_insert(Entry {
            failures: 0,
            due: None,
        });
        let delay = 2_u32
            .checked_pow(entry.failures)
            .and_then(|n| base.checked_mul(n))
            .map_or(cap, |d| d.min(cap));
        entry.failures = entry.failures.saturating_add(1);
        entry.due = entry.due.max(Some(now + delay));
    }

    /// Holds the key until then. Its failures are neither counted nor forgotten.
    pub fn hold(&mut self, until: Instant, key: K) {
        let entry = self.keys.entry(key).or_insert(Entry {
            failures: 0,
            due: None,
        });
        entry.due = entry.due.max(Some(until));
    }

    /// Records that an attempt has begun. The key is not due until it fails again.
    pub fn started(&mut self, key: &K) {
        if let Some(entry) = self.keys.get_mut(key) {
            entry.due = None;
        }
    }

    /// Records that the key succeeded, and forgets its failures.
    pub fn succeeded(&mut self, key: &K) {
        self.keys.remove(key);
    }

    /// Returns `true` if the key must not be tried yet at `now`.
    #[must_use]
    pub fn waits(&self, now: Instant, key: &K) -> bool {
        self.keys
            .get(key)
            .is_some_and(|entry| entry.due.is_some_and(|due| now < due))
    }

    /// Returns the earliest time at which a key is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.keys.values().filter_map(|entry| entry.due).min()
    }

    /// Returns the number of keys that failed or are held, and have not succeeded since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns `true` if there are no such keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes the keys that are no longer wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&K) -> bool) {
        self.keys.retain(|key, _| wanted(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_start_again_after_a_success() {
        let start = Instant::now();
        let seconds = |n| Duration::from_secs(n);
        let mut backoff = Backoff::new(seconds(10), seconds(300));
        let mut now = start;
        for delay in [10, 20, 40, 80, 160, 300, 300] {
            backoff.failed(now, 1);
            assert_eq!(backoff.next_due(), Some(now + seconds(delay)));
            now += seconds(delay);
            assert!(!backoff.waits(now, &1));
            backoff.started(&1);
            assert_eq!(backoff.next_due(), None, "it is under way");
        }
        backoff.succeeded(&1);
        backoff.failed(now, 1);
        assert_eq!(backoff.next_due(), Some(now + seconds(10)));
    }

    #[test]
    fn the_longer_of_a_hold_and_a_failure_counts() {
        let now = Instant::now();
        let seconds = |n| Duration::from_secs(n);
        let mut backoff = Backoff::new(seconds(10), seconds(300));
        backoff.hold(now + seconds(60), "a");
        backoff.failed(now, "a");
        backoff.failed(now, "b");
        assert!(backoff.waits(now + seconds(59), &"a") && !backoff.waits(now + seconds(59), &"b"));
        assert!(!backoff.waits(now, &"c"));
        backoff.retain(|key| *key == "b");
        assert!(!backoff.waits(now, &"a"));
    }
}
