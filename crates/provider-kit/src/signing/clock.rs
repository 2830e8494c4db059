//! The time of a cloud whose clock differs from that of this machine.

use std::sync::atomic::{AtomicI64, Ordering};

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

/// The largest difference of clocks that is not corrected, in seconds.
const TOLERANCE: i64 = 60;

/// The time of the cloud, for signatures: the clock of this machine, corrected by the date of an answer that refused a signature.
#[derive(Debug, Default)]
pub struct CloudClock(AtomicI64);

impl CloudClock {
    /// Returns the time of the cloud.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(self.0.load(Ordering::Relaxed))
    }

    /// Corrects the clock by the `Date` of an answer to a request that was signed at `signed`. Returns `true` if that time was wrong
    /// by more than a minute.
    pub fn correct(&self, signed: Timestamp, answer: &HeaderMap) -> bool {
        let date = answer.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok())
        else {
            return false;
        };
        let is_wrong = (date.as_second() - signed.as_second()).abs() > TOLERANCE;
        if is_wrong {
            let offset = date.as_second() - Timestamp::now().as_second();
            tracing::warn!(
                seconds = offset,
                "signatures follow the clock of the cloud, which differs from that of this machine"
            );
            self.0.store(offset, Ordering::Relaxed);
        }
        is_wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_follows_the_date_of_an_answer() {
        let clock = CloudClock::default();
        let answer = |date: &str| HeaderMap::from_iter([(DATE, date.parse().unwrap())]);
        let first = clock.now();
        assert!(
            !clock.correct(first, &HeaderMap::new()) && !clock.correct(first, &answer("yesterday"))
        );
        let date = "Tue, 01 Jan 2030 12:00:00 GMT";
        assert!(
            clock.correct(first, &answer(date)),
            "the clock is corrected"
        );
        assert!(
            clock.correct(first, &answer(date)),
            "a request of the same time was wrong, too"
        );
        assert!(!clock.correct(clock.now(), &answer("Tue, 01 Jan 2030 12:00:30 GMT")));
        assert_eq!(clock.now().to_string()[..16], *"2030-01-01T12:00");
    }
}
