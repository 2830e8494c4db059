//! Failures of keys, and which of them the log has reported lately.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// A failure whose cause was reported is reported again only after this time.
const REPORTED_EVERY: Duration = Duration::from_secs(60);

/// A failure of a key that is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of attempts that failed, this one included.
    pub attempt: u32,
    /// The time until the next attempt.
    pub retry_in: Duration,
}

/// The cause that was last reported for each failing key.
pub(super) struct Reports<K>(HashMap<K, (u64, Instant)>);

impl<K> Default for Reports<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash + Clone> Reports<K> {
    /// Returns `true`, and takes note of the report, if the key failed for another cause than the one reported last, or
    /// if that report is old.
    pub(super) fn take_due(&mut self, key: &K, cause: &str, now: Instant) -> bool {
        let cause = fingerprint(cause);
        let is_due = self
            .0
            .get(key)
            .is_none_or(|(last, at)| *last != cause || now - *at >= REPORTED_EVERY);
        if is_due {
            self.0.insert(key.clone(), (cause, now));
        }
        is_due
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.0.remove(key);
    }
}

/// Returns a hash of the cause without its digits: times, ports and numbers of requests make no other cause.
fn fingerprint(cause: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    cause
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .for_each(|c| c.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_reported_at_once_and_then_once_a_minute() {
        let mut reports = Reports::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(reports.take_due(&"a", "503 after 3 s", at(0)));
        assert!(
            !reports.take_due(&"a", "503 after 4 s", at(1)),
            "the same cause"
        );
        assert!(
            reports.take_due(&"b", "503 after 4 s", at(1)),
            "another object"
        );
        assert!(reports.take_due(&"a", "quota", at(2)), "another cause");
        assert!(!reports.take_due(&"a", "quota", at(61)));
        assert!(reports.take_due(&"a", "quota", at(62)), "a minute later");
        reports.forget(&"a");
        assert!(
            reports.take_due(&"a", "quota", at(63)),
            "it succeeded meanwhile"
        );
    }
}
