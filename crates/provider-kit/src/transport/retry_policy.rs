//! Timeouts and retry policy of a client.

use std::time::Duration;

/// The timeouts and the retry policy of a [`Transport`](super::Transport).
///
/// ```
/// use std::time::Duration;
/// use provider_kit::transport::{Jitter, RetryPolicy};
///
/// // Five retries, after up to 1, 2, 4, 8 and 16 seconds.
/// let retry_policy = RetryPolicy {
///     timeout: Duration::from_secs(15),
///     max_attempts: 6,
///     total_timeout: Duration::from_secs(120),
///     backoff: Duration::from_secs(1),
///     longest_backoff: Duration::from_secs(60),
///     jitter: Jitter::Full,
///     ..RetryPolicy::default()
/// };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Timeout of one attempt, including the body; 30 s by default.
    pub timeout: Duration,
    /// Maximum number of attempts, including the first; 4 by default.
    pub max_attempts: u32,
    /// Timeout of one call with all its attempts and pauses; 60 s by default. A call fails at once if the delay before
    /// its next attempt would exceed the timeout.
    pub total_timeout: Duration,
    /// Delay before the second attempt, 250 ms by default; doubled for each further one, and jittered.
    pub backoff: Duration,
    /// The longest delay between two attempts, unless the cloud requests a longer one; 10 s by default.
    pub longest_backoff: Duration,
    /// Jitter of the delays.
    pub jitter: Jitter,
    /// The longest time that a call waits for the end of a pause or for the [budget](super::Budget); 10 s by default. A
    /// call that would wait longer fails at once with the time to retry after.
    pub longest_pause: Duration,
}

/// The jitter of delays between attempts, so that calls that failed together are not sent again together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Between half of the delay and all of it.
    Half,
    /// Between zero and the whole delay.
    Full,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            max_attempts: 4,
            total_timeout: Duration::from_secs(60),
            backoff: Duration::from_millis(250),
            longest_backoff: Duration::from_secs(10),
            jitter: Jitter::Half,
            longest_pause: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// Returns the policy for a single attempt that takes at most `longest`.
    pub(super) fn once(self, longest: Duration) -> Self {
        Self {
            timeout: self.timeout.min(longest),
            total_timeout: self.total_timeout.min(longest),
            longest_pause: self.longest_pause.min(longest),
            max_attempts: 1,
            ..self
        }
    }

    /// Returns the delay after the attempt with this number, counted from 1. `dice` is a random number from 0 to 1.
    pub(super) fn backoff(&self, attempt: u32, dice: f64) -> Duration {
        let whole = self
            .backoff
            .saturating_mul(2_u32.saturating_pow(attempt - 1))
            .min(self.longest_backoff);
        whole.mul_f64(match self.jitter {
            Jitter::Half => 0.5 + dice / 2.0,
            Jitter::Full => dice,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_tries_double_up_to_a_limit_and_are_spread() {
        let retry_policy = RetryPolicy {
            backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            jitter: Jitter::Full,
            ..RetryPolicy::default()
        };
        let times = [1, 2, 3, 6, 7, 40].map(|attempt| retry_policy.backoff(attempt, 1.0).as_secs());
        assert_eq!(times, [1, 2, 4, 32, 60, 60]);
        assert_eq!(retry_policy.backoff(3, 0.0), Duration::ZERO);
        assert_eq!(
            RetryPolicy {
                jitter: Jitter::Half,
                ..retry_policy
            }
            .backoff(3, 0.0),
            Duration::from_secs(2)
        );
    }
}
