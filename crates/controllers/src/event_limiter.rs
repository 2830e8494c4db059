//! Rate limit for events that explain why an object waits (D-3, NODE-28).

use std::collections::HashMap;
use std::time::Duration;

use cloud_provider::Error;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time after which the same cause is repeated.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);
/// Minimum time between two events about different causes that an operator must remove. Causes that may pass by
/// themselves wait for [`REPEAT_INTERVAL`] even if their text changes, because it often contains a request ID or the
/// remaining seconds.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// Number of failures after which a cause that may pass by itself is reported.
const FAILURES_BEFORE_REPORT: u32 = 4;

/// Remembers the last explanation of each object, by UID.
#[derive(Default)]
pub(crate) struct EventLimiter {
    reported: Mutex<HashMap<Box<str>, ReportedFailure>>,
}

struct ReportedFailure {
    failures: u32,
    /// Time and text of the last explanation.
    last: Option<(Instant, String)>,
}

impl EventLimiter {
    /// Returns `true` if an event about this failure is due now, and records the event.
    ///
    /// A cause that a person must remove (no such machine, an invalid annotation, a refused credential) is reported at
    /// once; a cause that may heal, such as a 503, only after some attempts.
    pub(crate) fn take_due(&self, uid: &str, error: &Error, now: Instant) -> bool {
        let mut reported = self.reported.lock();
        let entry = reported.entry(uid.into()).or_insert(ReportedFailure {
            failures: 0,
            last: None,
        });
        entry.failures += 1;
        if !needs_operator(error) && entry.failures < FAILURES_BEFORE_REPORT {
            return false;
        }
        let text = error.to_string();
        let due = match &entry.last {
            None => true,
            Some((at, reported_text)) => {
                now.duration_since(*at)
                    >= if *reported_text != text && needs_operator(error) {
                        MIN_INTERVAL
                    } else {
                        REPEAT_INTERVAL
                    }
            }
        };
        if due {
            entry.last = Some((now, text));
        }
        due
    }

    /// Forgets an object that recovered or was deleted.
    pub(crate) fn forget(&self, uid: &str) {
        self.reported.lock().remove(uid);
    }
}

fn needs_operator(error: &Error) -> bool {
    error.chain().any(|e| {
        e.is_not_found()
            || e.is_disk_not_found()
            || e.is_invalid()
            || e.is_protected()
            || e.is_unauthorized()
            || e.is_quota()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "u";

    #[test]
    fn cause_for_an_operator_is_reported_at_once_and_again_after_ten_minutes() {
        let limiter = EventLimiter::default();
        let start = Instant::now();
        let error = Error::not_found("no machine of that name").context("failed");
        assert!(limiter.take_due(UID, &error, start));
        assert!(!limiter.take_due(UID, &error, start + Duration::from_secs(599)));
        assert!(limiter.take_due(UID, &error, start + Duration::from_secs(600)));
    }

    #[test]
    fn another_cause_waits_half_a_minute() {
        let limiter = EventLimiter::default();
        let start = Instant::now();
        assert!(limiter.take_due(UID, &Error::invalid("a"), start));
        assert!(!limiter.take_due(UID, &Error::invalid("b"), start + Duration::from_secs(29)));
        assert!(limiter.take_due(UID, &Error::invalid("b"), start + Duration::from_secs(30)));
    }

    #[test]
    fn passing_failure_is_reported_from_the_fourth_time_on() {
        let limiter = EventLimiter::default();
        let now = Instant::now();
        let error = Error::other("503");
        assert!((1..FAILURES_BEFORE_REPORT).all(|_| !limiter.take_due(UID, &error, now)));
        assert!(limiter.take_due(UID, &error, now));
    }

    #[test]
    fn varying_text_of_a_passing_failure_is_not_reported_again() {
        let limiter = EventLimiter::default();
        let start = Instant::now();
        let reports = (0u32..60)
            .filter(|n| {
                limiter.take_due(
                    UID,
                    &Error::other(format!("503, request {n}")),
                    start + *n * MIN_INTERVAL,
                )
            })
            .count();
        assert_eq!(reports, 3, "in half an hour");
    }

    #[test]
    fn success_resets_the_limit() {
        let limiter = EventLimiter::default();
        let now = Instant::now();
        assert!(limiter.take_due(UID, &Error::invalid("a"), now));
        limiter.forget("u");
        assert!(limiter.take_due(UID, &Error::invalid("a"), now));
    }
}
