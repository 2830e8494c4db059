//! How long a token is used, and how often one is asked for: decisions without effects.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// What is left of a token at least, whatever the clocks say: they may differ.
const SHORTEST: Duration = Duration::from_secs(600);
/// The share of what is left during which a token is used.
const USED_SHARE: f64 = 0.8;
/// Pauses between the tries for a token; so there is one try more.
pub(super) const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// How long an old token that is still good is used before a new one is asked for again.
const UNTIL_NEXT_RENEWAL: Duration = Duration::from_secs(30);
/// A token that was refused this soon after it was made: a newer one would be refused too.
const FRESH: Duration = Duration::from_secs(5);

/// When a token was made, when it is to be renewed, and when it is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    made: Instant,
    renew: Instant,
    end: Instant,
}

/// What to do about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It is good.
    None,
    /// A new one is wanted; where there is none to be had, the old one still serves.
    Renew,
    /// There is no good one.
    Fetch,
}

impl Lifetime {
    /// Of a token that was made now, and expires at `expires` by the server's clock.
    pub(super) fn new(expires: Timestamp, wall: Timestamp, now: Instant) -> Self {
        let left: SignedDuration = expires.duration_since(wall);
        let left = Duration::try_from(left).unwrap_or_default().max(SHORTEST);
        Self { made: now, renew: now + left.mul_f64(USED_SHARE), end: now + left }
    }

    pub(super) fn need(&self, now: Instant) -> Need {
        if now < self.renew {
            Need::None
        } else if now < self.end {
            Need::Renew
        } else {
            Need::Fetch
        }
    }

    /// After a renewal that failed: when it is tried again.
    pub(super) fn postponed(self, now: Instant) -> Self {
        Self { renew: (now + UNTIL_NEXT_RENEWAL).min(self.end), ..self }
    }

    /// Whether the server had time to forget this token, so that a request that it refused may be sent with another.
    pub(super) fn may_be_outdated(&self, now: Instant) -> bool {
        now.duration_since(self.made) >= FRESH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_token_is_used_for_most_of_what_is_left_of_it() {
        let (wall, now) = (Timestamp::UNIX_EPOCH, Instant::now());
        // Seconds left by this clock: used for so long, good for so long.
        let table = [
            (3600, 2880, 3600),
            (86_400, 69_120, 86_400),
            (600, 480, 600),
            (599, 480, 600),
            (0, 480, 600),
            (-7200, 480, 600),
        ];
        for (left, used, good) in table {
            let lifetime = Lifetime::new(wall + SignedDuration::from_secs(left), wall, now);
            let needs = [0, used - 1, used, good - 1, good].map(|after| lifetime.need(now + seconds(after)));
            assert_eq!(needs, [Need::None, Need::None, Need::Renew, Need::Renew, Need::Fetch], "{left}");
        }
    }

    #[test]
    fn a_renewal_that_failed_is_tried_again_soon_and_not_after_the_end() {
        let (wall, now) = (Timestamp::UNIX_EPOCH, Instant::now());
        let lifetime = Lifetime::new(wall + SignedDuration::from_secs(3600), wall, now);
        let at = now + seconds(2880);
        let postponed = lifetime.postponed(at);
        assert_eq!((postponed.need(at + seconds(29)), postponed.need(at + seconds(30))), (Need::None, Need::Renew));
        let late = lifetime.postponed(now + seconds(3590));
        assert_eq!(late.need(now + seconds(3600)), Need::Fetch);
    }

    #[test]
    fn only_a_token_that_had_time_to_be_forgotten_is_replaced_at_once() {
        let (wall, now) = (Timestamp::UNIX_EPOCH, Instant::now());
        let lifetime = Lifetime::new(wall, wall, now);
        assert!(!lifetime.may_be_outdated(now + seconds(4)) && lifetime.may_be_outdated(now + seconds(5)));
    }
}
