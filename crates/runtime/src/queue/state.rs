//! The queue as a state machine without a clock, tasks or locks. The time is passed to every call.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Number of keys that a call added, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added(pub(super) usize);

/// Keys and where they are. A key is
/// * *pending* from an add until a worker takes the key, with the time of the first add;
/// * *ready* while the key is pending and not in progress;
/// * *running* from being taken until `done`; it may be pending at the same time, and is ready again after `done`;
/// * *waiting* for a delay to end, independently of the above.
#[derive(Debug)]
pub(super) struct QueueState<K> {
    ready: VecDeque<K>,
    pending: HashMap<K, Instant>,
    running: HashMap<K, Instant>,
    /// Delayed keys, by due time, then by order of arrival.
    waiting: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    arrivals: u64,
    shut_down: bool,
}

impl<K: Eq + Hash + Clone> QueueState<K> {
    pub(super) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            pending: HashMap::new(),
            running: HashMap::new(),
            waiting: BTreeMap::new(),
            due: HashMap::new(),
            arrivals: 0,
            shut_down: false,
        }
    }

    /// Makes keys ready whose delay is over, in the order of their due times; they count as added when they fell due.
    pub(super) fn promote(&mut self, now: Instant) -> Added {
        let mut added = 0;
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let ((at, _), key) = first.remove_entry();
            self.due.remove(&key);
            added += self.add(key, at).0;
        }
        Added(added)
    }

    /// Adds a key that is ready now.
    pub(super) fn add(&mut self, key: K, now: Instant) -> Added {
        if self.shut_down {
            return Added(0);
        }
        let Entry::Vacant(entry) = self.pending.entry(key.clone()) else {
            return Added(0);
        };
        entry.insert(now);
        if !self.running.contains_key(&key) {
            self.ready.push_back(key);
        }
        Added(1)
    }

    /// Adds a key that is ready at `at`; the earlier time wins if it waits already.
    pub(super) fn add_at(&mut self, key: K, at: Instant) {
        if self.shut_down {
            return;
        }
        if let Some(slot) = self.due.get(&key) {
            if slot.0 <= at {
                return;
            }
            self.waiting.remove(slot);
        }
        let slot = (at, self.arrivals);
        self.arrivals += 1;
        self.due.insert(key.clone(), slot);
        self.waiting.insert(slot, key);
    }

    /// Takes the first ready key, with how long it was pending.
    pub(super) fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let key = self.ready.pop_front()?;
        let since = self.pending.remove(&key).unwrap_or(now);
        self.running.insert(key.clone(), now);
        Some((key, now.saturating_duration_since(since)))
    }

    /// Ends the work on a key, and returns its duration; `None` if the key was not in progress.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let since = self.running.remove(key)?;
        if self.pending.contains_key(key) {
            self.ready.push_back(key.clone());
        }
        Some(now.saturating_duration_since(since))
    }

    /// Stops accepting keys. Waiting keys are dropped; ready keys stay.
    pub(super) fn shut_down(&mut self) {
        self.shut_down = true;
        self.waiting.clear();
        self.due.clear();
    }

    /// Drops ready and pending keys, but not keys in progress.
    pub(super) fn discard(&mut self) {
        self.ready.clear();
        self.pending.clear();
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Returns the number of keys that wait for a worker, including keys in progress that were added again.
    pub(super) fn depth(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the time at which the first waiting key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns sum and maximum of the ages of the keys being worked on.
    pub(super) fn running_ages(&self, now: Instant) -> (Duration, Duration) {
        self.running
            .values()
            .map(|since| now.saturating_duration_since(*since))
            .fold((Duration::ZERO, Duration::ZERO), |(sum, max), age| {
                (sum.saturating_add(age), max.max(age))
            })
    }

    /// Asserts the invariants that hold after any sequence of calls.
    #[cfg(test)]
    pub(super) fn check(&self)
    where
        K: std::fmt::Debug,
    {
        let ready: std::collections::HashSet<_> = self.ready.iter().collect();
        assert_eq!(
            ready.len(),
            self.ready.len(),
            "a key is ready twice: {:?}",
            self.ready
        );
        for key in &self.ready {
            assert!(
                self.pending.contains_key(key),
                "{key:?} is ready but not pending"
            );
            assert!(
                !self.running.contains_key(key),
                "{key:?} is ready while it is worked on"
            );
        }
        for key in self.pending.keys() {
            assert!(
                ready.contains(key) || self.running.contains_key(key),
                "{key:?} is lost"
            );
        }
        assert_eq!(self.due.len(), self.waiting.len());
        for (slot, key) in &self.waiting {
            assert_eq!(self.due.get(key), Some(slot), "{key:?} waits twice");
        }
    }
}
