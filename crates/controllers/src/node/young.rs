//! Nodes that were initialised a moment ago.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So long after its initialisation began, a Node is young: far longer than two writes take and a watch lags, far
/// shorter than a change of addresses may wait.
const YOUTH: Duration = Duration::from_secs(5);

/// Remembers Nodes by UID, from the moment when their first write begins.
///
/// An address pass that falls into a burst leaves them alone: the cache may show such a Node without its taint and still
/// without the addresses that are being written, and the pass would write them a second time.
#[derive(Default)]
pub(super) struct Young(Mutex<HashMap<Box<str>, Instant>>);

impl Young {
    /// The initialisation of a Node begins to be written.
    pub(super) fn note(&self, uid: &str, now: Instant) {
        self.lock().insert(uid.into(), now);
    }

    /// Whether a Node is young.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.lock().contains_key(uid)
    }

    /// Forgets those that are no longer young.
    pub(super) fn grow_up(&self, now: Instant) {
        let mut young = self.lock();
        young.retain(|_, since| now.duration_since(*since) < YOUTH);
        young.shrink_to_fit();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_young_for_five_seconds() {
        let (young, born) = (Young::default(), Instant::now());
        young.note("u", born);
        young.grow_up(born + Duration::from_secs(4));
        assert!(young.contains("u") && !young.contains("v"));
        young.grow_up(born + YOUTH);
        assert!(!young.contains("u"));
    }
}
