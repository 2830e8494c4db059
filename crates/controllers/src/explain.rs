//! Rate limit for events that explain why an object waits (D-3, NODE-28).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cloud_provider::Error;
use tokio::time::Instant;

/// Time after which the same cause is repeated.
const REPEAT: Duration = Duration::from_secs(600);
/// Minimum time between two events about different causes that an operator must remove. Causes that may pass by
/// themselves wait for [`REPEAT`] even if their text changes, because it often contains a request ID or the remaining
/// seconds.
const PAUSE: Duration = Duration::from_secs(30);
/// Number of failures after which a cause that may pass by itself is reported.
const PATIENCE: u32 = 4;

/// Remembers the last explanation of each object, by UID.
#[derive(Default)]
pub(crate) struct Explainer {
    told: Mutex<HashMap<Box<str>, Told>>,
}

struct Told {
    failures: u32,
    /// Time and text of the last explanation.
    last: Option<(Instant, String)>,
}

impl Explainer {
    /// Returns `true` if an event about this failure is due now, and records the event.
    ///
    /// A cause that a person must remove (no such machine, an invalid annotation, a refused credential) is reported at
    /// once; a cause that may heal, such as a 503, only after some attempts.
    pub(crate) fn is_news(&self, uid: &str, error: &Error, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = told.entry(uid.into()).or_insert(Told { failures: 0, last: None });
        entry.failures += 1;
        if !needs_a_person(error) && entry.failures < PATIENCE {
            return false;
        }
        let text = error.to_string();
        let due = match &entry.last {
            None => true,
            Some((at, said)) => {
                now.duration_since(*at) >= if *said != text && needs_a_person(error) { PAUSE } else { REPEAT }
            }
        };
        if due {
            entry.last = Some((now, text));
        }
        due
    }

    /// Forgets an object that recovered or was deleted.
    pub(crate) fn forget(&self, uid: &str) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

fn needs_a_person(error: &Error) -> bool {
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
    fn a_cause_for_a_person_is_said_at_once_and_not_again_for_ten_minutes() {
        let (explainer, start) = (Explainer::default(), Instant::now());
        let error = Error::not_found("no machine of that name").context("failed");
        assert!(explainer.is_news(UID, &error, start));
        assert!(!explainer.is_news(UID, &error, start + Duration::from_secs(599)));
        assert!(explainer.is_news(UID, &error, start + Duration::from_secs(600)));
    }

    #[test]
    fn another_cause_waits_half_a_minute() {
        let (explainer, start) = (Explainer::default(), Instant::now());
        assert!(explainer.is_news(UID, &Error::invalid("a"), start));
        assert!(!explainer.is_news(UID, &Error::invalid("b"), start + Duration::from_secs(29)));
        assert!(explainer.is_news(UID, &Error::invalid("b"), start + Duration::from_secs(30)));
    }

    #[test]
    fn a_passing_failure_is_not_said() {
        let (explainer, now) = (Explainer::default(), Instant::now());
        let error = Error::other("503");
        assert!((1..PATIENCE).all(|_| !explainer.is_news(UID, &error, now)));
        assert!(explainer.is_news(UID, &error, now));
    }

    #[test]
    fn a_text_that_varies_is_no_news() {
        let (explainer, start) = (Explainer::default(), Instant::now());
        let said = (0u32..60)
            .filter(|n| explainer.is_news(UID, &Error::other(format!("503, request {n}")), start + *n * PAUSE))
            .count();
        assert_eq!(said, 3, "in half an hour");
    }

    #[test]
    fn a_success_starts_anew() {
        let (explainer, now) = (Explainer::default(), Instant::now());
        assert!(explainer.is_news(UID, &Error::invalid("a"), now));
        explainer.forget("u");
        assert!(explainer.is_news(UID, &Error::invalid("a"), now));
    }
}
