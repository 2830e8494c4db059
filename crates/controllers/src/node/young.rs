//! Nodes whose initialization began within the last seconds.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Time after the beginning of its initialization during which a Node is young. Much longer than two writes and the lag
/// of a watch, much shorter than a change of addresses may wait.
const YOUTH: Duration = Duration::from_secs(5);

/// The young Nodes by UID, from the beginning of their first write.
///
/// The address pass skips young Nodes, because the cache may show such a Node without its taint and still without the
/// addresses that are being written, so that the pass would write them again.
#[derive(Default)]
pub(super) struct Young(Mutex<HashMap<Box<str>, Instant>>);

impl Young {
    /// Records that the initialization of a Node begins.
    pub(super) fn note(&self, uid: &str, now: Instant) {
        self.lock().insert(uid.into(), now);
    }

    /// Returns `true` if the Node is young.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.lock().contains_key(uid)
    }

    /// Removes the Nodes that are no longer young.
    pub(super) fn grow_up(&self, now: Instant) {
        let mut young = self.lock();
        young.retain(|_, since| now.duration_since(*since) < YOUTH);
        young.shrink_to_fit();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Instant>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_young_for_five_seconds() {
        let young = Young::default();
        let born = Instant::now();
        young.note("u", born);
        young.grow_up(born + Duration::from_secs(4));
        assert!(young.contains("u") && !young.contains("v"));
        young.grow_up(born + YOUTH);
        assert!(!young.contains("u"));
    }
}
