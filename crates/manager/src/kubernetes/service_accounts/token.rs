//! Lifetime of tokens and pauses between requests: pure decisions.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Minimum remaining lifetime that is assumed for a new token, whatever the local clock says.
const SHORTEST: Duration = Duration::from_secs(600);
/// The share of the remaining lifetime after which a token is renewed.
const USED_SHARE: f64 = 0.8;
/// Pauses between the attempts to request a token; there is one attempt more than pauses.
pub(super) const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Time until the next attempt after a failed renewal, while the old token is still valid.
const UNTIL_NEXT_RENEWAL: Duration = Duration::from_secs(30);
/// Age below which a refused token is not replaced: a newer token would be refused as well.
const FRESH: Duration = Duration::from_secs(5);

/// The times at which a token was issued, is due for renewal and expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    made: Instant,
    renew: Instant,
    end: Instant,
}

/// Action that follows from the age of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The token is valid and not due for renewal.
    None,
    /// The token is due for renewal, and still valid if the renewal fails.
    Renew,
    /// No valid token exists.
    Fetch,
}

impl Lifetime {
    /// Returns the lifetime of a token that was issued now and expires at `expires` by the server's clock.
    pub(super) fn new(expires: Timestamp, wall: Timestamp, now: Instant) -> Self {
        let left: SignedDuration = expires.duration_since(wall);
        let left = Duration::try_from(left).unwrap_or_default().max(SHORTEST);
        Self {
            made: now,
            renew: now + left.mul_f64(USED_SHARE),
            end: now + left,
        }
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

    /// Returns the lifetime after a failed renewal, with a later renewal.
    pub(super) fn postponed(self, now: Instant) -> Self {
        Self {
            renew: (now + UNTIL_NEXT_RENEWAL).min(self.end),
            ..self
        }
    }

    /// Returns `true` if the token is old enough that the server may have stopped accepting it. A refused request is
    /// then sent again with a new token.
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
        let wall = Timestamp::UNIX_EPOCH;
        let now = Instant::now();
        // Remaining seconds by this clock, seconds until renewal, seconds until expiry.
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
            let needs = [0, used - 1, used, good - 1, good]
                .map(|after| lifetime.need(now + seconds(after)));
            assert_eq!(
                needs,
                [
                    Need::None,
                    Need::None,
                    Need::Renew,
                    Need::Renew,
                    Need::Fetch
                ],
                "{left}"
            );
        }
    }

    #[test]
    fn a_renewal_that_failed_is_tried_again_soon_and_not_after_the_end() {
        let wall = Timestamp::UNIX_EPOCH;
        let now = Instant::now();
        let lifetime = Lifetime::new(wall + SignedDuration::from_secs(3600), wall, now);
        let at = now + seconds(2880);
        let postponed = lifetime.postponed(at);
        assert_eq!(
            (
                postponed.need(at + seconds(29)),
                postponed.need(at + seconds(30))
            ),
            (Need::None, Need::Renew)
        );
        let late = lifetime.postponed(now + seconds(3590));
        assert_eq!(late.need(now + seconds(3600)), Need::Fetch);
    }

    #[test]
    fn refused_token_is_replaced_at_once_only_if_it_is_old_enough() {
        let wall = Timestamp::UNIX_EPOCH;
        let now = Instant::now();
        let lifetime = Lifetime::new(wall, wall, now);
        assert!(
            !lifetime.may_be_outdated(now + seconds(4))
                && lifetime.may_be_outdated(now + seconds(5))
        );
    }
}
