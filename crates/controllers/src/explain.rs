//! When to say on an object why it waits (D-3, NODE-28).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cloud_provider::Error;
use tokio::time::Instant;

/// The same cause is repeated after this long.
const REPEAT: Duration = Duration::from_secs(600);
/// Another cause for a person is said after this long at the earliest. Of one that may heal the text often varies with
/// every try (a request id, the seconds left), so it waits as long as a repeated one.
const PAUSE: Duration = Duration::from_secs(30);
/// A cause that may heal by itself is said from this failure on.
const PATIENCE: u32 = 4;

/// Remembers what was said of which object, by UID.
#[derive(Default)]
pub(crate) struct Explainer {
    told: Mutex<HashMap<Box<str>, Told>>,
}

struct Told {
    failures: u32,
    /// When and what, if anything was said.
    last: Option<(Instant, String)>,
}

impl Explainer {
    /// Whether this failure is worth an event now.
    ///
    /// A cause that a person must remove (no such machine, a bad annotation, a refused credential) is said at once; one
    /// that may heal by itself, such as a 503, only after some tries.
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

    /// All is well with it, or it is gone.
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
