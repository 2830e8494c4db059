//! Rate limiters: delay before a failed key is retried.
//!
//! Pure: the time is passed in. [`Exponential`] considers the key alone, [`TokenBucket`] all keys together;
//! [`RateLimiter`] takes the longer delay of the two, as client-go's default does.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Per-key back-off: `min(cap, base · 2^k)`, `k` being the failures since the last success (RT-3).
///
/// ```
/// use runtime::limiter::Exponential;
/// use std::time::Duration;
///
/// let mut limiter = Exponential::new(Duration::from_secs(5), Duration::from_secs(300));
/// assert_eq!(limiter.delay(&"lb"), Duration::from_secs(5));
/// assert_eq!(limiter.delay(&"lb"), Duration::from_secs(10));
/// limiter.forget(&"lb");
/// assert_eq!(limiter.delay(&"lb"), Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct Exponential<K> {
    base: Duration,
    cap: Duration,
    failures: HashMap<K, u32>,
}

impl<K: Eq + Hash + Clone> Exponential<K> {
    /// Starts at `base` for a key's first failure and never exceeds `cap`.
    #[must_use]
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            failures: HashMap::new(),
        }
    }

    /// Counts a failure of `key` and returns its delay.
    pub fn delay(&mut self, key: &K) -> Duration {
        let failures = if let Some(failures) = self.failures.get_mut(key) {
            failures
        } else {
            self.failures.entry(key.clone()).or_default()
        };
        let exponent = *failures;
        *failures = failures.saturating_add(1);
        2_u32
            .checked_pow(exponent)
            .and_then(|factor| self.base.checked_mul(factor))
            .map_or(
                if self.base.is_zero() {
                    Duration::ZERO
                } else {
                    self.cap
                },
                |delay| delay.min(self.cap),
            )
    }

    /// Resets the failures of `key`: it succeeded, or is no longer needed.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Failures of `key` since it was last forgotten.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }
}

/// A token bucket shared by all keys: initially full with `burst` tokens, one more each `interval` (RT-4, RT-5).
///
/// Each call reserves a token, possibly one in the future. With a cap no delay is longer than that, but the token is
/// spent all the same: after a burst of `m` calls, isolated later ones wait the whole cap until the debt of `m ·
/// interval` is worked off.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    cap: Option<Duration>,
    /// Time at which the bucket is full again if no token is taken; the bucket is full if it lies in the past.
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a bucket with one new token each `interval` (zero: no limit), at most `burst` saved tokens, and delays
    /// of at most `cap`.
    #[must_use]
    pub fn new(interval: Duration, burst: u32, cap: Option<Duration>) -> Self {
        Self {
            interval,
            burst,
            cap,
            full_at: None,
        }
    }

    /// Takes a token and returns the delay until it is available.
    pub fn delay(&mut self, now: Instant) -> Duration {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let full_at = full_at.checked_add(self.interval).unwrap_or(full_at);
        self.full_at = Some(full_at);
        let wait = (full_at - now).saturating_sub(self.interval.saturating_mul(self.burst));
        self.cap.map_or(wait, |cap| wait.min(cap))
    }

    /// Takes a token if one is there right now.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let Some(full_at) = full_at.checked_add(self.interval) else {
            return false;
        };
        let is_there = full_at - now <= self.interval.saturating_mul(self.burst);
        if is_there {
            self.full_at = Some(full_at);
        }
        is_there
    }
}

/// The limiter of a [`Queue`](crate::queue::Queue): a failed key waits for the longer of a per-key back-off and a
/// shared bucket.
#[derive(Clone, Debug)]
pub struct RateLimiter<K> {
    exponential: Option<Exponential<K>>,
    bucket: Option<TokenBucket>,
}

impl<K: Eq + Hash + Clone> RateLimiter<K> {
    /// Returns client-go's default limiter (RT-4): 5 ms doubling up to 1000 s for each key, and 10 a second with a
    /// burst of 100 for all.
    #[must_use]
    pub fn standard() -> Self {
        Self::max_of(
            Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
            TokenBucket::new(Duration::from_millis(100), 100, None),
        )
    }

    /// Returns a limiter with a per-key back-off only (RT-3).
    #[must_use]
    pub fn exponential(base: Duration, cap: Duration) -> Self {
        Self {
            exponential: Some(Exponential::new(base, cap)),
            bucket: None,
        }
    }

    /// Returns a limiter with a shared bucket only (RT-5).
    #[must_use]
    pub fn bucket(bucket: TokenBucket) -> Self {
        Self {
            exponential: None,
            bucket: Some(bucket),
        }
    }

    /// Returns a limiter with the longer delay of both.
    #[must_use]
    pub fn max_of(exponential: Exponential<K>, bucket: TokenBucket) -> Self {
        Self {
            exponential: Some(exponential),
            bucket: Some(bucket),
        }
    }

    /// Counts a failure of `key` at `now` and returns its delay.
    pub fn delay(&mut self, now: Instant, key: &K) -> Duration {
        let exponential = self.exponential.as_mut().map(|e| e.delay(key));
        let bucket = self.bucket.as_mut().map(|b| b.delay(now));
        exponential.max(bucket).unwrap_or_default()
    }

    /// Forgets the failures of `key`.
    pub fn forget(&mut self, key: &K) {
        if let Some(exponential) = &mut self.exponential {
            exponential.forget(key);
        }
    }

    /// Failures of `key` since it was last forgotten; always 0 without a per-key part.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.exponential.as_ref().map_or(0, |e| e.failures(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let table: [(u64, u64, &[u64]); 3] = [
            (
                5_000,
                300_000,
                &[
                    5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000,
                ],
            ),
            (
                5,
                1_000_000,
                &[
                    5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_240, 20_480,
                ],
            ),
            (0, 10, &[0, 0, 0]),
        ];
        for (base, cap, delays) in table {
            let mut limiter = Exponential::new(ms(base), ms(cap));
            for (i, delay) in delays.iter().enumerate() {
                assert_eq!(
                    limiter.delay(&"k"),
                    ms(*delay),
                    "failure {i} of base {base}"
                );
            }
        }
    }

    #[test]
    fn thousands_of_failures_stay_at_the_cap() {
        let mut limiter = Exponential::new(ms(5), ms(1_000_000));
        for _ in 0..5_000 {
            limiter.delay(&1);
        }
        assert_eq!(limiter.delay(&1), ms(1_000_000));
        assert_eq!(limiter.failures(&1), 5_001);
        assert_eq!(limiter.delay(&2), ms(5), "keys do not share failures");
    }

    #[test]
    fn a_bucket_hands_out_reservations() {
        // interval, burst, cap (0: none), times of the calls, delays: QUE-004 … QUE-007 and debts beyond the cap.
        type Row<'a> = (u64, u32, u64, &'a [u64], &'a [u64]);
        let table: [Row<'_>; 6] = [
            (
                10_000,
                1,
                10_000,
                &[0, 0, 0, 0],
                &[0, 10_000, 10_000, 10_000],
            ),
            (10_000, 1, 10_000, &[0, 10_000, 20_000], &[0, 0, 0]),
            (10_000, 1, 10_000, &[0, 4_000], &[0, 6_000]),
            (100, 3, 0, &[0, 0, 0, 0, 0, 1_000], &[0, 0, 0, 100, 200, 0]),
            (
                10_000,
                1,
                10_000,
                &[0, 0, 0, 0, 15_000, 60_000],
                &[0, 10_000, 10_000, 10_000, 10_000, 0],
            ),
            (0, 1, 0, &[0, 0, 0], &[0, 0, 0]),
        ];
        for (interval, burst, cap, at, delays) in table {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(ms(interval), burst, (cap > 0).then(|| ms(cap)));
            let got: Vec<_> = at
                .iter()
                .map(|t| bucket.delay(start + ms(*t)).as_millis() as u64)
                .collect();
            assert_eq!(got, delays, "interval {interval}, calls at {at:?}");
        }
    }

    #[test]
    fn token_that_is_not_available_is_not_taken() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(ms(100), 2, None);
        assert!(bucket.try_take(start) && bucket.try_take(start));
        assert!(!bucket.try_take(start) && !bucket.try_take(start + ms(99)));
        assert!(bucket.try_take(start + ms(100)), "refusals cost nothing");
        assert!(!bucket.try_take(start + ms(100)));
    }

    #[test]
    fn the_longer_of_both_counts() {
        let now = Instant::now();
        let mut limiter = RateLimiter::max_of(
            Exponential::new(ms(5), ms(40)),
            TokenBucket::new(ms(100), 2, None),
        );
        let delays: Vec<_> = (0..4)
            .map(|_| limiter.delay(now, &"k").as_millis())
            .collect();
        assert_eq!(delays, [5, 10, 100, 200]);
        limiter.forget(&"k");
        assert_eq!(limiter.failures(&"k"), 0);
    }
}
