//! The log of failures that a periodic loop meets in every pass.
//!
//! A pass may run every few seconds, and an outage may last for hours: each failure is logged at once, then once a minute
//! with the number of failures and their duration.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Interval of the lines about one failure.
const INTERVAL: Duration = Duration::from_secs(60);
/// Time without a failure after which the next one is new, for example the failure of an object that was deleted.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The failures that last, by action and object.
#[derive(Default)]
pub(crate) struct FailureLog(Mutex<HashMap<(&'static str, Box<str>), LastingFailure>>);

struct LastingFailure {
    since: Instant,
    last: Instant,
    logged: Instant,
    count: u32,
}

/// The fields of a line that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueLine {
    /// Number of failures since the first.
    pub(crate) failures: u32,
    /// Time since the first failure.
    pub(crate) lasts: Duration,
}

impl FailureLog {
    /// Counts a failure of an action on an object, and returns the line if one is due. The texts of the failures may
    /// differ, because they often have a request ID.
    pub(crate) fn failed(
        &self,
        action: &'static str,
        object: &str,
        now: Instant,
    ) -> Option<DueLine> {
        let mut failures = self.0.lock();
        failures.retain(|_, failure| now.duration_since(failure.last) < FORGET_AFTER);
        let new = LastingFailure {
            since: now,
            last: now,
            logged: now,
            count: 0,
        };
        let failure = failures.entry((action, object.into())).or_insert(new);
        failure.count = failure.count.saturating_add(1);
        failure.last = now;
        let is_due = failure.count == 1 || now.duration_since(failure.logged) >= INTERVAL;
        if is_due {
            failure.logged = now;
        }
        is_due.then(|| DueLine {
            failures: failure.count,
            lasts: now.duration_since(failure.since),
        })
    }

    /// Ends the failures of an action on an object. Returns the number of failures and their duration, if there were any.
    pub(crate) fn succeeded(
        &self,
        action: &'static str,
        object: &str,
        now: Instant,
    ) -> Option<DueLine> {
        let failure = self.0.lock().remove(&(action, object.into()))?;
        Some(DueLine {
            failures: failure.count,
            lasts: now.duration_since(failure.since),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn lasting_failure_is_logged_at_once_and_then_once_a_minute_with_a_count() {
        let log = FailureLog::default();
        let start = Instant::now();
        let lines: Vec<_> = (0..36)
            .filter_map(|pass| log.failed("look-up", "", start + seconds(5 * pass)))
            .map(|due_line| due_line.failures)
            .collect();
        assert_eq!(lines, [1, 13, 25], "36 passes in three minutes");
        let end = log.succeeded("look-up", "", start + seconds(180)).unwrap();
        assert_eq!((end.failures, end.lasts), (36, seconds(180)));
        assert_eq!(log.succeeded("look-up", "", start + seconds(185)), None);
        assert_eq!(
            log.failed("look-up", "", start + seconds(190))
                .unwrap()
                .failures,
            1,
            "it is new"
        );
    }

    #[test]
    fn failures_of_other_objects_and_actions_are_logged_by_themselves() {
        let log = FailureLog::default();
        let start = Instant::now();
        for (action, object) in [("taint", "a"), ("taint", "b"), ("delete", "a")] {
            assert!(
                log.failed(action, object, start).is_some(),
                "{action} {object}"
            );
            assert!(
                log.failed(action, object, start + seconds(5)).is_none(),
                "{action} {object}"
            );
        }
    }

    #[test]
    fn failure_after_a_long_pause_is_new() {
        let log = FailureLog::default();
        let start = Instant::now();
        log.failed("taint", "a", start);
        assert_eq!(
            log.failed("taint", "a", start + FORGET_AFTER)
                .unwrap()
                .failures,
            1
        );
        assert_eq!(log.0.lock().len(), 1);
    }
}
